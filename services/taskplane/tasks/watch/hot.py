"""What was committed a moment ago, kept in memory for those who are caught up."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.tasks.domain.task import Event, Row
from taskplane.tasks.store import Committed
from taskplane.tasks.watch.ring import Render, Ring

RING_EVENTS: Final = 256
RING_BYTES: Final = 1024 * 1024
_ROW_BYTES: Final = 1024


class HotTask:
    """A task that was written to lately: its row after the last commit, its newest events, perhaps its content."""

    __slots__ = ("_task", "ring", "row")

    def __init__(self, row: Row) -> None:
        self.row = row
        self.ring = Ring(RING_EVENTS, RING_BYTES)
        self._task: tuple[int, a2a.Task, int] | None = None

    @property
    def size(self) -> int:
        """Bytes, about."""
        return _ROW_BYTES + self.ring.size + (self._task[2] if self._task is not None else 0)

    def commit(self, row: Row, events: Sequence[Event], task: a2a.Task | None) -> None:
        """Takes what one commit did to the task."""
        self.row = row
        if events:
            self.ring.add(events)
            self._task = None
        if task is not None:
            self._task = (row.generation, task, task.ByteSize())

    def task_at(self, generation: int, render: Render) -> a2a.Task | None:
        """The task folded at exactly `generation`, if it is at hand. Shared: never change it."""
        if self._task is not None and self._task[0] == generation:
            return self._task[1]
        return self.first(render) if generation == 1 else None

    def first(self, render: Render) -> a2a.Task | None:
        """A managed task as its first event has it."""
        steps = self.ring.after(0, 1)
        message = steps[0].message(render) if steps else None
        return message.event.task if message is not None and message.event.HasField("task") else None


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

    def first(self, uid: str) -> a2a.Task | None:
        """A managed task as it was created, if that is at hand. Shared: never change it."""
        hot = self._tasks.get(uid)
        return hot.first(self.render) if hot is not None else None

    def committed(self, commit: Committed) -> None:
        """Takes in one commit; commits must come in their order."""
        events: dict[str, list[Event]] = {}
        for event in commit.events:
            events.setdefault(event.task_uid, []).append(event)
        for row in commit.rows:
            self._commit(row, events.get(row.uid, ()), commit.folded.get(row.uid))
        for row in commit.deleted:
            self._drop(row.uid)
        while len(self._tasks) > self._max_tasks or (self._size > self._max_bytes and self._tasks):
            self._drop(next(iter(self._tasks)))

    def _commit(self, row: Row, events: Sequence[Event], task: a2a.Task | None) -> None:
        hot = self._tasks.get(row.uid)
        if hot is None:
            if not events:
                return
            hot = self._tasks[row.uid] = HotTask(row)
            self._uids[row.tenant, row.id] = row.uid
        else:
            self._size -= hot.size
            self._tasks.move_to_end(row.uid)
        hot.commit(row, events, task)
        self._size += hot.size

    def _drop(self, uid: str) -> None:
        hot = self._tasks.pop(uid, None)
        if hot is not None:
            self._size -= hot.size
            name = hot.row.tenant, hot.row.id
            # Another task may have the id by now.
            if self._uids.get(name) == uid:
                del self._uids[name]
