"""The blocks of a page in one shell, as they are for a reader who types them."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.cli.command import environment

SERVER: Final = "export TASKPLANE_URL=http://127.0.0.1:8080\n"
"""The line of a page that names the server."""


def run(blocks: Sequence[str], url: str, place: Path, *, timeout: float) -> list[str]:
    """Run the blocks in a folder, against the server at `url`, and return the output of each. `timeout`: seconds."""
    here = f"export TASKPLANE_URL={url}\n"
    script = ["set -eu"]
    for number, block in enumerate(blocks):
        script.append(f"{{\n{block.replace(SERVER, here)}\n}} > out.{number}")
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=place,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [(place / f"out.{number}").read_text() for number in range(len(blocks))]
