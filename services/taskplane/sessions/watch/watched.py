"""Which sessions are being watched, how many entries they are known to have, and the bell that wakes their watchers."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from taskplane.sessions.domain.commands import Write
from taskplane.sessions.domain.session import Session
from taskplane.sessions.metrics import WATCHERS
from taskplane.sessions.store import WatchLog
from taskplane.storage.bell import key_of
from taskplane.storage.watching import Seat, Watching

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 1000

# Tenant, owner, context id, and when it was created: a session that was deleted and created again is a different
# session.
_Identity = tuple[str, str, str, int]


class Watched(Watching[_Identity, Seat]):
    """The sessions being watched in this process."""

    def __init__(self, log: WatchLog, *, poll_every: float) -> None:
        super().__init__("sessions", _log, WATCHERS.labels(), poll_every=poll_every, at_once=_AT_ONCE)
        self._log = log

    def enter(self, session: Session) -> Seat:
        """Take a seat at a session as it was found. Later commits are noticed; so read once more."""
        identity = _identity(session)
        return Seat(self, identity, key_of(*identity[:3]), session.seq)

    def committed(self, writes: Sequence[Write]) -> None:
        """Wake the watchers of the sessions that a commit changed."""
        if not self._watched:
            return
        for write in writes:
            known = self._watched.get(_identity(write.session))
            if known is not None and (write.delete or write.session.seq > known.head):
                known.gone = known.gone or write.delete
                known.head = max(known.head, write.session.seq)
                known.wake()

    async def _heads(self, some: Sequence[_Identity]) -> Mapping[_Identity, int]:
        found = await self._log.heads([identity[:3] for identity in some])
        return {(*key, created_at): head for key, (created_at, head) in found.items()}


def keys_of(writes: Sequence[Write]) -> Iterator[str]:
    """Yield the keys to ring after a commit."""
    for write in writes:
        yield key_of(*_identity(write.session)[:3])


def _identity(session: Session) -> _Identity:
    return session.tenant, session.owner, session.context_id, session.created_at
