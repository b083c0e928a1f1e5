"""Which sessions may have tasks whose messages are not all in them yet."""

from collections.abc import Sequence
from typing import Final

from taskplane.tasks.domain.task import AT_REST, MANAGED, Row
from taskplane.tasks.store import Committed, TaskLog

Context = tuple[str, str, str]
_MAX_KNOWN: Final = 1000
_MAX_NAMED: Final = 100


class Uncopied:
    """Answers for one session (tenant, owner, context id) which of its tasks are uncopied.

    Almost always none is. A store that is `alone` on its database sees every commit, so it knows the sessions that have
    some and reads only for those; another one, or one that has more of them than it can remember, always reads.
    """

    def __init__(self, log: TaskLog, *, alone: bool) -> None:
        self._log = log
        self._tasks: dict[Context, set[str]] | None = {} if alone else None
        self._known = 0

    async def load(self) -> None:
        """Reads what is uncopied now; to be done before the store serves."""
        if self._tasks is not None:
            rows = await self._log.uncopied(None, _MAX_KNOWN)
            self.committed(Committed(rows=rows))

    def committed(self, commit: Committed) -> None:
        """Takes in one commit."""
        for row in commit.rows:
            if self._tasks is not None and row.origin == MANAGED:
                self._note(self._tasks, row, uncopied=is_uncopied(row))
        for row in commit.deleted:
            if self._tasks is not None:
                self._note(self._tasks, row, uncopied=False)

    def _note(self, tasks: dict[Context, set[str]], row: Row, *, uncopied: bool) -> None:
        context = (row.tenant, row.owner, row.context_id)
        known = tasks.get(context)
        if uncopied:
            known = tasks.setdefault(context, set())
            self._known += row.uid not in known
            known.add(row.uid)
            if self._known >= _MAX_KNOWN:
                self._tasks = None
        elif known is not None and row.uid in known:
            known.remove(row.uid)
            self._known -= 1
            if not known:
                del tasks[context]

    async def of(self, context: Context) -> Sequence[Row]:
        """The uncopied tasks of the session, the one that has waited longest first."""
        if self._tasks is not None and context not in self._tasks:
            return ()
        return await self._log.uncopied(context, _MAX_NAMED)


def is_uncopied(row: Row) -> bool:
    """A managed task at rest whose newest message is not in its session."""
    return row.origin == MANAGED and row.state in AT_REST and row.copied_generation < row.message_generation
