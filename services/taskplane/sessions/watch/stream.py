"""One watch: the session, its entries after a number, in order and without a gap, then live ones."""

import time
from collections.abc import AsyncGenerator
from typing import Final

from taskplane.runtime.errors import NotFound, OutOfRange, Unavailable
from taskplane.sessions.domain.session import Scope, Session
from taskplane.sessions.store import EntryPage, WatchLog
from taskplane.sessions.watch.watched import Watched

PAGE_ENTRIES: Final = 256


class Deleted:
    """The session is gone."""


class Quiet:
    """Nothing has come for a while."""


Seen = Session | EntryPage | Deleted | Quiet


class Watch:
    """Serves any number of watchers of any sessions."""

    def __init__(self, log: WatchLog, watched: Watched, *, quiet_after: float = 5.0) -> None:
        """`quiet_after`: seconds without an entry after which `Quiet` is sent."""
        self._log = log
        self._watched = watched
        self._quiet_after = quiet_after

    async def stream(self, scope: Scope, context_id: str, after: int | None) -> AsyncGenerator[Seen, None]:
        """Yield the entries for one watcher, by the contract (`SessionHistory.WatchEntries`).

        `after` None: only later entries. When the store drains, the stream ends without `Deleted`. Raise NotFound,
        OutOfRange `BEYOND_HEAD`.
        """
        session = await self._log.session(scope, context_id)
        place = session.seq if after is None else after
        if place > session.seq:
            raise OutOfRange(
                f"session {context_id} has {session.seq} entries",
                reason="BEYOND_HEAD",
                suggestion="another session has this id now: read it from the beginning",
                metadata={"seq": str(session.seq)},
            )
        seat = self._watched.enter(session)
        try:
            yield session
            spoke = time.monotonic()
            # Once in any case: commits before the seat was taken rang no bell.
            unsure = True
            while not self._watched.draining:
                if seat.gone:
                    yield Deleted()
                    return
                if unsure or place < seat.head:
                    page = await self._page(scope, session, place)
                    if page is None:
                        yield Deleted()
                        return
                    if page.entries:
                        yield page
                        place, spoke = page.entries[-1].seq, time.monotonic()
                    elif not unsure:
                        raise Unavailable("the log of this session is shorter than before", reason="LOG_CHANGED")
                    unsure = False
                    continue
                quiet = spoke + self._quiet_after - time.monotonic()
                if quiet <= 0:
                    yield Quiet()
                    spoke = time.monotonic()
                elif self._watched.outage is not None:
                    raise self._watched.outage
                else:
                    await seat.wait(quiet)
        finally:
            seat.leave()

    async def _page(self, scope: Scope, session: Session, place: int) -> EntryPage | None:
        """Return the entries after `place`; None if the session was deleted, even if another session has its id now."""
        try:
            page = await self._log.after(scope, session.context_id, place, PAGE_ENTRIES)
        except NotFound:
            return None
        return page if page.session.created_at == session.created_at else None
