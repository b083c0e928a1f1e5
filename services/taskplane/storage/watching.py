"""The logs that are watched in one process: the newest known number of each, and the watchers that wait."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence, Set
from typing import Any, Final, Generic, TypeVar

from taskplane.runtime.errors import PlaneError, Unavailable
from taskplane.runtime.plain_metrics import Number
from taskplane.storage.bell import Listener

# Seconds without the database after which watchers get an error.
OUTAGE: Final = 30.0
# Seconds between two checks while the database is not reachable.
_RETRY: Final = 1.0


class Seat(Listener):
    """A watcher that waits for changes of one log, until `leave`."""

    __slots__ = ("_identity", "_known", "_watching")

    def __init__(self, watching: "Watching[Any, Any]", identity: Hashable, key: str, head: int) -> None:
        """`head`: the newest number that was read of the log. `key`: the key of notifications by other processes."""
        super().__init__()
        self._watching = watching
        self._identity = identity
        self._known: WatchedLog[Any] = watching.seated(self, identity, key, head)

    @property
    def head(self) -> int:
        """Return the number of the newest known event or entry."""
        return self._known.head

    @property
    def gone(self) -> bool:
        """Return whether the watched log was deleted."""
        return self._known.gone

    def leave(self) -> None:
        """End the watch."""
        self._watching.left(self, self._identity)


Id = TypeVar("Id", bound=Hashable)
S = TypeVar("S", bound=Seat)


class WatchedLog(Generic[S]):
    """A watched log: the newest known number, and whether the log was deleted."""

    __slots__ = ("gone", "head", "key", "seats")

    def __init__(self, key: str) -> None:
        self.key = key
        self.head = 0
        self.gone = False
        self.seats: set[S] = set()

    def wake(self) -> None:
        """Wake all watchers of the log."""
        for seat in self.seats:
            seat.notify()


class Watching(ABC, Generic[Id, S]):
    """The logs being watched in this process, by an identity that no other log ever has.

    A commit of this process wakes watchers at once, a commit of another process when its notification arrives. `run`
    finds all other changes: every `poll_every` seconds it asks the database for all watched logs together. A lost
    notification delays a watcher by at most that time.
    """

    def __init__(self, noun: str, logger: logging.Logger, watchers: Number, *, poll_every: float, at_once: int) -> None:
        """`noun`: the kind of the watched logs, for messages of the logger. `watchers`: the metric with the number of
        seats. `at_once`: the maximum number of logs in one query."""
        self._noun = noun
        self._logger = logger
        self._watchers = watchers
        self._poll_every = poll_every
        self._at_once = at_once
        self._watched: dict[Id, WatchedLog[S]] = {}
        # The logs with a notification since the last check; None: all.
        self._changed: set[Id] | None = set()
        self._bell = Listener()
        self.draining = False
        self.outage: PlaneError | None = None

    def __len__(self) -> int:
        return len(self._watched)

    @abstractmethod
    async def _heads(self, some: Sequence[Id]) -> Mapping[Id, int]:
        """Return the newest number of each of these logs. A deleted log is left out."""

    async def _check_more(self) -> None:
        """Check everything else that is watched. Called after each check of all logs."""

    def seated(self, seat: S, identity: Id, key: str, head: int) -> WatchedLog[S]:
        """Add a seat for a log whose newest read number is `head`; return the known state of the log."""
        known = self._watched.get(identity)
        if known is None:
            known = self._watched[identity] = WatchedLog(key)
        known.head = max(known.head, head)
        known.seats.add(seat)
        self._watchers.value += 1
        return known

    def left(self, seat: S, identity: Id) -> None:
        """Remove a seat, and the log if this was its last watcher."""
        known = self._watched[identity]
        known.seats.discard(seat)
        self._watchers.value -= 1
        if not known.seats:
            del self._watched[identity]

    def keys_notified(self, keys: Set[str] | None) -> None:
        """Check the logs with these keys soon, since another process changed them; None: check all logs."""
        if keys is None:
            self._changed = None
            self._bell.notify()
        else:
            self._check_soon([identity for identity, known in self._watched.items() if known.key in keys])

    def _check_soon(self, some: Sequence[Id]) -> None:
        if some:
            if self._changed is not None:
                self._changed.update(some)
            self._bell.notify()

    async def run(self) -> None:
        """Check the logs until cancelled.

        While the database is not reachable, watchers wait for `OUTAGE` seconds and then get Unavailable.
        """
        reached = time.monotonic()
        poll_at = reached + self._poll_every
        while True:
            await self._bell.wait(max(0.0, poll_at - time.monotonic()))
            if time.monotonic() >= poll_at:
                self._changed = None
            changed, self._changed = self._changed, set()
            try:
                await self._check(list(self._watched if changed is None else changed))
                if changed is None:
                    await self._check_more()
                    poll_at = time.monotonic() + self._poll_every
            except PlaneError as error:
                self._changed = None
                poll_at = time.monotonic() + min(_RETRY, self._poll_every)
                silent = time.monotonic() - reached
                self._logger.warning("watched %s could not be checked for %.0f s: %s", self._noun, silent, error)
                if silent > OUTAGE:
                    self.outage = Unavailable("the database has been unreachable for some time", retry_after=1.0)
                    self._wake_all()
            else:
                reached = time.monotonic()
                self.outage = None

    async def _check(self, asked: Sequence[Id]) -> None:
        for first in range(0, len(asked), self._at_once):
            some = asked[first : first + self._at_once]
            heads = await self._heads(some)
            for identity in some:
                known = self._watched.get(identity)
                head = heads.get(identity)
                if known is not None and (head is None or head > known.head):
                    known.gone = known.gone or head is None
                    known.head = head or known.head
                    known.wake()

    def drain(self) -> None:
        """Ask every watcher to end at its next event boundary."""
        self.draining = True
        self._wake_all()

    def _wake_all(self) -> None:
        for known in self._watched.values():
            known.wake()
