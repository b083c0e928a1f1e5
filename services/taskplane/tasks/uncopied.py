"""Index of the sessions that may lack messages of their tasks."""

from collections.abc import Sequence
from typing import Final

from taskplane.tasks.committed import Committed
from taskplane.tasks.domain.task import AT_REST, MANAGED, Row
from taskplane.tasks.store import CopyLog

Context = tuple[str, str, str]
_MAX_KNOWN: Final = 1000
_MAX_NAMED: Final = 100


class Uncopied:
    """Finds the uncopied tasks of a session (tenant, owner, context id).

    Almost always there are none. A store that is `alone` on its database sees every commit, so it knows the sessions
    with uncopied tasks and reads only those. Any other store, and a store with too many uncopied tasks to remember,
    always reads the database.
    """

    def __init__(self, log: CopyLog, *, alone: bool) -> None:
        self._log = log
        # The session of each uncopied task, by uid, and the number of them in each session. None: not known.
        self._sessions: dict[str, Context] | None = {} if alone else None
        self._counts: dict[Context, int] = {}

    async def load(self) -> None:
        """Read the uncopied tasks. Call this before the store serves."""
        if self._sessions is not None:
            for row in await self._log.uncopied(None, _MAX_KNOWN):
                self._note(row.uid, (row.tenant, row.owner, row.context_id))

    def committed(self, commit: Committed) -> None:
        """Take in one commit."""
        for change in commit.changes:
            row = change.row
            self._note(row.uid, (row.tenant, row.owner, row.context_id) if is_uncopied(row) else None)
        for change in commit.deleted:
            self._note(change.row.uid, None)

    def _note(self, uid: str, session: Context | None) -> None:
        """Note the session of an uncopied task; None: the task is not uncopied."""
        sessions = self._sessions
        if sessions is None or (session is None and uid not in sessions):
            return
        before = sessions.pop(uid, None)
        if before is not None:
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]
        if session is not None:
            sessions[uid] = session
            self._counts[session] = self._counts.get(session, 0) + 1
            if len(sessions) >= _MAX_KNOWN:
                self._sessions = None
                self._counts.clear()

    async def of(self, context: Context) -> Sequence[Row]:
        """Return the uncopied tasks of the session, the longest waiting first."""
        if self._sessions is not None and context not in self._counts:
            return ()
        return await self._log.uncopied(context, _MAX_NAMED)


def is_uncopied(row: Row) -> bool:
    """Return whether a task is managed, at rest, and its newest message is missing in its session."""
    return row.copied_generation < row.message_generation and row.state in AT_REST and row.origin == MANAGED
