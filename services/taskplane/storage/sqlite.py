"""SQLite: one connection that writes (see `writer`), read-only ones in threads of their own, one process per file.

Two connections that write or checkpoint at once can corrupt a WAL file (SQLite 3.7.0 to 3.51.2, WAL-reset bug), which
is why exactly one does both, why a second process is refused, and why nothing is memory-mapped.
"""

import asyncio
import logging
import sqlite3
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, text

from taskplane.runtime.errors import Internal, Refused
from taskplane.storage.dialects import SQLITE
from taskplane.storage.driver_errors import database_down, translating
from taskplane.storage.engine import Durability, Engine
from taskplane.storage.lockfile import locked
from taskplane.storage.threads import Done, Threads
from taskplane.storage.transactions import Transactions
from taskplane.storage.writer import Writer

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)

_SAFE_VERSION: Final = (3, 51, 3)
_BUSY_TIMEOUT: Final = 5.0
_PROBE_TIMEOUT: Final = 5.0
_LOCK_WAIT: Final = 2.0
_CACHED_STATEMENTS: Final = 512
# How `PRAGMA synchronous` answers.
_SYNCHRONOUS: Final[dict[Durability, tuple[str, int]]] = {"full": ("FULL", 2), "relaxed": ("NORMAL", 1)}

# Without an adapter the driver asks every such value, each time it is bound, for one of its own, and drops the error.
_NOTHING: Final[dict[None, None]] = {}
sqlite3.register_adapter(type(None), _NOTHING.get)
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(bool, int)


class SqliteEngine(Engine):
    """An open SQLite file."""

    dialect = SQLITE

    def __init__(self, path: Path, writer: Writer, readers: Threads[Transactions]) -> None:
        self.url = f"sqlite:///{path}"
        self._path = path
        self._writer = writer
        self._readers = readers

    async def write(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        work = partial(fn, **kwargs) if kwargs else fn
        self._writer.submit(work, args, partial(_settle, answer), answer.cancelled)
        return await answer

    def start(
        self, done: Done, fn: Callable[..., Any], *args: Any, small: bool = False, more_due: bool = False
    ) -> None:
        self._writer.submit(fn, args, done, small=small, more_due=more_due)

    async def read(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        work = partial(fn, **kwargs) if kwargs else fn
        job = self._readers.submit(Transactions.run, (work, args), partial(_settle, answer), answer.cancelled)
        try:
            return await answer
        except asyncio.CancelledError:
            self._readers.interrupt(job)
            raise

    async def probe(self) -> None:
        if not self._path.exists():
            raise database_down(f"the file {self._path} is gone")
        with translating():
            async with asyncio.timeout(_PROBE_TIMEOUT):
                await self.write(_ping)
                await self.read(_ping)


def _settle(answer: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if answer.cancelled():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


@asynccontextmanager
async def opened_sqlite(file: Path, *, readers: int, durability: Durability) -> AsyncGenerator[SqliteEngine, None]:
    """The database in `file`, made with its folder if there is none; see `open_engine`."""
    _warn(file, durability)
    async with AsyncExitStack() as stack:
        stack.enter_context(locked(file, wait=0.0))
        writer = Writer(lambda: connect_for_writing(file, durability), file)
        stack.push_async_callback(writer.stop)
        reading = Threads("reader", lambda: Transactions(connect_for_reading(file), "BEGIN"), readers)
        stack.push_async_callback(reading.stop)
        with translating():
            await writer.start()
            await reading.start()
        engine = SqliteEngine(file, writer, reading)
        await engine.probe()
        yield engine


async def run_alone_on_sqlite(
    file: Path, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """See `run_alone`."""

    def checked(conn: Connection) -> T:
        result = fn(conn, *args, **kwargs)
        broken = conn.execute(text("PRAGMA foreign_key_check")).fetchone()
        if broken is not None:
            raise Internal(f"a row of table {broken[0]} would refer to nothing in {broken[2]}")
        return result

    def alone() -> T:
        with locked(file, wait=_LOCK_WAIT):
            transactions = Transactions(connect_for_writing(file, "full"), "BEGIN IMMEDIATE")
            try:
                transactions.driver.execute("PRAGMA foreign_keys = OFF")
                return transactions.run(checked, ())
            finally:
                transactions.close()

    with translating():
        return await asyncio.to_thread(alone)


def connect_for_writing(file: Path, durability: Durability) -> sqlite3.Connection:
    """A connection with every setting that a promise rests on. Refused: one of them, read back, did not take."""
    with _connected(str(file)) as conn:
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
        read_back: dict[str, object] = {}
        for pragma, wanted in {"journal_mode": "wal", "synchronous": level, "foreign_keys": 1}.items():
            (found,) = conn.execute(f"PRAGMA {pragma}").fetchone()
            if found != wanted:
                raise Refused(
                    f"SQLite answers {pragma} = {found} for {file} where {wanted} is needed",
                    reason="WEAK_DATABASE",
                    suggestion="keep the file on a local disk, or use PostgreSQL",
                )
            read_back[pragma] = found
    _log.info("%s answers %s", file, ", ".join(f"{pragma} = {found}" for pragma, found in read_back.items()))
    return conn


def connect_for_reading(file: Path) -> sqlite3.Connection:
    """A connection that cannot write, whatever it is told."""
    with _connected(f"file:{quote(str(file))}?mode=ro", uri=True) as conn:
        conn.execute("PRAGMA query_only = ON")
        conn.execute("PRAGMA mmap_size = 0")
    return conn


@contextmanager
def _connected(database: str, *, uri: bool = False) -> Generator[sqlite3.Connection, None, None]:
    """A connection, to be made ready; it stays open unless that fails."""
    conn = sqlite3.connect(
        database,
        uri=uri,
        isolation_level=None,
        timeout=_BUSY_TIMEOUT,
        cached_statements=_CACHED_STATEMENTS,
        check_same_thread=False,
    )
    try:
        yield conn
    except BaseException:
        conn.close()
        raise


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
