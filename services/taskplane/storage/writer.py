"""The one thread that writes to a SQLite file, one hop per transaction.

The thread owns the only connection that writes or checkpoints. Through aiosqlite every statement would cost a hop;
here a whole transaction costs one, and answers that are ready together wake the event loop once.
"""

import asyncio
import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple

from sqlalchemy import Connection

from taskplane.storage.engine import closing

Done = Callable[[Any, BaseException | None], None]

_log = logging.getLogger(__name__)


class _Job(NamedTuple):
    work: Callable[..., Any]
    args: tuple[Any, ...]
    done: Done
    dropped: Callable[[], bool] | None


class _Answer(NamedTuple):
    done: Done
    result: Any
    error: BaseException | None


class Writer:
    """Runs functions in transactions of one connection, in the order they were given, in a thread of its own."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        """`connect` is called in the thread; the connection is closed in it, too."""
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._answers: deque[_Answer] = deque()
        self._waking = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="taskplane-writer", daemon=True)

    async def start(self) -> None:
        """Opens the connection. Raises what `connect` raises. To be followed by `stop` in any case."""
        opened: asyncio.Future[None] = self._loop.create_future()
        self._opened = opened
        self._thread.start()
        await opened

    async def stop(self) -> None:
        """Finishes what was given, closes the connection and ends the thread. What is given later raises."""
        self._closed = True
        if not self._thread.ident:
            return
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def submit(
        self, work: Callable[..., Any], args: tuple[Any, ...], done: Done, dropped: Callable[[], bool] | None = None
    ) -> None:
        """`work(connection, *args)` in one transaction; then `done(result, error)` on the loop, after the commit.

        Unavailable: the writer was stopped. One that is `dropped` before it began is left out, unanswered.
        """
        if self._closed:
            raise closing()
        self._jobs.put(_Job(work, args, done, dropped))

    def _run(self) -> None:
        try:
            connection = self._connect()
        except BaseException as error:  # noqa: BLE001 - belongs to the caller of start
            self._answer(_Answer(self._settle_opened, None, error))
            return
        self._answer(_Answer(self._settle_opened, None, None))
        try:
            while (job := self._jobs.get()) is not None:
                if job.dropped is None or not job.dropped():
                    self._answer(_perform(connection, job))
        finally:
            # The pool of one would keep the driver's connection open, and its write-ahead log unmerged.
            connection.close()
            connection.engine.dispose()

    def _settle_opened(self, _result: Any, error: BaseException | None) -> None:
        if self._opened.cancelled():
            return
        if error is None:
            self._opened.set_result(None)
        else:
            self._opened.set_exception(error)

    def _answer(self, answer: _Answer) -> None:
        self._answers.append(answer)
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
                done, result, error = self._answers.popleft()
                done(result, error)
        finally:
            # Not empty only where `done` raised, which must not keep the others waiting.
            if self._answers:
                self._loop.call_soon(self._deliver)


def _perform(connection: Connection, job: _Job) -> _Answer:
    try:
        with connection.begin():
            result = job.work(connection, *job.args)
    except BaseException as error:  # noqa: BLE001 - belongs to the caller, who waits on the loop
        _settle(connection)
        return _Answer(job.done, None, error)
    return _Answer(job.done, result, None)


def _settle(connection: Connection) -> None:
    # A COMMIT that fails (a deferred foreign key) leaves the transaction open, and SQLAlchemy does not roll it back.
    driver: Any = connection.connection.driver_connection
    try:
        if driver.in_transaction:
            driver.rollback()
    except sqlite3.Error:
        _log.exception("a failed transaction could not be rolled back")
