"""The process of a server of tools."""

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

SERVER = Path(__file__).with_name("mcp_server.py")
PLAIN = Path(__file__).with_name("stdio_server.py")


def command(pid_file: Path) -> str:
    """The command line that starts the server."""
    return f"{sys.executable} {SERVER} {pid_file}"


def plain_command(notes: Path, *more: str) -> str:
    """Returns the command line of a server that starts at once: see there."""
    return shlex.join([sys.executable, "-I", "-S", str(PLAIN), str(notes), *more])


def is_gone(pid_file: Path) -> Callable[[], bool]:
    """Whether the process that wrote its id there has ended."""

    def gone() -> bool:
        try:
            os.kill(int(pid_file.read_text().split()[0]), 0)
        except ProcessLookupError:
            return True
        return False

    return gone
