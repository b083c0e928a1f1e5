"""PostgreSQL through asyncpg: a pool that writes (READ COMMITTED) and a pool that reads (REPEATABLE READ READ ONLY)."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from asyncpg.connect_utils import SessionAttribute
from sqlalchemy import Connection, event, text
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from taskplane.runtime.errors import Refused
from taskplane.storage.connecting import PRIMARY, WRITABLE, connect
from taskplane.storage.dialects import POSTGRESQL
from taskplane.storage.driver_errors import (
    connection_lost,
    database_read_only,
    lost_to_another,
    spoils_connection,
    stale_plan,
    translating,
)
from taskplane.storage.port import Durability, Engine, closing
from taskplane.storage.turns import Turns
from taskplane.storage.urls import shown

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)

_STATEMENT_TIMEOUT: Final = 5.0
# Longer than the limit in the server, so it is reached only if the server does not answer.
_ANSWER_TIMEOUT: Final = 7.0
_POOL_TIMEOUT: Final = 5.0
_RETRIES: Final = 3
_NAME: Final = {"application_name": "taskplane"}
_CACHED_STATEMENTS: Final = 512
# Values of synchronous_commit under which a commit is on this server's disk and visible means durable.
_DURABLE: Final = frozenset({"on", "remote_apply"})
# On a standby transactions are read only, too.
_READ_ONLY: Final = text("SHOW transaction_read_only")
# Seconds within which all connections are made anew at most once, while one after the other is dropped.
_RENEWED_FOR: Final = 1.0


class Connections:
    """The age of all connections to one database: when one connection must be dropped, the others are replaced at their
    next use.

    After a failover they may still lead to the old server, which answers reads with old data.
    """

    def __init__(self) -> None:
        self._age = 0
        self._renewed = -_RENEWED_FOR
        self._tell: list[Callable[[], None]] = []

    def watch(self, pool: AsyncEngine) -> None:
        """Drop the connections of a pool that are too old, or that have answered that they are of no use."""
        event.listen(pool.sync_engine, "connect", self._connected)
        event.listen(pool.sync_engine, "checkout", self._checked_out)
        event.listen(pool.sync_engine, "handle_error", self._failed)

    def on_renewal(self, tell: Callable[[], None]) -> None:
        """Call `tell` at each renewal."""
        self._tell.append(tell)

    def renew(self) -> None:
        """Make all connections anew, each at its next use."""
        now = time.monotonic()
        if now - self._renewed < _RENEWED_FOR:
            return
        self._renewed = now
        self._age += 1
        for tell in self._tell:
            tell()

    def _connected(self, _connection: Any, record: Any) -> None:
        record.info["age"] = self._age

    def _checked_out(self, _connection: Any, record: Any, _proxy: Any) -> None:
        if record.info["age"] != self._age:
            raise DisconnectionError("it is older than the last renewal")

    def _failed(self, context: ExceptionContext) -> None:
        if context.is_disconnect or spoils_connection(context.original_exception):
            context.is_disconnect = True
            context.invalidate_pool_on_disconnect = False
            if isinstance(context.original_exception, Exception):
                self.renew()


class PostgresqlEngine(Engine):
    """An open PostgreSQL database."""

    dialect = POSTGRESQL

    def __init__(
        self,
        url: str,
        writing: AsyncEngine,
        reading: AsyncEngine,
        connections: Connections,
        *,
        writers: int,
        readers: int,
    ) -> None:
        self.url = url
        self.writers = writers
        self._writing = writing
        self._reading = reading
        self._turns = Turns(readers)
        self._connections = connections
        self._closed = False

    async def write(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._check_open()
        committing = False

        async def once() -> T:
            nonlocal committing
            committing = False
            async with self._writing.connect() as conn, conn.begin():
                result = await conn.run_sync(fn, *args, **kwargs)
                committing = True
            return result

        # A connection lost at COMMIT leaves the outcome unknown, and running again might do everything twice.
        return await _retried(
            once,
            lambda error: lost_to_another(error) or (not committing and (connection_lost(error) or stale_plan(error))),
        )

    async def read(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._check_open()

        async def once() -> T:
            async with self._turns.place(), self._reading.connect() as conn:
                return await conn.run_sync(fn, *args, **kwargs)

        return await _retried(once, lambda error: connection_lost(error) or stale_plan(error) or lost_to_another(error))

    async def probe(self) -> None:
        with translating():
            async with asyncio.timeout(_POOL_TIMEOUT):
                if await self.write(_is_read_only):
                    self._connections.renew()
                    raise database_read_only("its transactions are read only")
                await self.read(_is_read_only)

    def on_renewal(self, tell: Callable[[], None]) -> None:
        self._connections.on_renewal(tell)

    def close(self) -> None:
        """Refuse further calls; the pools are closed by their opener."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise closing()


async def _retried(once: Callable[[], Awaitable[T]], may_retry: Callable[[BaseException], bool]) -> T:
    """Return the result of `once`, repeated at once where a new transaction may succeed."""
    with translating():
        for _ in range(_RETRIES):
            try:
                return await once()
            except DBAPIError as error:
                if not may_retry(error):
                    raise
        return await once()


@asynccontextmanager
async def open_postgresql(
    url: str, *, readers: int, writers: int, durability: Durability, idle_timeout: float
) -> AsyncGenerator[PostgresqlEngine, None]:
    """Open the database at `url`; see `open_engine`."""
    if durability == "relaxed":
        _log.warning("durability is relaxed: a crash of the server of %s may lose the last commits", shown(url))
    async with AsyncExitStack() as stack:
        connections = Connections()
        writing = _pool(url, WRITABLE, durability, idle_timeout, writers, "READ COMMITTED")
        stack.push_async_callback(writing.dispose)
        # A standby may lag behind acknowledged commits.
        pool = _pool(url, PRIMARY, durability, idle_timeout, readers, "REPEATABLE READ")
        reading = pool.execution_options(postgresql_readonly=True)
        stack.push_async_callback(reading.dispose)
        connections.watch(writing)
        connections.watch(pool)
        engine = PostgresqlEngine(shown(url), writing, reading, connections, writers=writers, readers=readers)
        stack.callback(engine.close)
        await engine.write(_check_durability, durability)
        yield engine


async def run_alone_on_postgresql(
    url: str, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Implement `run_alone`."""
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: connect(url, WRITABLE, _NAME),
        poolclass=NullPool,
        hide_parameters=True,
    )
    try:
        with translating():
            async with engine.begin() as conn:
                return await conn.run_sync(fn, *args, **kwargs)
    finally:
        await engine.dispose()


def _pool(
    url: str, wanted: SessionAttribute, durability: Durability, idle_timeout: float, size: int, isolation: str
) -> AsyncEngine:
    settings = {
        **_NAME,
        "statement_timeout": f"{_STATEMENT_TIMEOUT * 1000:.0f}",
        "idle_in_transaction_session_timeout": f"{idle_timeout * 1000:.0f}",
        "jit": "off",
        # Every statement finds its rows by an index. A plan that is made while a table is small is kept while it grows.
        "enable_seqscan": "off",
    }
    if durability == "relaxed":
        settings["synchronous_commit"] = "off"
    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: connect(url, wanted, settings, answer_timeout=_ANSWER_TIMEOUT),
        connect_args={"prepared_statement_cache_size": _CACHED_STATEMENTS},
        isolation_level=isolation,
        pool_size=size,
        max_overflow=0,
        pool_timeout=_POOL_TIMEOUT,
        hide_parameters=True,
    )


def _is_read_only(conn: Connection) -> bool:
    return bool(conn.execute(_READ_ONLY).scalar_one() == "on")


def _check_durability(conn: Connection, durability: Durability) -> None:
    found = conn.execute(text("SHOW synchronous_commit")).scalar_one()
    if durability == "full" and found not in _DURABLE:
        raise Refused(
            f"the database answers synchronous_commit = {found}: a crash may lose acknowledged commits",
            reason="WEAK_DATABASE",
            suggestion="set synchronous_commit = on for this database or role, or run with relaxed durability",
        )
    if conn.execute(text("SHOW fsync")).scalar_one() != "on":
        _log.warning("the database runs with fsync = off: a crash of its machine may destroy the data")
