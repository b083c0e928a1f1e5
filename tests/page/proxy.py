"""Proxies that serve a plane below a path: our own, which passes on to the byte what comes for it, and nginx."""

import asyncio
import getpass
import re
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlsplit

from tests.repo.tree import ROOT
from tests.support.ports import free_port

NGINX: Final = """
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
async def below(path: str, url: str) -> AsyncGenerator[str]:
    """The address at which the plane at `url` is served below `path`, which begins with a slash and ends without."""
    behind = urlsplit(url)

    async def relayed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line, _, headers = head.partition(b"\r\n")
        method, target, version = line.split(b" ")
        if not target.startswith(f"{path}/".encode()):
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        there, onward = await asyncio.open_connection(behind.hostname, behind.port)
        try:
            # One connection for each request, so that no other head has to be changed.
            rest = b"\r\n".join(each for each in headers.split(b"\r\n") if not each.lower().startswith(b"connection:"))
            onward.write(b" ".join((method, target.removeprefix(path.encode()), version)) + b"\r\n")
            onward.write(b"Connection: close\r\n" + rest)
            await _first(_copied(reader, onward), _copied(there, writer))
        finally:
            onward.close()

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await relayed(reader, writer)
        writer.close()

    server = await asyncio.start_server(passed, "127.0.0.1", 0)
    try:
        port: int = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}{path}"
    finally:
        server.close()


@asynccontextmanager
async def below_in_nginx(url: str) -> AsyncGenerator[str]:
    """The address at which nginx serves the plane at `url`, with the lines of docs/page.md."""
    port = free_port()
    [given] = re.findall(r"```nginx\n(location (\S+)/ .*?)```", (ROOT / "docs/page.md").read_text(), re.DOTALL)
    location = given[0].replace("http://127.0.0.1:8080", url)
    assert url in location
    with TemporaryDirectory() as folder:
        (Path(folder) / "nginx.conf").write_text(NGINX.format(user=getpass.getuser(), port=port, location=location))
        process = await asyncio.create_subprocess_exec("nginx", "-p", folder, "-c", "nginx.conf")
        try:
            while True:
                with suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                assert process.returncode is None
                await asyncio.sleep(0.02)
            yield f"http://127.0.0.1:{port}{given[1]}"
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def _first(*copies: Coroutine[Any, Any, None]) -> None:
    """Copies both ways until one side is done."""
    tasks = [asyncio.create_task(copy) for copy in copies]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
