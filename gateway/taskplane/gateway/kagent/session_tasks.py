"""Iteration over the tasks of a session and the events of a task, page by page."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, NamedTuple

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.a2a.follow import cursor_of
from taskplane.gateway.coordination.conversation import first_record
from taskplane.gateway.kagent import paging
from taskplane.gateway.plane import Plane
from taskplane.gateway.web.http import Request
from taskplane.runtime.validation import invalid

_PAGE: Final = 100
_EVENTS: Final = 1_000


class Listed(NamedTuple):
    """A task of a session and its cursor, empty for the session task. `superseded`: it is hidden by a rewind."""

    task: a2a.Task
    cursor: str = ""
    superseded: bool = False


async def iterate_tasks(
    plane: Plane, context_id: str, *, artifacts: bool, superseded: bool = False
) -> AsyncGenerator[Listed, None]:
    """Yield the tasks of a session, oldest first; tasks hidden by a rewind only if `superseded`.

    The session task comes first if the session has one; it may be a task that is stored under the session's id. Raise
    NotFound if there is no such session.
    """
    session = (await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))).session
    first = await first_record(plane, session)
    if first is not None:
        yield Listed(first.task, cursor_of(first) if first.incarnation else "")
    asked = pb.ListTasksRequest(
        context_id=context_id,
        page_size=_PAGE,
        include_artifacts=artifacts,
        include_superseded=superseded,
        order=pb.TASK_ORDER_CREATED,
    )
    async with aclosing(paging.pages(plane.tasks.ListTasks, asked)) as pages:
        async for page in pages:
            for record in page.records:
                if first is not None and record.id == context_id and not record.superseded:
                    continue
                yield Listed(record.task, cursor_of(record), record.superseded)


async def iterate_events(
    plane: Plane, task_id: str, *kinds: pb.EventKind.ValueType, status_messages: bool = False
) -> AsyncGenerator[pb.Event, None]:
    """Yield the events of some kinds in the log of a task, oldest first. `status_messages`: those with the mark of a
    status text only. Raise NotFound."""
    asked = pb.ListEventsRequest(task_id=task_id, kinds=kinds, status_messages=status_messages, limit=_EVENTS)
    while True:
        events = (await plane.tasks.ListEvents(asked)).events
        for event in events:
            yield event
        if len(events) < _EVENTS:
            return
        asked.after_generation = events[-1].generation


def wants_superseded(request: Request) -> bool:
    """Return whether the query asks for `include=superseded`. Raise Invalid if it asks to include anything else."""
    include = request.query.get("include", "")
    if include not in ("", "superseded"):
        raise invalid({"include": "must be superseded"})
    return bool(include)
