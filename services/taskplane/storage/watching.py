"""The logs that are watched in one process: how far each is known to go, and the seats in which watchers wait."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence, Set
from typing import Any, Final, Generic, TypeVar

from taskplane.runtime.errors import PlaneError, Unavailable
from taskplane.runtime.plain_metrics import Number
from taskplane.storage.bell import Listener

# Seconds without the database after which watchers are told.
OUTAGE: Final = 30.0
# Seconds until the database is asked again that could not be reached.
_RETRY: Final = 1.0


class Seat(Listener):
    """One watcher's place to wait, until `leave`."""

    __slots__ = ("_identity", "_known", "_watching")

    def __init__(self, watching: "Watching[Any, Any]", identity: Hashable, key: str, head: int) -> None:
        """Take the seat at a log that was read as far as `head`; it rings in other processes by `key`."""
        super().__init__()
        self._watching = watching
        self._identity = identity
        self._known: WatchedLog[Any] = watching.seated(self, identity, key, head)

    @property
    def head(self) -> int:
        """Return the number of the newest event or entry known."""
        return self._known.head

    @property
    def gone(self) -> bool:
        """Return whether the watched log was deleted."""
        return self._known.gone

    def leave(self) -> None:
        """Give the place up."""
        self._watching.left(self, self._identity)


Id = TypeVar("Id", bound=Hashable)
S = TypeVar("S", bound=Seat)


class WatchedLog(Generic[S]):
    """A watched log: its newest number that is known, and whether it was deleted."""

    __slots__ = ("gone", "head", "key", "seats")

    def __init__(self, key: str) -> None:
        self.key = key
        self.head = 0
        self.gone = False
        self.seats: set[S] = set()

    def ring(self) -> None:
        """Wake all its watchers."""
        for seat in self.seats:
            seat.hear()


class Watching(ABC, Generic[Id, S]):
    """The logs being watched in this process, by an identity that no other log ever has.

    Commits of this process ring at once, those of another one when its bell is heard. Whatever else may have happened
    is found by `run`, which asks the database for all that is watched together, once per `poll_every` seconds: a bell
    that is lost costs at most that.
    """

    def __init__(self, noun: str, logger: logging.Logger, watchers: Number, *, poll_every: float, at_once: int) -> None:
        """`noun`: the kind of the watched logs, for the log lines; `watchers` counts the seats; `at_once`: logs in one
        query."""
        self._noun = noun
        self._logger = logger
        self._watchers = watchers
        self._poll_every = poll_every
        self._at_once = at_once
        self._watched: dict[Id, WatchedLog[S]] = {}
        # Those that another process rang for; None: all.
        self._rung: set[Id] | None = set()
        self._bell = Listener()
        self.draining = False
        self.outage: PlaneError | None = None

    def __len__(self) -> int:
        return len(self._watched)

    @abstractmethod
    async def _heads(self, some: Sequence[Id]) -> Mapping[Id, int]:
        """Return the newest number of each of these logs; one that is gone is left out."""

    async def _check_more(self) -> None:
        """Check everything watched beside the logs, whenever all of them are checked."""

    def seated(self, seat: S, identity: Id, key: str, head: int) -> WatchedLog[S]:
        """Note a new seat at a log that was read to go as far as `head`; return the known state of the log."""
        known = self._watched.get(identity)
        if known is None:
            known = self._watched[identity] = WatchedLog(key)
        known.head = max(known.head, head)
        known.seats.add(seat)
        self._watchers.value += 1
        return known

    def left(self, seat: S, identity: Id) -> None:
        """Note that a seat was given up, and forget logs without watchers."""
        known = self._watched[identity]
        known.seats.discard(seat)
        self._watchers.value -= 1
        if not known.seats:
            del self._watched[identity]

    def heard_keys(self, keys: Set[str] | None) -> None:
        """Note changes of another process to the logs with these keys; None: to any."""
        if keys is None:
            self._rung = None
            self._bell.hear()
        else:
            self._check_soon([identity for identity, known in self._watched.items() if known.key in keys])

    def _check_soon(self, some: Sequence[Id]) -> None:
        if some:
            if self._rung is not None:
                self._rung.update(some)
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
                await self._check(list(self._watched if rung is None else rung))
                if rung is None:
                    await self._check_more()
                    poll_at = time.monotonic() + self._poll_every
            except PlaneError as error:
                self._rung = None
                poll_at = time.monotonic() + min(_RETRY, self._poll_every)
                silent = time.monotonic() - reached
                self._logger.warning("watched %s could not be checked for %.0f s: %s", self._noun, silent, error)
                if silent > OUTAGE:
                    self.outage = Unavailable("the database has been unreachable for some time", retry_after=1.0)
                    self._ring_all()
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
                    known.ring()

    def drain(self) -> None:
        """Ask every watcher to leave at its next boundary."""
        self.draining = True
        self._ring_all()

    def _ring_all(self) -> None:
        for known in self._watched.values():
            known.ring()
