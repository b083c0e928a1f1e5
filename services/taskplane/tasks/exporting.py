"""A task as it was at a generation, for whoever keeps it outside: its facts, then its log, a page in memory."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Invalid
from taskplane.tasks import wire
from taskplane.tasks.domain.fold import fold
from taskplane.tasks.domain.task import DOCUMENT, Event, Row, Scope
from taskplane.tasks.store import TaskLog

_EVENTS: Final = 256
_BYTES: Final = 2 * 1024 * 1024


async def exported(log: TaskLog, scope: Scope, task_id: str, generation: int) -> AsyncIterator[pb.ExportTaskResponse]:
    """The task, then its events up to `generation` (0: all). NotFound; Invalid `BEYOND_HEAD`."""
    row, task = await log.get(scope, task_id)
    if generation > row.generation:
        raise Invalid(f"task {task_id} has no generation {generation}", reason="BEYOND_HEAD")
    if not generation or row.origin == DOCUMENT:
        generation = row.generation
    if generation < row.generation:
        row, task = await _earlier(log, row, generation)
    yield pb.ExportTaskResponse(task=_task(row, task))
    after = 0
    while after < generation:
        events = await _page(log, row, after, generation)
        yield pb.ExportTaskResponse(events=pb.ExportedEvents(events=[_event(one) for one in events]))
        after = events[-1].generation


async def _page(log: TaskLog, row: Row, after: int, generation: int) -> Sequence[Event]:
    found = await log.read_after(row.uid, after, min(_EVENTS, generation - after), _BYTES)
    return found.events


async def _earlier(log: TaskLog, row: Row, generation: int) -> tuple[Row, a2a.Task]:
    """The task as it was: what was written since is left out."""
    task = a2a.Task()
    after, status_at, events = 0, row.created_at, list[Event]()
    while after < generation:
        events += await _page(log, row, after, generation)
        after = events[-1].generation
    for event in events:
        if event.changed_to is not None:
            status_at = event.created_at
    then = row._replace(
        generation=generation,
        status_at=status_at,
        updated_at=events[-1].created_at,
        consumed_generation=min(row.consumed_generation, generation),
        copied_generation=min(row.copied_generation, generation),
        attempt=events[-1].attempt,
    )
    return then, fold(task, events)


def _task(row: Row, task: a2a.Task) -> pb.ExportedTask:
    shown = pb.ExportedTask(
        uid=row.uid,
        id=row.id,
        origin=pb.ORIGIN_DOCUMENT if row.origin == DOCUMENT else pb.ORIGIN_MANAGED,
        agent=row.agent,
        generation=row.generation,
        consumed_generation=row.consumed_generation,
        copied_generation=row.copied_generation,
        attempt=row.attempt,
        on_orphan=row.on_orphan,  # type: ignore[arg-type]
        max_attempts=row.max_attempts,
        in_turn=row.in_turn,
        task=task,
    )
    wire.set_time(shown.created_at, row.created_at)
    wire.set_time(shown.status_at, row.status_at)
    wire.set_time(shown.updated_at, row.updated_at)
    return shown


def _event(stored: Event) -> pb.ExportedEvent:
    shown = pb.ExportedEvent(
        event=wire.event(stored),
        request_hash=stored.request_hash or b"",
        state=stored.state,  # type: ignore[arg-type]
        changed_to=stored.changed_to,  # type: ignore[arg-type]
        artifact_id=stored.artifact_id,
    )
    shown.event.fence = 0
    return shown
