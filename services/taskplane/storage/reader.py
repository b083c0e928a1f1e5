"""Connections that read a SQLite file and cannot write to it with any statement."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from sqlalchemy import URL, Connection, event
from sqlalchemy.ext.asyncio import create_async_engine

from taskplane.storage.compiled import Statements, keeping
from taskplane.storage.port import closing
from taskplane.storage.turns import Turns

T = TypeVar("T")

_BUSY_TIMEOUT: Final = 5.0
_POOL_TIMEOUT: Final = 5.0
_CACHED_STATEMENTS: Final = 512
_INTERRUPT_AGAIN: Final = 0.02


class Readers:
    """A pool of at most `count` connections, opened as they are needed."""

    def __init__(self, file: Path, count: int, statements: Statements | None = None) -> None:
        self._engine = create_async_engine(
            URL.create("sqlite+aiosqlite", database=f"file:{quote(str(file))}", query={"mode": "ro", "uri": "true"}),
            connect_args={
                "isolation_level": None,
                "timeout": _BUSY_TIMEOUT,
                "cached_statements": _CACHED_STATEMENTS,
            },
            pool_size=count,
            max_overflow=0,
            pool_timeout=_POOL_TIMEOUT,
            hide_parameters=True,
            execution_options=keeping(statements),
        )
        event.listen(self._engine.sync_engine, "connect", _set_up)
        self._turns = Turns(count)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Return the result of `work` for one snapshot.

        When the caller is cancelled, the running statement is interrupted and the connection serves others.
        Unavailable: the readers were closed.
        """
        if self._closed:
            raise closing()
        reading = _Reading()
        task = self._spawn(self._read(reading, work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            reading.abandoned = True
            self._spawn(_interrupt(reading, task))
            raise

    async def close(self) -> None:
        """Finish the running reads and close the connections."""
        self._closed = True
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._engine.dispose()

    async def _read(self, reading: "_Reading", work: Callable[[Connection], T]) -> T:
        async with self._turns.place():
            if reading.abandoned:
                raise asyncio.CancelledError
            return await self._read_now(reading, work)

    async def _read_now(self, reading: "_Reading", work: Callable[[Connection], T]) -> T:
        async with self._engine.connect() as conn:
            if reading.abandoned:
                raise asyncio.CancelledError
            reading.driver = (await conn.get_raw_connection()).driver_connection
            try:
                # One hop to the connection's thread, where SQLAlchemy takes three. It ends the transaction when the
                # connection goes back to the pool.
                await reading.driver.execute_fetchall("BEGIN")
                return await conn.run_sync(work)
            finally:
                # From here on the connection may be another read's.
                reading.driver = None

    def _spawn(self, coroutine: Any) -> "asyncio.Task[Any]":
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class _Reading:
    """One read: the aiosqlite connection that it has, and whether its caller is gone."""

    def __init__(self) -> None:
        self.driver: Any = None
        self.abandoned = False


async def _interrupt(reading: _Reading, task: "asyncio.Task[Any]") -> None:
    """Interrupt the statements of a read until it has ended: one that has not begun yet is not interrupted."""
    while not task.done():
        if reading.driver is not None:
            await reading.driver.interrupt()
        await asyncio.wait([task], timeout=_INTERRUPT_AGAIN)
    if not task.cancelled():
        # Nobody waits for its error, and asyncio logs the errors that nobody retrieved.
        task.exception()


def _set_up(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA query_only = ON")
    cursor.execute("PRAGMA mmap_size = 0")
    cursor.close()
