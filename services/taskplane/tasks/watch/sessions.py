"""The watched sessions, the known state of their tasks, and the bell that wakes their watchers."""

import asyncio
from collections.abc import Iterable, Sequence, Set
from typing import Final, NamedTuple

from taskplane.storage.bell import Listener, key_of
from taskplane.tasks.committed import Committed
from taskplane.tasks.domain.infos import Info, fingerprint
from taskplane.tasks.domain.task import DOCUMENT, Scope
from taskplane.tasks.metrics import WATCHERS
from taskplane.tasks.rings import Rung, is_told, session_key
from taskplane.tasks.store import Session, WatchLog

_SESSIONS: Final = WATCHERS.labels("session")
# Changed tasks of one session are read by name up to this many; the whole session otherwise.
_BY_NAME: Final = 200


class News(NamedTuple):
    """A task that is new or has changed. `first`: it was not known before. `gone`: it is in this session no more."""

    uid: str
    info: Info
    first: bool
    gone: bool = False


class WatchedSession:
    """The tasks of one session, as they were read last; shared by all its watchers.

    News are numbered, so that a watcher is a number: it is told of each task that has news after it, as that task is
    now. Whoever is woken first reads for all.
    """

    def __init__(self, log: WatchLog, scope: Scope, context_id: str) -> None:
        self.number = 0
        self.listeners: set[Listener] = set()
        self._log = log
        self._scope = scope
        self._context_id = context_id
        self.key = session_key((scope.tenant, scope.owner, context_id))
        self._infos: dict[str, Info] = {}
        self._uids: dict[str, str] = {}
        # Those that are no longer in it, as they were last.
        self._gone: dict[str, Info] = {}
        # By task: the number of its newest news, in their order, and of its first.
        self._news: dict[str, int] = {}
        self._first: dict[str, int] = {}
        self._dirty: set[str] = set()
        self._stale = True
        self._reading = asyncio.Lock()

    def infos(self) -> list[Info]:
        """Return all tasks, oldest first."""
        return sorted(self._infos.values(), key=lambda info: (info.task.created_at, info.task.id))

    def since(self, number: int) -> list[News]:
        """Return the tasks that have news after `number`, those with the oldest news first."""
        news: list[News] = []
        for uid in reversed(self._news):
            if self._news[uid] <= number:
                break
            gone = uid in self._gone
            news.append(News(uid, (self._gone if gone else self._infos)[uid], self._first[uid] > number, gone))
        news.reverse()
        return news

    async def catch_up(self, *, anew: bool = False) -> None:
        """Read the tasks that may have changed; `anew`: all tasks."""
        self._stale = self._stale or anew
        # Another watcher may be reading the noted changes.
        if self._stale or self._dirty or self._reading.locked():
            async with self._reading:
                while self._stale or self._dirty:
                    await self._read()

    async def _read(self) -> None:
        stale, dirty = self._stale, self._dirty
        self._stale, self._dirty = False, set()
        try:
            if stale or len(dirty) > _BY_NAME:
                infos = await self._log.session(self._scope, self._context_id)
                self._forget(self._infos.keys() - {info.task.uid for info in infos})
            else:
                found = await self._log.infos_of(list(dirty))
                # A document may have been moved to another session.
                infos = [info for info in found if info.task.context_id == self._context_id]
                self._forget(dirty - {info.task.uid for info in infos})
        except BaseException:
            self._stale, self._dirty = self._stale or stale, self._dirty | dirty
            raise
        for info in infos:
            self._take(info)

    def _take(self, info: Info) -> None:
        uid = info.task.uid
        known = self._infos.get(uid)
        self._infos[uid] = info
        self._gone.pop(uid, None)
        self._uids[key_of(uid)] = uid
        if known is None:
            self._first[uid] = self.number + 1
        elif _told(known) == _told(info):
            return
        self._tell(uid)

    def _tell(self, uid: str) -> None:
        self.number += 1
        self._news.pop(uid, None)
        self._news[uid] = self.number

    def _forget(self, uids: Iterable[str]) -> None:
        for uid in list(uids):
            info = self._infos.pop(uid, None)
            self._uids.pop(key_of(uid), None)
            if info is not None:
                self._gone[uid] = info
                self._first.setdefault(uid, 0)
                self._tell(uid)

    def notice(self, uid: str) -> None:
        """Note that a commit changed the reported state of this task."""
        self._dirty.add(uid)
        self.ring()

    def notice_keys(self, keys: Set[str]) -> None:
        """Note that another process changed the tasks with these keys; one that is not known is new."""
        uids = {self._uids[key] for key in keys if key in self._uids}
        self._dirty |= uids
        self._stale = self._stale or len(uids) < len(keys)
        self.ring()

    def drop(self, uid: str) -> None:
        """Note that a task was deleted."""
        self._dirty.discard(uid)
        self._forget((uid,))
        self.ring()

    def compare(self, found: Sequence[int]) -> None:
        """Read the session anew if its fingerprint in the database is not the known one."""
        if not self._stale and not self._dirty and tuple(found) != fingerprint(self._infos.values()):
            self._stale = True
            self.ring()

    def ring(self) -> None:
        """Wake all its watchers."""
        for listener in self.listeners:
            listener.hear()


class WatchedSessions:
    """The sessions being watched in this process.

    Commits of this process ring at once, but only those that make a task, change its state or mark it. Whatever else
    may have happened is found by `check`, in one statement for all of them.
    """

    def __init__(self, log: WatchLog) -> None:
        self._log = log
        self._sessions: dict[Session, WatchedSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def enter(self, scope: Scope, context_id: str, listener: Listener) -> WatchedSession:
        """Take part in watching a session. Later commits are noticed."""
        name = scope.tenant, scope.owner, context_id
        session = self._sessions.get(name)
        if session is None:
            session = self._sessions[name] = WatchedSession(self._log, scope, context_id)
        session.listeners.add(listener)
        _SESSIONS.inc()
        return session

    def leave(self, scope: Scope, context_id: str, listener: Listener) -> None:
        """End watching a session."""
        name = scope.tenant, scope.owner, context_id
        session = self._sessions[name]
        session.listeners.discard(listener)
        _SESSIONS.dec()
        if not session.listeners:
            del self._sessions[name]

    def committed(self, commit: Committed) -> None:
        """Wake the watchers of the sessions with tasks whose reported state this commit changed."""
        if not self._sessions:
            return
        for change in commit.changes:
            row = change.row
            for context_id in (row.context_id, change.moved_from) if change.moved_from else (row.context_id,):
                session = self._sessions.get((row.tenant, row.owner, context_id))
                if session is not None and is_told(change):
                    session.notice(row.uid)
        for change in commit.deleted:
            row = change.row
            session = self._sessions.get((row.tenant, row.owner, row.context_id))
            if session is not None:
                session.drop(row.uid)

    async def check(self) -> None:
        """Look whether something changed that rang no bell here. Unavailable."""
        names = list(self._sessions)
        if not names:
            return
        for name, found in (await self._log.fingerprints(names)).items():
            session = self._sessions.get(name)
            if session is not None:
                session.compare(found)

    def heard(self, rung: Rung) -> None:
        """Note changes of another process."""
        for session in self._sessions.values():
            if session.key in rung.sessions:
                session.notice_keys(rung.sessions[session.key])

    def ring_all(self) -> None:
        """Wake everybody."""
        for session in self._sessions.values():
            session.ring()


def _told(info: Info) -> tuple[int, int, bool, int]:
    written = info.task.generation if info.task.origin == DOCUMENT else 0
    return info.task.state, info.task.status_at, info.task.superseded, written
