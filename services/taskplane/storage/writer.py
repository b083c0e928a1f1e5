"""The one connection that writes to a SQLite file: in a thread of its own, or on the event loop where that is quicker.

A transaction in a thread costs two hops and a struggle for the interpreter at each of its statements: more than the
transaction itself, on a disk that syncs within a fraction of a millisecond. The loop gains little by it, since whoever
writes waits for the same commit. So a small transaction is carried out on the loop as long as commits are quick (see
`Pace`), the thread has nothing to do, and nobody else holds the lock of the database; where the loop has one of another
database to carry out, the thread does the COMMIT of this one beside it. The thread does the rest: large transactions,
those that have to wait, and checkpoints, which SQLite is told not to make by itself in a COMMIT.

The connection is the thread's from when it is given a job until the loop hears of its end; otherwise it is the loop's.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from taskplane.storage.driver_errors import translated
from taskplane.storage.pace import Bounds, Pace
from taskplane.storage.threads import Done, Threads
from taskplane.storage.transactions import Transactions
from taskplane.storage.wal import WriteAheadLog

_log = logging.getLogger(__name__)

_BUSY_TIMEOUT_MS: Final = 5000
_CHECKPOINT_PAGES: Final = 1000
# Transactions on the loop, all of them small, between two looks at the write-ahead log.
_LOOK_EVERY: Final = 4


class Writes(Transactions):
    """Transactions that write, and checkpoints."""

    def __init__(self, driver: sqlite3.Connection, file: Path, bounds: Bounds) -> None:
        super().__init__(driver, "BEGIN IMMEDIATE")
        self.pace = Pace(bounds)
        self._file = file
        driver.execute("PRAGMA busy_timeout = 0")
        driver.execute("PRAGMA wal_autocheckpoint = 0")

    def begun(self) -> bool:
        """Begins a transaction; False where that would have to wait for another connection."""
        try:
            self._cursor.execute(self._begin)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                return False
            raise
        return True

    def finish(self, fn: Callable[..., Any], args: tuple[Any, ...], small: bool = True, leave: bool = False) -> Any:
        """`run` without its beginning; of a small transaction the pace is told what it took.

        `leave`: where it has something to sync, it is left for `commit`, and is `open` till then.
        """
        changes = self.driver.total_changes
        commit: float | None = None
        started = perf_counter()
        try:
            result = fn(self._connection, *args)
            # What has changed nothing syncs nothing.
            changed = self.driver.total_changes != changes
            if not (leave and changed):
                committing = perf_counter()
                self._commit()
                if changed:
                    commit = perf_counter() - committing
        except BaseException:
            self._roll_back()
            raise
        finally:
            if small and self.pace.note(perf_counter() - started, commit):
                self._log_pace()
        return result

    @property
    def open(self) -> bool:
        """Whether a transaction was begun and has not ended."""
        return self.driver.in_transaction

    def commit(self, result: Any) -> Any:
        """The `result`, committed; what COMMIT raises is raised when the transaction is rolled back."""
        try:
            self._commit()
        except BaseException:
            self._roll_back()
            raise
        return result

    def run_patiently(self, fn: Callable[..., Any], args: tuple[Any, ...], small: bool) -> Any:
        """Like `run`, waiting for another connection as long as the database may be busy."""
        if not self.begun():
            self.driver.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
            try:
                self._cursor.execute(self._begin)
            finally:
                self.driver.execute("PRAGMA busy_timeout = 0")
        return self.finish(fn, args, small)

    def abandon(self) -> None:
        """Rolls back what is `open`."""
        self._roll_back()

    def checkpoint(self) -> int | None:
        """Copies as much of the write-ahead log into the database as no reader forbids, waiting for none.

        Returns the number of its frames; None if another connection is making a checkpoint.
        """
        busy, frames, _copied = self.driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return None if busy else frames

    def _log_pace(self) -> None:
        if self.pace.quick:
            _log.debug("%s: commits are quick, small transactions run on the event loop", self._file)
        else:
            _log.debug(
                "%s: a COMMIT takes %.2f ms, the last transaction took %.1f ms: all run in their thread",
                self._file,
                1000 * self.pace.mean,
                1000 * self.pace.slow,
            )


class Writer:
    """Runs store functions in transactions that write, in the order in which they are given."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], file: Path, bounds: Bounds | None = None) -> None:
        """`connect` opens the one connection to `file`; `bounds`: what is quick enough for the loop."""
        self._connect = connect
        self._file = file
        self._bounds = bounds or Bounds()
        self._loop = asyncio.get_running_loop()
        self._threads: Threads[Writes] = Threads("writer", self._open)
        self._writes: Writes
        self._wal = WriteAheadLog(file, _CHECKPOINT_PAGES)
        # Jobs that the thread has and whose end the loop has not heard of.
        self._given = 0
        self._checkpointing = False
        self._unseen = 0

    async def start(self) -> None:
        """Opens the connection. Raises what `connect` raises. To be followed by `stop` in any case."""
        await self._threads.start()

    async def stop(self) -> None:
        """Finishes what was given and closes the connection, which merges the log. What is given later is refused."""
        try:
            await self._threads.stop()
        finally:
            self._wal.close()

    def submit(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        done: Done,
        dropped: Callable[[], bool] | None = None,
        *,
        small: bool = False,
        more_due: bool = False,
    ) -> None:
        """`fn(connection, *args)` in a transaction; then `done(result, error)` on the loop, the error as `translated`.

        `small`: it takes the loop no longer than it is worth, if commits are quick. `more_due`: another writer of this
        loop is about to be given one. One that is `dropped` before it began may be left out; its result is None.
        Unavailable: the writer was stopped.
        """
        here = small and not self._given and self._writes.pace.quick and not self._threads.closed
        if here and self._carried_out(fn, args, done, more_due):
            return
        self._threads.submit(Writes.run_patiently, (fn, args, small), partial(self._answered, done), dropped)
        self._given += 1

    def _carried_out(self, fn: Callable[..., Any], args: tuple[Any, ...], done: Done, more_due: bool) -> bool:
        """Carries it out on the loop, but for its commit if there is `more_due`; False where it would have to wait for
        another connection."""
        result: Any = None
        error: BaseException | None = None
        try:
            if not self._writes.begun():
                return False
            result = self._writes.finish(fn, args, leave=more_due)
            if self._writes.open:
                self._threads.submit(Writes.commit, (result,), partial(self._answered, done))
                self._given += 1
                return True
        except BaseException as raised:
            self._writes.abandon()
            if not isinstance(raised, Exception):
                # Ctrl-C, which in a thread does not occur.
                self._loop.call_soon(done, None, raised)
                raise
            # It belongs to the caller, who is told later.
            error = translated(raised)
        self._loop.call_soon(done, result, error)
        self._unseen += 1
        if self._unseen >= _LOOK_EVERY:
            self._look()
        return True

    def _answered(self, done: Done, result: Any, error: BaseException | None) -> None:
        self._given -= 1
        self._look()
        done(result, error)

    def _look(self) -> None:
        """Lets the thread make a checkpoint if the log has grown."""
        self._unseen = 0
        if not self._checkpointing and not self._threads.closed and self._wal.grown():
            self._threads.submit(Writes.checkpoint, (), self._checkpointed)
            self._given += 1
            self._checkpointing = True

    def _checkpointed(self, frames: int | None, error: BaseException | None) -> None:
        self._given -= 1
        self._checkpointing = False
        if error is not None:
            _log.warning("the write-ahead log of %s could not be copied: %s", self._file, error)
        self._wal.checkpointed(frames)

    def _open(self) -> Writes:
        self._writes = Writes(self._connect(), self._file, self._bounds)
        return self._writes
