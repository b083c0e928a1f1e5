"""Which tasks are being watched, how far their logs are known to go, and the bell that wakes their watchers."""

import logging
import time
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Final

from taskplane.runtime.errors import PlaneError, Unavailable
from taskplane.storage.bell import Listener, key_of
from taskplane.tasks.domain.task import REPLACED, Event
from taskplane.tasks.metrics import WATCHERS
from taskplane.tasks.rings import Rung
from taskplane.tasks.store import Committed, WatchLog
from taskplane.tasks.watch.sessions import WatchedSessions

_log = logging.getLogger(__name__)
OUTAGE: Final = 30.0
# Seconds until the database is asked again that could not be reached.
_RETRY: Final = 1.0
_TASKS: Final = WATCHERS.labels("task")
# Engines take about 32,000 parameters in a statement.
_TOGETHER: Final = 10_000


class _Known:
    """A watched task."""

    __slots__ = ("gone", "head", "key", "seats")

    def __init__(self, uid: str) -> None:
        self.key = key_of(uid)
        self.head = 0
        self.gone = False
        self.seats: set[Seat] = set()


class Seat(Listener):
    """One watcher's place to wait, until `leave`.

    `place`: how far it has come. A watcher that waits for some states only names them in `until`, and is not woken for
    events that follow its place and do not put the task in one of them; they move its place.
    """

    __slots__ = ("_known", "_uid", "_until", "_watched", "place")

    def __init__(self, watched: "Watched", uid: str, known: _Known, place: int, until: Collection[int] | None) -> None:
        super().__init__()
        self._watched = watched
        self._uid = uid
        self._known = known
        self._until = until
        self.place = place

    @property
    def head(self) -> int:
        """Return the newest generation known."""
        return self._known.head

    @property
    def gone(self) -> bool:
        """Return whether the task was deleted."""
        return self._known.gone

    def notice(self, events: Sequence[Event]) -> None:
        """Take in the newest events of the task, committed just now."""
        if self._until is not None and events and events[0].generation == self.place + 1:
            for event in events:
                if event.state in self._until or event.kind == REPLACED:
                    break
            else:
                self.place = events[-1].generation
                return
        self.hear()

    def leave(self) -> None:
        """Give the place up."""
        known = self._known
        known.seats.discard(self)
        _TASKS.dec()
        if not known.seats:
            self._watched.forget(self._uid, known)


class Start:
    """The keys that other processes rang for since a watch began to read."""

    __slots__ = ("everything", "keys")

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.everything = False


class Watched:
    """The tasks being watched in this process; `sessions` are those that are watched as a whole.

    Commits of this process ring at once, those of another one when its bell is heard. Whatever else may have happened
    is found by `run`, which asks the database for all watched tasks together, once per `poll_every` seconds: a bell
    that is lost costs at most that.
    """

    def __init__(self, log: WatchLog, *, poll_every: float) -> None:
        self._log = log
        self._poll_every = poll_every
        self._tasks: dict[str, _Known] = {}
        self.sessions = WatchedSessions(log)
        # Tasks that another process rang for; None: all.
        self._rung: set[str] | None = set()
        self._bell = Listener()
        self._starting: set[Start] = set()
        self.draining = False
        self.outage: PlaneError | None = None

    def __len__(self) -> int:
        return len(self._tasks)

    @contextmanager
    def starting(self) -> Generator[Start, None, None]:
        """Remember what is heard while a watch reads how far its task goes; to be given to `enter`."""
        start = Start()
        self._starting.add(start)
        try:
            yield start
        finally:
            self._starting.discard(start)

    def enter(self, uid: str, head: int, place: int, until: Collection[int] | None, start: Start) -> Seat:
        """Take a seat at a task that was read to go as far as `head` since `start`, and notice all that comes after."""
        known = self._tasks.get(uid)
        if known is None:
            known = self._tasks[uid] = _Known(uid)
        known.head = max(known.head, head)
        seat = Seat(self, uid, known, place, until)
        known.seats.add(seat)
        _TASKS.inc()
        if start.everything or known.key in start.keys:
            self._check_soon([uid])
        return seat

    def forget(self, uid: str, known: _Known) -> None:
        """Remove what nobody watches any more."""
        if self._tasks.get(uid) is known:
            del self._tasks[uid]

    def committed(self, commit: Committed) -> None:
        """Wake the watchers of the tasks that this commit changed, and of their sessions."""
        self.sessions.committed(commit)
        if not self._tasks:
            return
        for change in commit.changes:
            known = self._tasks.get(change.row.uid)
            if known is not None and change.row.generation > known.head:
                known.head = change.row.generation
                for seat in known.seats:
                    seat.notice(change.events)
        for change in commit.deleted:
            known = self._tasks.get(change.row.uid)
            if known is not None:
                known.gone = True
                _ring(known)

    def heard(self, rung: Rung | None) -> None:
        """Take in what another process did; None: anything."""
        for start in self._starting:
            if rung is None:
                start.everything = True
            else:
                start.keys |= rung.tasks
        if rung is None:
            self._rung = None
            self._bell.hear()
        else:
            self.sessions.heard(rung)
            self._check_soon([uid for uid, known in self._tasks.items() if known.key in rung.tasks])

    def _check_soon(self, uids: Sequence[str]) -> None:
        if uids:
            if self._rung is not None:
                self._rung.update(uids)
            self._bell.hear()

    async def run(self) -> None:
        """Check again and again until cancelled.

        While the database cannot be reached the watchers stay, for `OUTAGE` seconds; then they are told.
        """
        reached = time.monotonic()
        poll_at = reached + self._poll_every
        while True:
            await self._bell.wait(max(0.0, poll_at - time.monotonic()))
            if time.monotonic() >= poll_at:
                self._rung = None
            rung, self._rung = self._rung, set()
            try:
                await self._check(list(self._tasks if rung is None else rung))
                if rung is None:
                    await self.sessions.check()
                    poll_at = time.monotonic() + self._poll_every
            except PlaneError as error:
                self._rung = None
                poll_at = time.monotonic() + min(_RETRY, self._poll_every)
                silent = time.monotonic() - reached
                _log.warning("watched tasks could not be checked for %.0f s: %s", silent, error)
                if silent > OUTAGE:
                    self.outage = Unavailable("the database has not been reached for a while", retry_after=1.0)
                    self._ring_all()
            else:
                reached = time.monotonic()
                self.outage = None

    async def _check(self, uids: Sequence[str]) -> None:
        heads: dict[str, int] = {}
        for first in range(0, len(uids), _TOGETHER):
            heads.update(await self._log.heads(uids[first : first + _TOGETHER]))
        for uid in uids:
            known = self._tasks.get(uid)
            if known is None:
                continue
            head = heads.get(uid)
            known.gone = known.gone or head is None
            if head is None or head > known.head:
                known.head = head or known.head
                _ring(known)

    def drain(self) -> None:
        """Ask every watcher to leave at its next boundary."""
        self.draining = True
        self._ring_all()

    def _ring_all(self) -> None:
        for known in self._tasks.values():
            _ring(known)
        self.sessions.ring_all()


def _ring(known: _Known) -> None:
    for seat in known.seats:
        seat.hear()
