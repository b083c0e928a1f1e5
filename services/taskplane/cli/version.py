"""`taskplane --version`: the versions that a bug report needs."""

import platform
import sqlite3
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from taskplane.api import __version__

_PARTS: Final = ("grpcio", "protobuf", "sqlalchemy", "asyncpg", "starlette", "uvicorn")


def versions() -> str:
    """Return one line per part, taskplane first."""
    lines = [f"taskplane {__version__}", f"python {platform.python_version()}"]
    for part in _PARTS:
        try:
            lines.append(f"{part} {version(part)}")
        except PackageNotFoundError:
            lines.append(f"{part} not installed")
    return "\n".join([*lines, f"sqlite {sqlite3.sqlite_version}"])
