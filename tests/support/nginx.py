"""A real nginx on a free port, with one location."""

import asyncio
import getpass
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from tests.support.ports import free_port

NO_NGINX: Final = pytest.mark.skipif(
    not shutil.which("nginx"), reason="nginx is not installed; on Debian: apt install nginx"
)

_CONFIGURATION: Final = """
pid nginx.pid; error_log stderr; daemon off; user {user};
events {{}}
http {{
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy;
  fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {{ listen 127.0.0.1:{port}; {location} }}
}}
"""


@asynccontextmanager
async def nginx(location: str, folder: Path | None = None) -> AsyncGenerator[str]:
    """The address of an nginx with these lines. `folder`: the folder of its configuration, which may have more
    files."""
    port = free_port()
    with TemporaryDirectory() as made:
        place = folder or Path(made)
        (place / "nginx.conf").write_text(_CONFIGURATION.format(user=getpass.getuser(), port=port, location=location))
        process = await asyncio.create_subprocess_exec("nginx", "-p", str(place), "-c", "nginx.conf")
        try:
            while True:
                with suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                assert process.returncode is None
                await asyncio.sleep(0.02)
            yield f"http://127.0.0.1:{port}"
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
