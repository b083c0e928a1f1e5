"""The watched tasks, the newest known generation of each, and the notification of their watchers."""

import logging
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from taskplane.storage import watching
from taskplane.storage.bell import key_of
from taskplane.storage.watching import Watching
from taskplane.tasks.committed import Committed
from taskplane.tasks.domain.kinds import REPLACED
from taskplane.tasks.domain.task import Event
from taskplane.tasks.metrics import WATCHERS
from taskplane.tasks.rings import Notified
from taskplane.tasks.store import WatchLog
from taskplane.tasks.watch.sessions import WatchedSessions

_log = logging.getLogger(__name__)
# Engines take about 32,000 parameters in a statement.
_AT_ONCE: Final = 10_000


class TaskSeat(watching.Seat):
    """A watcher that waits for changes of one task, until `leave`.

    `place`: the generation up to which it has read. `until`: the states that it waits for; None: it wants all events.
    With `until` it is not woken for events in other states: they only move its place.
    """

    __slots__ = ("_until", "place")

    def __init__(self, watched: "Watched", uid: str, head: int, place: int, until: Collection[int] | None) -> None:
        super().__init__(watched, uid, key_of(uid), head)
        self._until = until
        self.place = place

    def notice(self, events: Sequence[Event]) -> None:
        """Wake the watcher for events that were committed just now, or move its place past them."""
        if self._until is not None and events and events[0].generation == self.place + 1:
            for event in events:
                if event.state in self._until or event.kind == REPLACED:
                    break
            else:
                self.place = events[-1].generation
                return
        self.notify()


class Start:
    """The keys of notifications since a watch began to read. `everything`: a notification was without keys."""

    __slots__ = ("everything", "keys")

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.everything = False


class Watched(Watching[str, TaskSeat]):
    """The tasks being watched in this process. `sessions`: the watched sessions."""

    def __init__(self, log: WatchLog, *, poll_every: float) -> None:
        super().__init__("tasks", _log, WATCHERS.labels("task"), poll_every=poll_every, at_once=_AT_ONCE)
        self._log = log
        self.sessions = WatchedSessions(log)
        self._starting: set[Start] = set()

    @contextmanager
    def starting(self) -> Generator[Start, None, None]:
        """Record notifications while a watch reads the head of its task. The result is for `enter`."""
        start = Start()
        self._starting.add(start)
        try:
            yield start
        finally:
            self._starting.discard(start)

    def enter(self, uid: str, head: int, place: int, until: Collection[int] | None, start: Start) -> TaskSeat:
        """Return a seat for a task whose newest generation `head` was read after `start`. The seat is notified of all
        later changes."""
        seat = TaskSeat(self, uid, head, place, until)
        if start.everything or key_of(uid) in start.keys:
            self._check_soon([uid])
        return seat

    def committed(self, commit: Committed) -> None:
        """Wake the watchers of the tasks that this commit changed, and of their sessions."""
        self.sessions.committed(commit)
        if not self._watched:
            return
        for change in commit.changes:
            known = self._watched.get(change.row.uid)
            if known is not None and change.row.generation > known.head:
                known.head = change.row.generation
                for seat in known.seats:
                    seat.notice(change.events)
        for change in commit.deleted:
            known = self._watched.get(change.row.uid)
            if known is not None:
                known.gone = True
                known.wake()

    def notified(self, changed: Notified | None) -> None:
        """Wake the watchers of tasks and sessions that another process changed; None: check all of them."""
        for start in self._starting:
            if changed is None:
                start.everything = True
            else:
                start.keys |= changed.tasks
        if changed is not None:
            self.sessions.notified(changed)
        self.keys_notified(None if changed is None else changed.tasks)

    async def _heads(self, some: Sequence[str]) -> Mapping[str, int]:
        return await self._log.heads(some)

    async def _check_more(self) -> None:
        await self.sessions.check()

    def _wake_all(self) -> None:
        super()._wake_all()
        self.sessions.wake_all()
