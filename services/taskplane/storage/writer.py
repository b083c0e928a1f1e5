"""The one connection that writes to a SQLite file, in a thread of its own.

A transaction costs one hop to the thread and one back, however many statements it has; through aiosqlite each statement
would cost several. Checkpoints are SQLite's own: it makes one in a COMMIT once the log has grown to 1000 pages.
"""

import asyncio
import logging
import sqlite3
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.pool import StaticPool

from taskplane.runtime.errors import Refused
from taskplane.storage import prepared
from taskplane.storage.compiled import Statements, keeping
from taskplane.storage.file_guard import LONGEST_KEPT, FileGuard
from taskplane.storage.one_thread import OneThread
from taskplane.storage.port import SqliteDurability, closing

T = TypeVar("T")

_log = logging.getLogger(__name__)

_BUSY_TIMEOUT: Final = 5.0
_CACHED_STATEMENTS: Final = 512
_FAILURES: Final = (OperationalError, sqlite3.OperationalError)
# How `PRAGMA synchronous` answers.
_SYNCHRONOUS: Final[dict[SqliteDurability, tuple[str, int]]] = {
    "full": ("FULL", 2),
    "relaxed": ("NORMAL", 1),
    "none": ("OFF", 0),
}


class Writer:
    """Runs store functions in transactions, one after the other, in the order in which they are given."""

    def __init__(self, file: Path, durability: SqliteDurability, statements: Statements | None = None) -> None:
        self._engine = writing_engine(file, durability, statements=statements)
        # The thread's. SQLAlchemy has opened the connection; transactions begin and end on that of the driver.
        self._connection: Connection | None = None
        self._driver: sqlite3.Connection
        # Whether somebody listens to the statements of SQLAlchemy: then all go through it.
        self._listened = False
        self._guard = FileGuard(file)
        # The last transaction could not be written, so that a probe has to write.
        self._failing = False
        self._thread = OneThread("taskplane-writer", self._close)

    def run(
        self, fn: Callable[..., T], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> "asyncio.Future[T]":
        """Return the future of `fn(connection, ...)`, which is done once its transaction is committed.

        An operation is left out if its caller is cancelled before its beginning. Unavailable: the writer was closed, or
        a file was lost. DataLoss: damage was found before.
        """
        return self._submit(self._transact, fn, args, kwargs or {})

    async def find_damage(self, detail: object) -> None:
        """Take in that SQLite found damage: raise DataLoss, here and from then on, or Unavailable if a file was lost.
        `detail` is for the log."""
        await self._submit(self._guard.find_damage, detail)

    async def close(self) -> None:
        """Finish the queued work and close the connection, which merges the log into the database."""
        await self._thread.close()

    async def probe(self) -> None:
        """Return if transactions are possible. If the last transaction could not be written, try to write."""
        await self.run(self._probe)

    def _submit(self, fn: Callable[..., T], *args: Any) -> "asyncio.Future[T]":
        try:
            return self._thread.submit(fn, *args)
        except RuntimeError:
            raise closing() from None

    def _probe(self, conn: Connection) -> None:
        if self._failing:
            # It writes a page, and changes nothing.
            (version,) = conn.exec_driver_sql("PRAGMA user_version").one()
            conn.exec_driver_sql(f"PRAGMA user_version = {int(version)}")
        else:
            conn.exec_driver_sql("SELECT 1")

    def _transact(self, fn: Callable[..., T], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> T:
        conn = self._connection or self._open()
        try:
            self._guard.check()
            if bool(conn.dispatch.before_cursor_execute) is not self._listened:
                self._listened = not self._listened
                prepared.attach(conn, None if self._listened else self._driver)
            self._driver.execute("BEGIN IMMEDIATE")
            result = fn(conn, *args, **kwargs)
            self._commit(conn)
            # A file that was lost meanwhile has the transaction, and nobody can open it.
            self._guard.check()
        except BaseException as error:
            self._failing = self._failing or isinstance(error, _FAILURES)
            # Given back it is rolled back, also where COMMIT failed, which leaves the transaction open.
            self._give_back()
            raise
        self._failing = False
        return result

    def _open(self) -> Connection:
        conn = self._connection = self._engine.connect()
        self._driver = driver_of(conn)
        prepared.attach(conn, self._driver)
        self._listened = False
        return conn

    def _commit(self, conn: Connection) -> None:
        if conn.in_transaction():
            # A statement went through SQLAlchemy, which has to know of the end. It commits on the driver, too.
            conn.commit()
            return
        try:
            self._driver.commit()
        except sqlite3.IntegrityError as error:
            # A constraint that is looked at in the end.
            raise IntegrityError("COMMIT", None, error, hide_parameters=True) from error

    def _close(self) -> None:
        self._give_back()
        self._engine.dispose()

    def _give_back(self) -> None:
        if self._connection is not None:
            prepared.attach(self._connection, None)
            self._connection.close()
            # SQLAlchemy takes a transaction for ended after a failed COMMIT.
            with suppress(sqlite3.Error):
                self._driver.rollback()
            self._connection = None


def writing_engine(
    file: Path, durability: SqliteDurability, *, foreign_keys: bool = True, statements: Statements | None = None
) -> Engine:
    """Return a synchronous engine with one connection, opened at its first use and to be used by one thread."""
    engine = create_engine(
        "sqlite+pysqlite://",
        creator=lambda: connect(file, durability, foreign_keys=foreign_keys),
        poolclass=StaticPool,
        hide_parameters=True,
        execution_options=keeping(statements),
    )
    event.listen(engine, "begin", _begin)
    return engine


def _begin(conn: Connection) -> None:
    # A deferred transaction that reads first cannot wait for the lock it needs to write.
    if not driver_of(conn).in_transaction:
        conn.exec_driver_sql("BEGIN IMMEDIATE")


def driver_of(conn: Connection) -> sqlite3.Connection:
    """Return the driver's connection of a SQLAlchemy connection to SQLite."""
    return cast("sqlite3.Connection", conn.connection.driver_connection)


def connect(file: Path, durability: SqliteDurability, *, foreign_keys: bool = True) -> sqlite3.Connection:
    """Return a connection with every setting that a promise rests on.

    Refused: one of the settings, read back, did not take effect.
    """
    conn = sqlite3.connect(file, isolation_level=None, timeout=_BUSY_TIMEOUT, cached_statements=_CACHED_STATEMENTS)
    try:
        _set_up(conn, file, durability, foreign_keys)
    except BaseException:
        conn.close()
        raise
    return conn


def _set_up(conn: sqlite3.Connection, file: Path, durability: SqliteDurability, foreign_keys: bool) -> None:
    synchronous, level = _SYNCHRONOUS[durability]
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute(f"PRAGMA synchronous = {synchronous}")
    conn.execute(f"PRAGMA foreign_keys = {int(foreign_keys)}")
    conn.execute("PRAGMA mmap_size = 0")
    conn.execute("PRAGMA cache_size = -16000")
    conn.execute("PRAGMA temp_store = MEMORY")
    conn.execute(f"PRAGMA journal_size_limit = {LONGEST_KEPT}")
    if sys.platform == "darwin":
        # There a plain fsync does not reach the medium.
        conn.execute("PRAGMA fullfsync = ON")
        conn.execute("PRAGMA checkpoint_fullfsync = ON")
    wanted = {"journal_mode": "wal", "synchronous": level, "foreign_keys": int(foreign_keys)}
    for pragma, value in wanted.items():
        (found,) = conn.execute(f"PRAGMA {pragma}").fetchone()
        if found != value:
            raise Refused(
                f"SQLite has {pragma} = {found} for {file}; {value} is required",
                reason="WEAK_DATABASE",
                suggestion="keep the file on a local disk, or use PostgreSQL",
            )
    _log.debug("%s answers %s", file, ", ".join(f"{pragma} = {value}" for pragma, value in wanted.items()))
