"""What was written a moment ago, as it is stored: whoever is alone on a database need not read it again."""

from collections.abc import Iterable
from typing import Final

from taskplane.tasks.domain.task import TERMINAL, Row
from taskplane.tasks.sql.contents import Content
from taskplane.tasks.store import Changed, Committed

_MAX_TASKS: Final = 2048
# Of one task: its snapshot and the events after it, in bytes. Those of a larger one are read.
_MAX_CONTENT: Final = 16 * 1024


class _Task:
    """One task: its row, and its content unless that is too large."""

    __slots__ = ("content", "row")

    def __init__(self, row: Row) -> None:
        self.row = row
        self.content: Content | None = None

    def commit(self, change: Changed) -> None:
        self.row = row = change.row
        if row.snapshot_bytes + row.event_bytes - row.folded_bytes > _MAX_CONTENT:
            self.content = None
        elif change.snapshot is not None:
            after = [event for event in change.events if event.generation > row.snapshot_generation]
            self.content = Content(change.snapshot, after, dict(change.said or {}))
        elif self.content is not None:
            self.content.tail.extend(change.events)
            self.content.said.update(change.said or {})


class Recent:
    """The live tasks written last, by this process, which must be the only one that writes.

    Whatever a transaction writes is set aside first and comes back when it is known to be committed; until then, or
    if that is never known, it is not here and has to be read.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, _Task] = {}
        self._aside: dict[str, _Task] = {}

    def rows(self, uids: Iterable[str]) -> dict[str, Row]:
        """The rows of these tasks, as far as they are here."""
        tasks = self._tasks
        return {uid: tasks[uid].row for uid in uids if uid in tasks}

    def content(self, uid: str) -> Content | None:
        """What the task is, if that is here; it belongs to the row that `rows` gives. Not to be changed."""
        task = self._tasks.get(uid)
        return task.content if task is not None else None

    def set_aside(self, uids: Iterable[str]) -> None:
        """A transaction is about to write these tasks."""
        self._aside = {}
        for uid in uids:
            task = self._tasks.pop(uid, None)
            if task is not None:
                self._aside[uid] = task

    def committed(self, commit: Committed) -> None:
        """The transaction that wrote these tasks is committed, and none has begun since."""
        tasks, aside = self._tasks, self._aside
        for change in commit.changes:
            row = change.row
            if row.state not in TERMINAL:
                task = aside.get(row.uid) or _Task(row)
                task.commit(change)
                tasks[row.uid] = task
        while len(tasks) > _MAX_TASKS:
            del tasks[next(iter(tasks))]
