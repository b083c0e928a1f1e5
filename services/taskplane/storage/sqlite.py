"""SQLite: one writing connection in a thread of its own, read-only connections through aiosqlite, one process per file.

Two connections that write or checkpoint at once can corrupt a WAL file (SQLite 3.7.0 to 3.51.2, WAL-reset bug), which
is why exactly one does, why a second process is refused, and why nothing is memory-mapped.
"""

import asyncio
import logging
import sqlite3
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar
from urllib.parse import quote

import aiosqlite
from sqlalchemy import URL, Connection, create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import StaticPool

from taskplane.runtime.errors import Internal, Refused, Unavailable
from taskplane.storage.dialects import SQLITE
from taskplane.storage.driver_errors import translated, translating
from taskplane.storage.engine import Durability, Engine, closing
from taskplane.storage.lockfile import locked
from taskplane.storage.writer import Writer

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)

_SAFE_VERSION: Final = (3, 51, 3)
_BUSY_TIMEOUT: Final = 5.0
_PROBE_TIMEOUT: Final = 5.0
_LOCK_WAIT: Final = 2.0
_CACHED_STATEMENTS: Final = 512
_INTERRUPT_AGAIN: Final = 0.02
# How `PRAGMA synchronous` answers.
_SYNCHRONOUS: Final[dict[Durability, tuple[str, int]]] = {"full": ("FULL", 2), "relaxed": ("NORMAL", 1)}


class SqliteEngine(Engine):
    """An open SQLite file."""

    dialect = SQLITE

    def __init__(self, path: Path, writer: Writer, readers: AsyncEngine) -> None:
        self.url = f"sqlite:///{path}"
        self._path = path
        self._writer = writer
        self._readers = readers
        self._abandoned: set[asyncio.Task[None]] = set()
        self._closed = False

    async def write(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(result: Any, error: BaseException | None) -> None:
            if answer.cancelled():
                return
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(translated(error))

        self._writer.submit(partial(fn, **kwargs) if kwargs else fn, args, done, answer.cancelled)
        return await answer

    def start(self, done: Callable[[Any, BaseException | None], None], fn: Callable[..., Any], *args: Any) -> None:
        def settle(result: Any, error: BaseException | None) -> None:
            done(result, error if error is None else translated(error))

        self._writer.submit(fn, args, settle)

    async def read(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._closed:
            raise closing()
        reading = _Reading()
        task = asyncio.ensure_future(reading.run(self._readers, lambda conn: fn(conn, *args, **kwargs)))
        try:
            with translating():
                return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                abandoned = asyncio.ensure_future(reading.interrupt(task))
                self._abandoned.add(abandoned)
                abandoned.add_done_callback(self._abandoned.discard)
            raise

    async def probe(self) -> None:
        if not self._path.exists():
            raise Unavailable(f"the database file {self._path} is gone", reason="DATABASE_DOWN", retry_after=1.0)
        with translating():
            async with asyncio.timeout(_PROBE_TIMEOUT):
                await self.write(_ping)
                await self.read(_ping)

    async def close(self) -> None:
        """Waits for reads that are being interrupted; the rest is closed by who opened it."""
        self._closed = True
        while self._abandoned:
            await asyncio.wait(self._abandoned)


class _Reading:
    """One read, which can be interrupted from outside without losing its connection."""

    def __init__(self) -> None:
        self._driver: aiosqlite.Connection | None = None

    async def run(self, engine: AsyncEngine, work: Callable[[Connection], T]) -> T:
        async with engine.connect() as conn:
            self._driver = await _driver_of(conn)
            try:
                return await conn.run_sync(work)
            finally:
                self._driver = None

    async def interrupt(self, task: "asyncio.Future[Any]") -> None:
        """Ends `task`, which runs this read."""
        while not task.done():
            if self._driver is None:
                task.cancel()
            else:
                # Only a statement that runs is interrupted, so once may be too early.
                await self._driver.interrupt()
            await asyncio.wait([task], timeout=_INTERRUPT_AGAIN)


async def _driver_of(conn: AsyncConnection) -> aiosqlite.Connection:
    driver: Any = (await conn.get_raw_connection()).driver_connection
    assert isinstance(driver, aiosqlite.Connection)
    return driver


@asynccontextmanager
async def opened_sqlite(file: Path, *, readers: int, durability: Durability) -> AsyncGenerator[SqliteEngine, None]:
    """The database in `file`, made with its folder if there is none; see `open_engine`."""
    _warn(file, durability)
    async with AsyncExitStack() as stack:
        stack.enter_context(locked(file, wait=0.0))
        writer = Writer(lambda: _writing_connection(file, durability))
        stack.push_async_callback(writer.stop)
        with translating():
            await writer.start()
        reading = _reading_engine(file, readers)
        stack.push_async_callback(reading.dispose)
        engine = SqliteEngine(file, writer, reading)
        stack.push_async_callback(engine.close)
        await engine.probe()
        yield engine


async def run_alone_on_sqlite(
    file: Path, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """See `run_alone`."""

    def alone() -> T:
        with locked(file, wait=_LOCK_WAIT):
            conn = _writing_connection(file, "full")
            try:
                conn.connection.driver_connection.execute("PRAGMA foreign_keys = OFF")  # type: ignore[union-attr]
                with conn.begin():
                    result = fn(conn, *args, **kwargs)
                    broken = conn.execute(text("PRAGMA foreign_key_check")).fetchone()
                    if broken is not None:
                        raise Internal(f"a row of table {broken[0]} would refer to nothing in {broken[2]}")
                return result
            finally:
                conn.close()
                conn.engine.dispose()

    with translating():
        return await asyncio.to_thread(alone)


def _writing_connection(file: Path, durability: Durability) -> Connection:
    # StaticPool: the one connection is never checked in, reset or replaced.
    engine = create_engine(
        "sqlite+pysqlite://",
        creator=lambda: connect_for_writing(file, durability),
        poolclass=StaticPool,
        hide_parameters=True,
    )
    event.listen(engine, "begin", _begin_writing)
    return engine.connect()


def _begin_writing(conn: Connection) -> None:
    # At once: a deferred transaction that reads first cannot wait for the lock it needs to write.
    conn.connection.driver_connection.execute("BEGIN IMMEDIATE")  # type: ignore[union-attr]


def _begin_reading(conn: Connection) -> None:
    # Past SQLAlchemy's cursors: one hop to the driver's thread instead of three.
    conn.connection.dbapi_connection.run_async(_begin)  # type: ignore[union-attr]


async def _begin(driver: aiosqlite.Connection) -> None:
    await driver.execute("BEGIN")


def connect_for_writing(file: Path, durability: Durability) -> sqlite3.Connection:
    """A connection with every setting that a promise rests on. Refused: one of them, read back, did not take."""
    conn = sqlite3.connect(
        file, isolation_level=None, timeout=_BUSY_TIMEOUT, cached_statements=_CACHED_STATEMENTS, check_same_thread=False
    )
    synchronous, level = _SYNCHRONOUS[durability]
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute(f"PRAGMA synchronous = {synchronous}")
    conn.execute("PRAGMA foreign_keys = ON")
    conn.execute("PRAGMA mmap_size = 0")
    conn.execute("PRAGMA cache_size = -16000")
    conn.execute("PRAGMA temp_store = MEMORY")
    conn.execute("PRAGMA journal_size_limit = 67108864")
    if sys.platform == "darwin":
        # There a plain fsync does not reach the medium.
        conn.execute("PRAGMA fullfsync = ON")
        conn.execute("PRAGMA checkpoint_fullfsync = ON")
    for pragma, wanted in {"journal_mode": "wal", "synchronous": level, "foreign_keys": 1}.items():
        (found,) = conn.execute(f"PRAGMA {pragma}").fetchone()
        if found != wanted:
            conn.close()
            raise Refused(
                f"SQLite answers {pragma} = {found} for {file} where {wanted} is needed",
                reason="WEAK_DATABASE",
                suggestion="keep the file on a local disk, or use PostgreSQL",
            )
    return conn


def _reading_engine(file: Path, readers: int) -> AsyncEngine:
    engine = create_async_engine(
        URL.create("sqlite+aiosqlite", database=f"file:{quote(str(file))}", query={"mode": "ro", "uri": "true"}),
        connect_args={"isolation_level": None, "timeout": _BUSY_TIMEOUT, "cached_statements": _CACHED_STATEMENTS},
        pool_size=readers,
        max_overflow=0,
        pool_timeout=_BUSY_TIMEOUT,
        hide_parameters=True,
    )
    event.listen(engine.sync_engine, "connect", _prepare_reading)
    event.listen(engine.sync_engine, "begin", _begin_reading)
    return engine


def _prepare_reading(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA query_only = ON")
    cursor.execute("PRAGMA mmap_size = 0")
    cursor.close()


def _ping(conn: Connection) -> None:
    conn.execute(text("SELECT 1"))


def _warn(file: Path, durability: Durability) -> None:
    if sqlite3.sqlite_version_info < _SAFE_VERSION:
        _log.warning(
            "SQLite %s is older than 3.51.3, which fixes a rare corruption of WAL files; this process avoids its cause "
            "by writing through one connection, so let no other program write to %s",
            sqlite3.sqlite_version,
            file,
        )
    if durability == "relaxed":
        _log.warning("durability is relaxed: if this machine crashes, the last commits to %s may be lost", file)
