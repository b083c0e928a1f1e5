"""Following a task: what WatchTask sends, as the elements of a stream, through restarts of the store."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Final

from google.protobuf.struct_pb2 import Struct

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.gateway.translate.dialect import Payload
from taskplane.runtime.errors import OutOfRange, Unavailable

# The cursor after an element, and the element.
Item = tuple[str, Payload]
States = frozenset[int]

TERMINAL: Final[States] = frozenset(
    {
        a2a.TASK_STATE_COMPLETED,
        a2a.TASK_STATE_FAILED,
        a2a.TASK_STATE_CANCELED,
        a2a.TASK_STATE_REJECTED,
    }
)
# Marks a Task that stands for events which can no longer be told, with the reason.
RESYNC: Final = "taskplane.dev/resync"

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0


class Flow:
    """The elements of a stream, in batches; to be closed with `aclose`, at the end or before."""

    __slots__ = ("_batches", "_first")

    def __init__(self, batches: AsyncGenerator[list[Item], None]) -> None:
        self._batches = batches
        self._first: list[Item] | None = None

    async def prime(self) -> list[Item]:
        """Waits for the first batch, which the iteration then begins with; empty if there is none."""
        try:
            self._first = await anext(self._batches)
        except StopAsyncIteration:
            return []
        return self._first

    def __aiter__(self) -> "Flow":
        return self

    async def __anext__(self) -> list[Item]:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        return await self._batches.__anext__()

    async def aclose(self) -> None:
        """Ends the watch behind it."""
        await self._batches.aclose()


async def single(payload: Payload) -> AsyncGenerator[list[Item], None]:
    """A stream of one element without a place in a log."""
    yield [("", payload)]


async def follow(
    tasks: TaskStoreStub,
    task_id: str,
    cursor: str,
    stop: States,
    *,
    patience: float,
    begin: a2a.Task | None = None,
) -> AsyncGenerator[list[Item], None]:
    """The visible events of a task after `cursor`, until an event leads into a state of `stop`, or the task is in one
    and there are no more.

    Without a cursor a Task comes first. `begin` is the Task at `cursor`, where the caller has it. A cursor that cannot
    be honoured is answered with a Task marked with `RESYNC`. While the store cannot be reached it waits up to
    `patience` seconds, then ends. NotFound; Unavailable before the first element.
    """
    emitted = begin is not None
    if begin is not None:
        yield [(cursor, begin)]
    resync = ""
    loop = asyncio.get_running_loop()
    lost_at: float | None = None
    pause = _FIRST_PAUSE
    while True:
        call = tasks.WatchTask(pb.WatchTaskRequest(task_id=task_id, cursor=cursor, stop_at=state_values(stop)))
        try:
            incarnation = cursor.rpartition("-")[0]
            async for response in call:
                lost_at, pause = None, _FIRST_PAUSE
                which = response.WhichOneof("response")
                if which == "events":
                    events = response.events.events
                    items: list[Item]
                    items, ended = _visible(incarnation, events, stop, first=not emitted)
                    cursor = f"{incarnation}-{events[-1].generation}"
                elif which == "snapshot":
                    snapshot = response.snapshot
                    if emitted and not resync:
                        items = _updates(snapshot.record.task, cursor, snapshot.cursor)
                    else:
                        items = [(snapshot.cursor, _marked(snapshot.record.task, resync))]
                    ended = snapshot.record.task.status.state in stop
                    cursor, resync = snapshot.cursor, ""
                    incarnation = cursor.rpartition("-")[0]
                elif which == "end":
                    return
                else:
                    continue
                if items:
                    emitted = True
                    yield items
                if ended:
                    return
        except OutOfRange as error:
            if not cursor:
                raise
            resync, cursor = error.reason, ""
            continue
        except Unavailable:
            if not emitted:
                raise
        finally:
            call.cancel()
        # The store restarts: the same place, once more.
        now = loop.time()
        lost_at = now if lost_at is None else lost_at
        if now - lost_at >= patience:
            return
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def state_values(states: Iterable[int]) -> list[a2a.TaskState.ValueType]:
    """States as a request takes them."""
    return [a2a.TaskState.ValueType(state) for state in states]


def _visible(incarnation: str, events: Iterable[pb.Event], stop: States, *, first: bool) -> tuple[list[Item], bool]:
    """The elements that events are on a stream, up to the one that ends it, and whether one does."""
    items: list[Item] = []
    for event in events:
        which = event.event.WhichOneof("payload")
        if which == "status_update":
            update = event.event.status_update
            items.append((f"{incarnation}-{event.generation}", update))
            if update.status.state in stop:
                return items, True
        elif which == "artifact_update":
            items.append((f"{incarnation}-{event.generation}", event.event.artifact_update))
        elif which == "task" and first and not items:
            items.append((f"{incarnation}-{event.generation}", event.event.task))
    return items, False


def _updates(task: a2a.Task, before: str, after: str) -> list[Item]:
    """A replaced document for those who have the one before: each artifact whole, then the status. Only the last one
    moves the place on, so that nobody who resumes in between misses the rest."""
    items: list[Item] = [
        (
            before,
            a2a.TaskArtifactUpdateEvent(
                task_id=task.id, context_id=task.context_id, artifact=artifact, last_chunk=True
            ),
        )
        for artifact in task.artifacts
    ]
    items.append((after, a2a.TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status)))
    return items


def _marked(task: a2a.Task, resync: str) -> a2a.Task:
    if not resync:
        return task
    marked = a2a.Task()
    marked.CopyFrom(task)
    metadata: Struct = marked.metadata
    metadata.fields[RESYNC].string_value = resync
    return marked
