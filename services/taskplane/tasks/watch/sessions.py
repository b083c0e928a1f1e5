"""The watched sessions, the known state of their tasks, and the notification of their watchers."""

import asyncio
from collections.abc import Iterable, Sequence, Set
from typing import Final, NamedTuple

from taskplane.storage.bell import Listener, key_of
from taskplane.tasks.committed import Committed
from taskplane.tasks.domain.infos import Info, fingerprint
from taskplane.tasks.domain.task import DOCUMENT, Scope
from taskplane.tasks.metrics import WATCHERS
from taskplane.tasks.rings import Notified, concerns_session, session_key
from taskplane.tasks.store import Session, WatchLog

_SESSIONS: Final = WATCHERS.labels("session")
# If more tasks than this have changed, the whole session is read instead of the tasks by uid.
_BY_UID: Final = 200


class TaskChange(NamedTuple):
    """A task that is new or has changed. `first`: it was not known before. `gone`: it has left the session."""

    uid: str
    info: Info
    first: bool
    gone: bool = False


class WatchedSession:
    """The tasks of one session as they were last read, shared by all watchers of the session.

    Changes are numbered. A watcher remembers the number of the last change that it has seen, and gets each task that
    changed later, in its current state. The first watcher that wakes reads for all.
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
        # Tasks that left the session, in their last known state.
        self._gone: dict[str, Info] = {}
        # The number of each task's last change, by uid. The dict is ordered by these numbers.
        self._changes: dict[str, int] = {}
        # By uid: the number of the first change of the task.
        self._first: dict[str, int] = {}
        self._dirty: set[str] = set()
        self._stale = True
        self._reading = asyncio.Lock()

    def infos(self) -> list[Info]:
        """Return all tasks, oldest first."""
        return sorted(self._infos.values(), key=lambda info: (info.task.created_at, info.task.id))

    def changes_after(self, number: int) -> list[TaskChange]:
        """Return the tasks that changed after change `number`, in the order of their last changes."""
        changes: list[TaskChange] = []
        for uid in reversed(self._changes):
            if self._changes[uid] <= number:
                break
            gone = uid in self._gone
            changes.append(TaskChange(uid, (self._gone if gone else self._infos)[uid], self._first[uid] > number, gone))
        changes.reverse()
        return changes

    async def catch_up(self, *, anew: bool = False) -> None:
        """Read the tasks that may have changed; with `anew` all tasks."""
        self._stale = self._stale or anew
        # Another watcher may be reading the marked tasks.
        if self._stale or self._dirty or self._reading.locked():
            async with self._reading:
                while self._stale or self._dirty:
                    await self._read()

    async def _read(self) -> None:
        stale, dirty = self._stale, self._dirty
        self._stale, self._dirty = False, set()
        try:
            if stale or len(dirty) > _BY_UID:
                infos = await self._log.session(self._scope, self._context_id)
                self._record_gone(self._infos.keys() - {info.task.uid for info in infos})
            else:
                found = await self._log.infos_of(list(dirty))
                # A document may have been moved to another session.
                infos = [info for info in found if info.task.context_id == self._context_id]
                self._record_gone(dirty - {info.task.uid for info in infos})
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
        elif _reported(known) == _reported(info):
            return
        self._add_change(uid)

    def _add_change(self, uid: str) -> None:
        self.number += 1
        self._changes.pop(uid, None)
        self._changes[uid] = self.number

    def _record_gone(self, uids: Iterable[str]) -> None:
        for uid in list(uids):
            info = self._infos.pop(uid, None)
            self._uids.pop(key_of(uid), None)
            if info is not None:
                self._gone[uid] = info
                self._first.setdefault(uid, 0)
                self._add_change(uid)

    def mark_changed(self, uid: str) -> None:
        """Mark a task to be read, since a commit of this process changed its reported state, and wake the watchers."""
        self._dirty.add(uid)
        self.wake()

    def mark_keys_changed(self, keys: Set[str]) -> None:
        """Mark the tasks with these keys to be read, since another process changed them, and wake the watchers.

        If a key is unknown, the whole session is read.
        """
        uids = {self._uids[key] for key in keys if key in self._uids}
        self._dirty |= uids
        self._stale = self._stale or len(uids) < len(keys)
        self.wake()

    def drop(self, uid: str) -> None:
        """Remove a deleted task, and wake the watchers."""
        self._dirty.discard(uid)
        self._record_gone((uid,))
        self.wake()

    def compare(self, found: Sequence[int]) -> None:
        """Compare the fingerprint of the session in the database with the known one. If they differ, mark the session
        as stale and wake the watchers."""
        if not self._stale and not self._dirty and tuple(found) != fingerprint(self._infos.values()):
            self._stale = True
            self.wake()

    def wake(self) -> None:
        """Wake all watchers of the session."""
        for listener in self.listeners:
            listener.notify()


class WatchedSessions:
    """The sessions being watched in this process.

    A commit of this process wakes the watchers at once if it creates, deletes, imports, hides or restores a task, or
    changes its state. It also wakes them if it replaces a document. Changes of other processes come by `notified`.
    `check` finds the changes that were missed, by one statement for all sessions.
    """

    def __init__(self, log: WatchLog) -> None:
        self._log = log
        self._sessions: dict[Session, WatchedSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def enter(self, scope: Scope, context_id: str, listener: Listener) -> WatchedSession:
        """Begin to watch a session: `listener` is notified of later changes."""
        name = scope.tenant, scope.owner, context_id
        session = self._sessions.get(name)
        if session is None:
            session = self._sessions[name] = WatchedSession(self._log, scope, context_id)
        session.listeners.add(listener)
        _SESSIONS.inc()
        return session

    def leave(self, scope: Scope, context_id: str, listener: Listener) -> None:
        """End the watch of a session by `listener`."""
        name = scope.tenant, scope.owner, context_id
        session = self._sessions[name]
        session.listeners.discard(listener)
        _SESSIONS.dec()
        if not session.listeners:
            del self._sessions[name]

    def committed(self, commit: Committed) -> None:
        """Wake the watchers of each session in which this commit changed the reported state of a task."""
        if not self._sessions:
            return
        for change in commit.changes:
            row = change.row
            for context_id in (row.context_id, change.moved_from) if change.moved_from else (row.context_id,):
                session = self._sessions.get((row.tenant, row.owner, context_id))
                if session is not None and concerns_session(change):
                    session.mark_changed(row.uid)
        for change in commit.deleted:
            row = change.row
            session = self._sessions.get((row.tenant, row.owner, row.context_id))
            if session is not None:
                session.drop(row.uid)

    async def check(self) -> None:
        """Find changes whose notification was missed. Raise Unavailable if the database cannot be reached."""
        names = list(self._sessions)
        if not names:
            return
        for name, found in (await self._log.fingerprints(names)).items():
            session = self._sessions.get(name)
            if session is not None:
                session.compare(found)

    def notified(self, changed: Notified) -> None:
        """Mark the tasks that another process changed, and wake their watchers."""
        for session in self._sessions.values():
            if session.key in changed.sessions:
                session.mark_keys_changed(changed.sessions[session.key])

    def wake_all(self) -> None:
        """Wake the watchers of all sessions."""
        for session in self._sessions.values():
            session.wake()


def _reported(info: Info) -> tuple[int, int, bool, int]:
    """Return the part of a task that watchers of its session are notified of."""
    written = info.task.generation if info.task.origin == DOCUMENT else 0
    return info.task.state, info.task.status_at, info.task.superseded, written
