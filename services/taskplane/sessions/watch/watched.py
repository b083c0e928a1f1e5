"""Which sessions are being watched, how many entries they are known to have, and the bell that wakes their watchers."""

import logging
import time
from collections.abc import Iterator, Sequence, Set
from typing import Final

from taskplane.runtime.errors import PlaneError, Unavailable
from taskplane.sessions.domain.commands import Write
from taskplane.sessions.domain.session import Session
from taskplane.sessions.metrics import WATCHERS
from taskplane.sessions.store import WatchLog
from taskplane.storage.bell import Listener, key_of

_log = logging.getLogger(__name__)
# Seconds without the database after which watchers are told.
OUTAGE: Final = 30.0
_TOGETHER: Final = 1000
# Seconds until the database is asked again that could not be reached.
_RETRY: Final = 1.0

# Tenant, owner, context id, and when it was created: a session that was deleted and made again is another one.
_Identity = tuple[str, str, str, int]


class _Known:
    """A watched session."""

    __slots__ = ("gone", "head", "key", "seats")

    def __init__(self, identity: _Identity) -> None:
        self.key = key_of(*identity[:3])
        self.head = 0
        self.gone = False
        self.seats: set[Seat] = set()


class Seat(Listener):
    """One watcher's place to wait, until `leave`."""

    __slots__ = ("_identity", "_known", "_watched")

    def __init__(self, watched: "Watched", identity: _Identity, known: _Known) -> None:
        super().__init__()
        self._watched = watched
        self._identity = identity
        self._known = known

    @property
    def head(self) -> int:
        """Return the number of the newest entry known."""
        return self._known.head

    @property
    def gone(self) -> bool:
        """Return whether the session was deleted."""
        return self._known.gone

    def leave(self) -> None:
        """Give the place up."""
        self._known.seats.discard(self)
        WATCHERS.dec()
        if not self._known.seats:
            self._watched.forget(self._identity)


class Watched:
    """The sessions being watched in this process.

    Commits of this process ring at once, those of another one when its bell is heard. Whatever else may have happened
    is found by `run`, which asks the database for all watched sessions together, once per `poll_every` seconds: a bell
    that is lost costs at most that.
    """

    def __init__(self, log: WatchLog, *, poll_every: float) -> None:
        self._log = log
        self._poll_every = poll_every
        self._sessions: dict[_Identity, _Known] = {}
        # Sessions that another process rang for; None: all.
        self._rung: set[_Identity] | None = set()
        self._bell = Listener()
        self.draining = False
        self.outage: PlaneError | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    def enter(self, session: Session) -> Seat:
        """Take a seat at a session as it was found. What is committed from now on is noticed; so read once more."""
        identity = _identity(session)
        known = self._sessions.get(identity)
        if known is None:
            known = self._sessions[identity] = _Known(identity)
        known.head = max(known.head, session.seq)
        seat = Seat(self, identity, known)
        known.seats.add(seat)
        WATCHERS.inc()
        return seat

    def forget(self, identity: _Identity) -> None:
        """Remove what nobody watches any more."""
        self._sessions.pop(identity, None)

    def committed(self, writes: Sequence[Write]) -> None:
        """Wake the watchers of the sessions that a commit changed."""
        if not self._sessions:
            return
        for write in writes:
            known = self._sessions.get(_identity(write.session))
            if known is None:
                continue
            if write.delete:
                known.gone = True
                _ring(known)
            elif write.session.seq > known.head:
                known.head = write.session.seq
                _ring(known)

    def heard(self, keys: Set[str] | None) -> None:
        """Take in what another process did, by the keys of `keys_of`; None: anything."""
        if keys is None:
            self._rung = None
        else:
            rung = [identity for identity, known in self._sessions.items() if known.key in keys]
            if not rung:
                return
            if self._rung is not None:
                self._rung.update(rung)
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
                await self._check(list(self._sessions if rung is None else rung))
                if rung is None:
                    poll_at = time.monotonic() + self._poll_every
            except PlaneError as error:
                self._rung = None
                poll_at = time.monotonic() + min(_RETRY, self._poll_every)
                silent = time.monotonic() - reached
                _log.warning("watched sessions could not be checked for %.0f s: %s", silent, error)
                if silent > OUTAGE:
                    self.outage = Unavailable("the database has not been reached for a while", retry_after=1.0)
                    self._ring_all()
            else:
                reached = time.monotonic()
                self.outage = None

    async def _check(self, asked: Sequence[_Identity]) -> None:
        for first in range(0, len(asked), _TOGETHER):
            some = asked[first : first + _TOGETHER]
            heads = await self._log.heads([identity[:3] for identity in some])
            for identity in some:
                known = self._sessions.get(identity)
                if known is None:
                    continue
                created_at, head = heads.get(identity[:3], (0, 0))
                gone = known.gone or created_at != identity[3]
                if gone or head > known.head:
                    known.gone, known.head = gone, max(head, known.head)
                    _ring(known)

    def drain(self) -> None:
        """Ask every watcher to leave at its next boundary."""
        self.draining = True
        self._ring_all()

    def _ring_all(self) -> None:
        for known in self._sessions.values():
            _ring(known)


def keys_of(writes: Sequence[Write]) -> Iterator[str]:
    """Yield what to ring for after a commit."""
    for write in writes:
        yield key_of(*_identity(write.session)[:3])


def _identity(session: Session) -> _Identity:
    return session.tenant, session.owner, session.context_id, session.created_at


def _ring(known: _Known) -> None:
    for seat in known.seats:
        seat.hear()
