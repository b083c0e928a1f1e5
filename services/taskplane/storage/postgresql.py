"""PostgreSQL through asyncpg: a pool that writes (READ COMMITTED) and a pool that reads (REPEATABLE READ READ ONLY)."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Concatenate, Final, ParamSpec, TypeVar

import asyncpg
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from taskplane.runtime.errors import Refused
from taskplane.storage.dialects import POSTGRESQL
from taskplane.storage.driver_errors import (
    connection_lost,
    database_down,
    lost_to_another,
    stale_plan,
    translating,
)
from taskplane.storage.port import Durability, Engine, closing
from taskplane.storage.turns import Turns
from taskplane.storage.urls import shown

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)

_CONNECT_TIMEOUT: Final = 2.0
_STATEMENT_TIMEOUT: Final = 5.0
# Beyond the server's own limit: only a server that does not answer at all lets this one pass.
_ANSWER_TIMEOUT: Final = 7.0
_POOL_TIMEOUT: Final = 5.0
_RETRIES: Final = 3
_CACHED_STATEMENTS: Final = 512
# Values of synchronous_commit under which a commit is on this server's disk and visible means durable.
_DURABLE: Final = frozenset({"on", "remote_apply"})
_IN_RECOVERY: Final = text("SELECT pg_is_in_recovery()")


class PostgresqlEngine(Engine):
    """An open PostgreSQL database."""

    dialect = POSTGRESQL

    def __init__(self, url: str, writing: AsyncEngine, reading: AsyncEngine, *, writers: int, readers: int) -> None:
        self.url = url
        self.writers = writers
        self._writing = writing
        self._reading = reading
        self._turns = Turns(readers)
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
                recovering = await self.read(lambda conn: conn.execute(_IN_RECOVERY).scalar_one())
        if recovering:
            raise database_down("it is a standby and takes no writes")

    def close(self) -> None:
        """Refuse further calls; the pools are closed by who opened them."""
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
        _log.warning("durability is relaxed: if the server of %s crashes, the last commits may be lost", shown(url))
    async with AsyncExitStack() as stack:
        writing = _pool(url, durability, idle_timeout, writers, "READ COMMITTED")
        stack.push_async_callback(writing.dispose)
        reading = _pool(url, durability, idle_timeout, readers, "REPEATABLE READ").execution_options(
            postgresql_readonly=True
        )
        stack.push_async_callback(reading.dispose)
        engine = PostgresqlEngine(shown(url), writing, reading, writers=writers, readers=readers)
        stack.callback(engine.close)
        await engine.write(_check_durability, durability)
        yield engine


async def run_alone_on_postgresql(
    url: str, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Implement `run_alone`."""
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: _connect(url, {}, None),
        poolclass=NullPool,
        hide_parameters=True,
    )
    try:
        with translating():
            async with engine.begin() as conn:
                return await conn.run_sync(fn, *args, **kwargs)
    finally:
        await engine.dispose()


def _pool(url: str, durability: Durability, idle_timeout: float, size: int, isolation: str) -> AsyncEngine:
    settings = {
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
        async_creator=lambda: _connect(url, settings, _ANSWER_TIMEOUT),
        connect_args={"prepared_statement_cache_size": _CACHED_STATEMENTS},
        isolation_level=isolation,
        pool_size=size,
        max_overflow=0,
        pool_timeout=_POOL_TIMEOUT,
        hide_parameters=True,
    )


async def _connect(
    url: str, settings: dict[str, str], answer_timeout: float | None
) -> "asyncpg.Connection[asyncpg.Record]":
    # asyncpg reads the URL itself, so sslmode, several hosts and a password file work as libpq's users expect.
    return await asyncpg.connect(
        url,
        timeout=_CONNECT_TIMEOUT,
        command_timeout=answer_timeout,
        server_settings={"application_name": "taskplane", **settings},
    )


def _check_durability(conn: Connection, durability: Durability) -> None:
    found = conn.execute(text("SHOW synchronous_commit")).scalar_one()
    if durability == "full" and found not in _DURABLE:
        raise Refused(
            f"the database answers synchronous_commit = {found}: a commit it acknowledges may be lost in a crash",
            reason="WEAK_DATABASE",
            suggestion="set synchronous_commit = on for this database or role, or run with relaxed durability",
        )
    if conn.execute(text("SHOW fsync")).scalar_one() != "on":
        _log.warning("the database runs with fsync = off: a crash of its machine may destroy it")
