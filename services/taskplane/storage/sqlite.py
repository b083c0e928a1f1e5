"""SQLite: one thread and connection for writes, a pool of connections for reads, one process per file.

SQLite before 3.51.3 has the WAL-reset bug: two connections that write or checkpoint at once can corrupt a WAL file. So
one connection does both. A second process is refused. Memory mapping is off.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Concatenate, Final, NoReturn, ParamSpec, TypeVar

from sqlalchemy import Connection, exc, text

from taskplane.runtime.errors import Internal, Invalid
from taskplane.storage.compiled import Statements
from taskplane.storage.dialects import SQLITE
from taskplane.storage.driver_errors import damaged, translating
from taskplane.storage.lockfile import locked
from taskplane.storage.port import Engine, SqliteDurability
from taskplane.storage.reader import Readers
from taskplane.storage.writer import Writer, writing_engine

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)

_SAFE_VERSION: Final = (3, 51, 3)
_PROBE_TIMEOUT: Final = 5.0
_LOCK_WAIT: Final = 2.0


class SqliteEngine(Engine):
    """An open SQLite file."""

    dialect = SQLITE
    writers = 1

    def __init__(self, file: Path, writer: Writer, readers: Readers) -> None:
        self.url = f"sqlite:///{file}"
        self._file = file
        self._writer = writer
        self._readers = readers

    async def write(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await self._writer.run(fn, args, kwargs)
        except Exception as error:  # noqa: BLE001 - `_fail` translates it
            await self._fail(error)

    async def read(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await self._readers.run(lambda conn: fn(conn, *args, **kwargs))
        except Exception as error:  # noqa: BLE001 - `_fail` translates it
            await self._fail(error)

    async def probe(self) -> None:
        with translating():
            async with asyncio.timeout(_PROBE_TIMEOUT):
                await self._writer.probe()
                await self.read(_ping)

    async def _fail(self, error: Exception) -> NoReturn:
        with translating():
            try:
                if damaged(error) and isinstance(error, exc.DBAPIError | sqlite3.Error):
                    await self._writer.find_damage(error.orig if isinstance(error, exc.DBAPIError) else error)
                raise error
            finally:
                del error  # a frame that holds its own exception is a cycle


@asynccontextmanager
async def open_sqlite(
    file: Path, *, readers: int, durability: SqliteDurability, statements: Statements | None = None
) -> AsyncGenerator[SqliteEngine, None]:
    """Open the database in `file`. A missing file and its missing folder are created.

    See `open_engine`. Durability "none": no sync at all; only for temporary files. `statements`: compiled statements
    shared with other databases of this process.
    """
    if durability == "relaxed":
        _log.warning("durability is relaxed: a crash of this machine may lose the last commits to %s", file)
    async with AsyncExitStack() as stack:
        stack.enter_context(locked(file, wait=0.0))
        writer = Writer(file, durability, statements)
        stack.push_async_callback(writer.close)
        # Close the readers before the writer: the connection that closes last merges the WAL file into the database.
        reading = Readers(file, readers, statements)
        stack.push_async_callback(reading.close)
        with translating(), refusing_damaged(file):
            await writer.run(_ping)
            await reading.run(_ping)
        yield SqliteEngine(file, writer, reading)


async def run_alone_on_sqlite(
    file: Path, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Implement `run_alone`."""

    def alone() -> T:
        with locked(file, wait=_LOCK_WAIT):
            engine = writing_engine(file, "full", foreign_keys=False)
            try:
                with engine.begin() as conn:
                    result = fn(conn, *args, **kwargs)
                    broken = conn.execute(text("PRAGMA foreign_key_check")).fetchone()
                    if broken is not None:
                        raise Internal(f"a row of table {broken[0]} would refer to nothing in {broken[2]}")
                    return result
            finally:
                engine.dispose()

    with translating(), refusing_damaged(file):
        return await asyncio.to_thread(alone)


@contextmanager
def refusing_damaged(file: Path) -> Generator[None, None, None]:
    """Raise Invalid if the file is a folder, is damaged or is not a SQLite database. The latter two are errors of the
    body."""
    if file.is_dir():
        raise Invalid(
            f"{file} is a folder; a SQLite database must be a file",
            reason="DATABASE_IS_FOLDER",
            suggestion="move the folder away, or name another file in the database URL",
        )
    try:
        yield
    except Exception as error:
        if not damaged(error):
            raise
        raise Invalid(
            f"{file} is damaged or not a SQLite database",
            reason="DATABASE_DAMAGED",
            suggestion="restore a backup, or move the file away to start with an empty database",
        ) from error


def _ping(conn: Connection) -> None:
    conn.execute(text("SELECT 1"))


def version_warning(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> str:
    """Return a warning for versions before 3.51.3; "" otherwise. Older versions with a backport of the fix get the
    warning, too."""
    if version >= _SAFE_VERSION:
        return ""
    return (
        f"SQLite {'.'.join(map(str, version))} is older than {'.'.join(map(str, _SAFE_VERSION))}: in rare cases"
        " two programs that write to a database at once damage it (WAL-reset bug)"
    )
