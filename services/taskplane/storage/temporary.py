"""Databases for tests: new files with the schema of a package, gone when they are closed.

The migrations run once in a process, for a template; each database is a copy of it. Nothing is synced to disk.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from taskplane.storage.compiled import Statements
from taskplane.storage.engine import Engine
from taskplane.storage.migrate import upgrade
from taskplane.storage.sqlite import open_sqlite

_FILE: Final = "temporary.db"

_lock: Final = threading.Lock()
_statements: Final = Statements()
_templates: Final[dict[str, bytes]] = {}


@asynccontextmanager
async def open_temporary(package: str) -> AsyncGenerator[Engine]:
    """Open a database of its own with the schema of `package` (such as "taskplane.tasks"); it is deleted at the end.

    Errors as in `open_engine`.
    """
    content = await template(package)
    with TemporaryDirectory(prefix="taskplane-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / _FILE
        # Some hundred kilobytes, which no disk needs to have.
        file.write_bytes(content)
        async with open_sqlite(file, readers=1, durability="none", statements=_statements) as engine:
            yield engine


async def template(package: str) -> bytes:
    """Return the content of a SQLite file with the schema of `package` and no rows."""
    if package not in _templates:
        await asyncio.to_thread(_make, package)
    return _templates[package]


def _make(package: str) -> None:
    # Tests may have an event loop in each of several threads.
    with _lock:
        if package in _templates:
            return
        with TemporaryDirectory(prefix="taskplane-", ignore_cleanup_errors=True) as folder:
            file = Path(folder) / _FILE
            asyncio.run(upgrade(f"sqlite:///{file}", package))
            _templates[package] = file.read_bytes()
