"""The process of a server of tools."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

SERVER = Path(__file__).with_name("mcp_server.py")


def command(pid_file: Path) -> str:
    """The command line that starts the server."""
    return f"{sys.executable} {SERVER} {pid_file}"


def is_gone(pid_file: Path) -> Callable[[], bool]:
    """Whether the process that wrote its id there has ended."""

    def gone() -> bool:
        try:
            os.kill(int(pid_file.read_text()), 0)
        except ProcessLookupError:
            return True
        return False

    return gone
