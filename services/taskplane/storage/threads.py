"""Threads that run store functions on SQLite connections of their own, one hop per transaction.

Through aiosqlite every statement would cost several hops; here a whole transaction costs one, and answers that are
ready together wake the event loop once.
"""

import asyncio
import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final

from sqlalchemy import Connection

from taskplane.storage.engine import closing

Done = Callable[[Any, BaseException | None], None]

_log = logging.getLogger(__name__)

_INTERRUPT_AGAIN: Final = 0.02


class Job:
    """One transaction, from its submission to its answer."""

    __slots__ = ("args", "done", "driver", "dropped", "error", "result", "work")

    def __init__(
        self, work: Callable[..., Any], args: tuple[Any, ...], done: Done, dropped: Callable[[], bool] | None
    ) -> None:
        self.work = work
        self.args = args
        self.done = done
        self.dropped = dropped
        self.driver: sqlite3.Connection | None = None
        self.result: Any = None
        self.error: BaseException | None = None

    def perform(self, connection: Connection) -> None:
        """Runs it, in a thread; what it comes to is kept for the loop."""
        driver: Any = connection.connection.driver_connection
        self.driver = driver
        try:
            with connection.begin():
                self.result = self.work(connection, *self.args)
        except BaseException as error:  # noqa: BLE001 - belongs to the caller, who waits on the loop
            self.error = error
            _settle(driver)
        finally:
            self.driver = None


class Threads:
    """Runs functions in transactions. Each thread has one connection; all take their jobs from one queue, in order."""

    def __init__(self, name: str, connect: Callable[[], Connection], count: int = 1) -> None:
        """`connect` is called in each thread; its connection is closed there, too."""
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._answers: deque[Job] = deque()
        self._waking = False
        self._closed = False
        self._opened: list[asyncio.Future[None]] = [self._loop.create_future() for _ in range(count)]
        self._threads = [
            threading.Thread(target=self._run, args=(opened,), name=f"taskplane-{name}", daemon=True)
            for opened in self._opened
        ]

    async def start(self) -> None:
        """Opens the connections. Raises what `connect` raises. To be followed by `stop` in any case."""
        for thread in self._threads:
            thread.start()
        await asyncio.gather(*self._opened)

    async def stop(self) -> None:
        """Finishes what was given, closes the connections and ends the threads. What is given later is refused."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            if thread.ident:
                await asyncio.to_thread(thread.join)

    def submit(
        self, work: Callable[..., Any], args: tuple[Any, ...], done: Done, dropped: Callable[[], bool] | None = None
    ) -> Job:
        """`work(connection, *args)` in one transaction; then `done(result, error)` on the loop, after its end.

        One that is `dropped` before it began is left out, unanswered. Unavailable: the threads were stopped.
        """
        if self._closed:
            raise closing()
        job = Job(work, args, done, dropped)
        self._jobs.put(job)
        return job

    def interrupt(self, job: Job) -> None:
        """Ends the running statement of `job`, and those that follow. One that was dropped in time has none."""
        driver = job.driver
        if driver is not None:
            driver.interrupt()
            # Only a statement that runs is interrupted, so once may be too early.
            self._loop.call_later(_INTERRUPT_AGAIN, self.interrupt, job)

    def _run(self, opened: "asyncio.Future[None]") -> None:
        try:
            connection = self._connect()
        except BaseException as error:  # noqa: BLE001 - belongs to the caller of start
            self._loop.call_soon_threadsafe(_settle_opened, opened, error)
            return
        self._loop.call_soon_threadsafe(_settle_opened, opened, None)
        try:
            while (job := self._jobs.get()) is not None:
                if job.dropped is None or not job.dropped():
                    job.perform(connection)
                    self._answer(job)
        finally:
            # The pool of one would keep the driver's connection open, and its write-ahead log unmerged.
            connection.close()
            connection.engine.dispose()

    def _answer(self, job: Job) -> None:
        self._answers.append(job)
        if self._waking:
            return
        self._waking = True
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:
            _log.warning("the event loop ended before its last transaction was answered")

    def _deliver(self) -> None:
        # Cleared first: an answer that comes in between is taken below or wakes the loop once more.
        self._waking = False
        try:
            while self._answers:
                job = self._answers.popleft()
                job.done(job.result, job.error)
        finally:
            # Not empty only where `done` raised, which must not keep the others waiting.
            if self._answers:
                self._loop.call_soon(self._deliver)


def _settle_opened(opened: "asyncio.Future[None]", error: BaseException | None) -> None:
    if opened.cancelled():
        return
    if error is None:
        opened.set_result(None)
    else:
        opened.set_exception(error)


def _settle(driver: sqlite3.Connection) -> None:
    # A COMMIT that fails (a deferred foreign key) leaves the transaction open, and SQLAlchemy does not roll it back.
    try:
        if driver.in_transaction:
            driver.rollback()
    except sqlite3.Error:
        _log.exception("a failed transaction could not be rolled back")
