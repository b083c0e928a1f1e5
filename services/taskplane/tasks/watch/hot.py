"""What was committed a moment ago, kept in memory for those who are caught up."""

from collections import OrderedDict
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.tasks.domain.task import CREATED, Row
from taskplane.tasks.store import Changed, Committed
from taskplane.tasks.watch.ring import Render, Ring

RING_EVENTS: Final = 256
RING_BYTES: Final = 1024 * 1024
_ROW_BYTES: Final = 1024


class HotTask:
    """A task that was written to lately: its row after the last commit, its newest events, perhaps its content."""

    __slots__ = ("_task", "_task_at", "ring", "row", "size")

    def __init__(self, row: Row) -> None:
        self.row = row
        self.ring = Ring(RING_EVENTS, RING_BYTES)
        # Bytes, about.
        self.size = _ROW_BYTES
        self._task: a2a.Task | None = None
        self._task_at = 0

    def commit(self, change: Changed) -> None:
        """Takes what one commit did to the task."""
        was, self.row = self.row, change.row
        if change.events:
            self.ring.add(change.events)
            self._task = None
        elif change.row.trimmed_generation > was.trimmed_generation:
            self.ring = Ring(RING_EVENTS, RING_BYTES)
        elif change.task is None:
            return
        self.size = _ROW_BYTES + self.ring.size
        if change.task is not None:
            self._task, self._task_at = change.task, change.row.generation
            self.size += len(change.snapshot or b"")

    def task_at(self, generation: int, render: Render) -> a2a.Task | None:
        """The task folded at exactly `generation`, if it is at hand. Shared: never change it."""
        if self._task is not None and self._task_at == generation:
            return self._task
        return self._first(render) if generation == 1 else None

    def _first(self, render: Render) -> a2a.Task | None:
        """A managed task as its first event has it."""
        events = self.ring.after(0, 1)
        if not events or events[0].kind != CREATED:
            return None
        return self.ring.message(events[0], render).event.task


class Hot:
    """The tasks written to lately, fed by the commits of this process; the least recently written one goes first.

    A copy of the log and never a second source: what is here is committed, but another process may have written since.
    """

    def __init__(self, render: Render, *, max_tasks: int = 4096, max_bytes: int = 64 * 1024 * 1024) -> None:
        self.render = render
        self._tasks: OrderedDict[str, HotTask] = OrderedDict()
        self._uids: dict[tuple[str, str], str] = {}
        self._max_tasks = max_tasks
        self._max_bytes = max_bytes
        self._size = 0

    def __len__(self) -> int:
        return len(self._tasks)

    def find(self, tenant: str, task_id: str) -> HotTask | None:
        """By public identity, whoever owns it."""
        uid = self._uids.get((tenant, task_id))
        return self._tasks[uid] if uid is not None else None

    def get(self, uid: str) -> HotTask | None:
        """By internal identity."""
        return self._tasks.get(uid)

    def task_at(self, uid: str, generation: int) -> a2a.Task | None:
        """The task folded at exactly `generation`, if it is at hand. Shared: never change it."""
        hot = self._tasks.get(uid)
        return hot.task_at(generation, self.render) if hot is not None else None

    def committed(self, commit: Committed) -> None:
        """Takes in one commit. What is older than what is here changes nothing."""
        for change in commit.changes:
            self._commit(change)
        for change in commit.deleted:
            self._drop(change.row.uid)
        while len(self._tasks) > self._max_tasks or (self._size > self._max_bytes and self._tasks):
            self._drop(next(iter(self._tasks)))

    def _commit(self, change: Changed) -> None:
        row = change.row
        hot = self._tasks.get(row.uid)
        if hot is None:
            if not change.events:
                return
            hot = self._tasks[row.uid] = HotTask(row)
            self._uids[row.tenant, row.id] = row.uid
        elif row.generation < hot.row.generation:
            # A batch that was in flight beside a later one, heard of after it.
            return
        else:
            self._size -= hot.size
            self._tasks.move_to_end(row.uid)
        hot.commit(change)
        self._size += hot.size

    def _drop(self, uid: str) -> None:
        hot = self._tasks.pop(uid, None)
        if hot is not None:
            self._size -= hot.size
            name = hot.row.tenant, hot.row.id
            # Another task may have the id by now.
            if self._uids.get(name) == uid:
                del self._uids[name]
