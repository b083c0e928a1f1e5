"""The log of a task as server-sent events: every event that the store has numbered."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext
from itertools import chain, repeat
from typing import Any, Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.a2a.follow import TERMINAL, WatchedBatch, cursor_of, mark_resync, watch
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.errors import error_api
from taskplane.gateway.event_streams import event_stream
from taskplane.gateway.limits import check_cursor
from taskplane.gateway.metrics import EVENTS
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.timestamps import to_text
from taskplane.gateway.translate.v1_0 import V1_0
from taskplane.gateway.web import sse
from taskplane.gateway.web.http import Reply, Request, empty_reply
from taskplane.runtime import json_lines, logs
from taskplane.runtime.errors import NotFound, PlaneError
from taskplane.runtime.tracing import trace_id_of

_KINDS: Final[dict[int, str]] = {
    value: name.removeprefix("EVENT_KIND_").lower() for name, value in pb.EventKind.items()
}


async def serve(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return the log of a task as a stream, from generation 1 or after the cursor in Last-Event-ID (or
    `starting_after`, or `after`), until the task ends.

    The status is 204 if the task has ended and nothing is left, which keeps browsers from reconnecting. Raise NotFound
    or Invalid `CURSOR_MALFORMED`.
    """
    query = request.query
    cursor = request.header(b"last-event-id") or query.get("starting_after", "") or query.get("after", "")
    check_cursor(cursor)
    task_id = request.arguments["task"]
    record = (await plane.tasks.ListEvents(pb.ListEventsRequest(task_id=task_id, limit=1))).record
    if record.state in TERMINAL and cursor == cursor_of(record):
        return empty_reply(204)
    events = _events(plane, task_id, cursor or f"{record.incarnation}-0", record.generation, caller.may_operate)
    return event_stream(plane, caller, events)


async def _events(plane: Plane, task_id: str, cursor: str, head: int, operates: bool) -> AsyncGenerator[bytes, None]:
    """Yield the log in writes. Events up to `head`, its end at the beginning, are paced; later ones are not. A caller
    that `operates` is told the cause of a failure."""
    seen = watch(plane.tasks, task_id, cursor, TERMINAL, patience=plane.settings.store_patience, begun=True)
    told = False
    try:
        async with aclosing(seen):
            async for one in seen:
                told = True
                if one.response.WhichOneof("response") == "events":
                    events = one.response.events.events
                    EVENTS.inc(len(events))
                    fails = operates and events[-1].event.status_update.status.state == a2a.TASK_STATE_FAILED
                    cause = await _cause(plane, task_id) if fails else ""
                    async with plane.pacer.piece() if events[0].generation <= head else nullcontext():
                        written = await plane.worker.run(one.response.ByteSize(), _batch, one, cause)
                    yield written
                else:
                    yield await plane.worker.run(one.response.ByteSize(), _snapshot, one)
    except PlaneError as error:
        if told and isinstance(error, NotFound):
            # The task was deleted with its log.
            return
        yield sse.event(json_lines.encode(error_api(error, logs.request_id.get())), name="error")


async def _cause(plane: Plane, task_id: str) -> str:
    try:
        return (await plane.operations.GetTenantTask(pb.GetTenantTaskRequest(task_id=task_id, limit=1))).task.cause
    except PlaneError:
        return ""


def _batch(seen: WatchedBatch, cause: str) -> bytes:
    """Return a write of events; `cause` is that of the last one."""
    incarnation = seen.before.rpartition("-")[0]
    events = seen.response.events.events
    causes = chain(repeat("", len(events) - 1), [cause])
    return b"".join(
        [
            sse.event(json_lines.encode(event_json(event, told)), f"{incarnation}-{event.generation}")
            for event, told in zip(events, causes, strict=True)
        ]
    )


def event_json(event: pb.Event, cause: str = "") -> dict[str, Any]:
    """Return the JSON of an event of the log. `cause`: of a failure, for operators only."""
    which = event.event.WhichOneof("payload")
    found: dict[str, Any] = {
        "generation": event.generation,
        "time": to_text(event.created_at),
        "attempt": event.attempt,
        "actor": event.actor,
        "kind": _KINDS.get(event.kind, "unknown"),
        "event": V1_0.event(getattr(event.event, which)) if which else None,
    }
    if cause:
        found["cause"] = cause
    if event.traceparent:
        found["traceId"] = trace_id_of(event.traceparent)
    return found


def _snapshot(seen: WatchedBatch) -> bytes:
    """Return the event that stands for events that are not sent one by one: new versions of a document task, or a log
    that was replaced."""
    snapshot = seen.response.snapshot
    record = snapshot.record
    found = {
        "generation": record.generation,
        "time": to_text(record.updated_at),
        "attempt": record.attempt,
        "actor": "",
        "kind": "snapshot" if seen.resync else "replaced",
        "event": V1_0.event(mark_resync(record.task, seen.resync)),
    }
    return sse.event(json_lines.encode(found), snapshot.cursor)
