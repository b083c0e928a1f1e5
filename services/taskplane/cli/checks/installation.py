"""Checks of this installation, without a server."""

import platform
import sys
from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from taskplane.api import __version__
from taskplane.cli.checks.finding import Finding
from taskplane.storage.sqlite import version_warning

_OLDEST_PYTHON: Final = (3, 11)


def installation() -> Iterator[Finding]:
    """Check the versions of Python and SQLite, and whether the web page was built."""
    python = platform.python_version()
    if sys.version_info < _OLDEST_PYTHON:
        yield Finding("failed", "python", f"{python} is too old", "Use Python 3.11 or newer.")
    else:
        yield Finding("ok", "python", f"{python}, taskplane {__version__}")
    warning = version_warning()
    if warning:
        yield Finding(
            "warning",
            "sqlite",
            warning,
            "Let no other program write to the database files, or use PostgreSQL or a Python with a newer SQLite.",
        )
    else:
        yield Finding("ok", "sqlite", "its version has no known fault with WAL files")
    if (files("taskplane.gateway") / "dist" / "index.html").is_file():
        yield Finding("ok", "page", "the web page is part of this installation")
    else:
        yield Finding(
            "warning", "page", "this installation has no web page", "Build it in a clone of the repository:  make ui"
        )
