"""Which tasks are being watched, how far their logs are known to go, and the bell that wakes their watchers."""

import asyncio
import logging
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from taskplane.runtime.errors import PlaneError, Unavailable
from taskplane.storage.bell import Bell, Listener
from taskplane.tasks.store import Committed, TaskLog

_log = logging.getLogger(__name__)
OUTAGE: Final = 30.0
# Engines take about 32,000 parameters in a statement.
_TOGETHER: Final = 10_000


class _Known:
    """What is known of one watched task."""

    __slots__ = ("gone", "head", "seats")

    def __init__(self) -> None:
        self.head = 0
        self.gone = False
        self.seats = 0


class Seat:
    """One watcher's place to wait."""

    def __init__(self, known: _Known, listener: Listener) -> None:
        self._known = known
        self._listener = listener

    @property
    def head(self) -> int:
        """The newest generation known."""
        return self._known.head

    @property
    def gone(self) -> bool:
        """The task was deleted."""
        return self._known.gone

    async def wait(self, timeout: float) -> None:
        """Returns when something may have changed, at the latest after `timeout` seconds."""
        await self._listener.wait(timeout)


class Watched:
    """The tasks being watched in this process.

    Commits of this process ring at once. Whatever else may have happened - another store process wrote, a commit went
    unnoticed - is found by `run`, which asks the database for all watched tasks together, once per `poll_every`
    seconds: a bell that is lost costs at most that.
    """

    def __init__(self, log: TaskLog, *, poll_every: float) -> None:
        self._log = log
        self._poll_every = poll_every
        self._tasks: dict[str, _Known] = {}
        self._bell = Bell()
        self.draining = False
        self.outage: PlaneError | None = None

    def __len__(self) -> int:
        return len(self._tasks)

    @contextmanager
    def enter(self, uid: str, head: int) -> Generator[Seat, None, None]:
        """Takes a seat at a task known to go as far as `head`. What is committed from now on is noticed."""
        known = self._tasks.setdefault(uid, _Known())
        known.head = max(known.head, head)
        known.seats += 1
        try:
            with self._bell.listen(uid) as listener:
                yield Seat(known, listener)
        finally:
            known.seats -= 1
            if not known.seats and self._tasks.get(uid) is known:
                del self._tasks[uid]

    def committed(self, commit: Committed) -> None:
        """Wakes the watchers of the tasks that this commit changed."""
        if not self._tasks:
            return
        rung: list[str] = []
        for row in commit.rows:
            known = self._tasks.get(row.uid)
            if known is not None and row.generation > known.head:
                known.head = row.generation
                rung.append(row.uid)
        for row in commit.deleted:
            known = self._tasks.get(row.uid)
            if known is not None:
                known.gone = True
                rung.append(row.uid)
        if rung:
            self._bell.ring(rung)

    async def run(self) -> None:
        """The re-check; ends when it is cancelled.

        While the database cannot be reached the watchers stay, for `OUTAGE` seconds; then they are told.
        """
        reached = time.monotonic()
        while True:
            await asyncio.sleep(self._poll_every)
            try:
                await self._check()
            except PlaneError as error:
                silent = time.monotonic() - reached
                _log.warning("watched tasks could not be checked for %.0f s: %s", silent, error)
                if silent > OUTAGE:
                    self.outage = Unavailable("the database has not been reached for a while", retry_after=1.0)
                    self._bell.ring_all()
            else:
                reached = time.monotonic()
                self.outage = None

    async def _check(self) -> None:
        uids = list(self._tasks)
        if not uids:
            return
        heads: dict[str, int] = {}
        for first in range(0, len(uids), _TOGETHER):
            heads.update(await self._log.heads(uids[first : first + _TOGETHER]))
        rung: list[str] = []
        for uid in uids:
            known = self._tasks.get(uid)
            if known is None:
                continue
            head = heads.get(uid)
            known.gone = known.gone or head is None
            if head is None or head > known.head:
                known.head = head or known.head
                rung.append(uid)
        if rung:
            self._bell.ring(rung)

    def drain(self) -> None:
        """Asks every watcher to leave at its next boundary."""
        self.draining = True
        self._bell.ring_all()
