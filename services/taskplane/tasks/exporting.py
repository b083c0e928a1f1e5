"""Export of a task as it was at a generation: its record, then its log, with one page in memory."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Conflict, Invalid, PlaneError
from taskplane.runtime.times import set_time
from taskplane.tasks import wire
from taskplane.tasks.domain.documents import unpack_turns
from taskplane.tasks.domain.fold import fold
from taskplane.tasks.domain.messages import turn_of
from taskplane.tasks.domain.task import DOCUMENT, Event, Row, Scope
from taskplane.tasks.store import ReadLog

_EVENTS: Final = 256
_BYTES: Final = 2 * 1024 * 1024


async def exported(log: ReadLog, scope: Scope, task_id: str, generation: int) -> AsyncIterator[pb.ExportTaskResponse]:
    """Yield the task, then its events up to `generation` (0: all).

    NotFound; Invalid `BEYOND_HEAD`; Conflict `TRIMMED_MEANWHILE`.
    """
    row, task = await log.get(scope, task_id, whole=True)
    if generation > row.generation:
        raise Invalid(f"task {task_id} has no generation {generation}", reason="BEYOND_HEAD")
    if not generation or row.origin == DOCUMENT:
        generation = row.generation
    if generation < row.generation:
        row, task = await _earlier(log, row, task, generation)
    yield pb.ExportTaskResponse(task=_task(row, task))
    after = 0
    while after < generation:
        events = await _page(log, row, after, generation)
        yield pb.ExportTaskResponse(events=pb.ExportedEvents(events=[_event(one) for one in events]))
        after = events[-1].generation


async def _page(log: ReadLog, row: Row, after: int, generation: int) -> Sequence[Event]:
    limit = min(_EVENTS, generation - after)
    found = await log.read_after(row.uid, after, limit, _BYTES, gaps=after < row.trimmed_generation)
    if found.row.trimmed_generation != row.trimmed_generation:
        raise _trimmed_meanwhile(row)
    return [event for event in found.events if event.generation <= generation]


async def _earlier(log: ReadLog, row: Row, shown: a2a.Task, generation: int) -> tuple[Row, a2a.Task]:
    """Return the task as it was, without later events. `shown`: the task as it is."""
    if row.terminal_generation is not None and row.terminal_generation <= generation:
        # Only marks follow the end, and they change nothing of the task.
        (newest,) = await _page(log, row, generation - 1, generation)
        return row._replace(generation=generation, updated_at=newest.created_at), shown
    if row.trimmed_generation:
        raise _trimmed_meanwhile(row)
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


def _trimmed_meanwhile(row: Row) -> PlaneError:
    return Conflict(
        f"the log of task {row.id} was trimmed during the read",
        reason="TRIMMED_MEANWHILE",
        suggestion="export the session again",
    )


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
        trimmed_generation=row.trimmed_generation,
        cut_invocation_ids=sorted(unpack_turns(row.cut_turns)),
        own_turn=(row.invocation_id or "") if row.origin == DOCUMENT and turn_of(task) is None else "",
    )
    set_time(shown.created_at, row.created_at)
    set_time(shown.status_at, row.status_at)
    set_time(shown.updated_at, row.updated_at)
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
    shown.event.traceparent = ""
    return shown
