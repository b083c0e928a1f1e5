"""Tasks under /api: documents that external runtimes write, and every task read as they read theirs."""

from collections import deque
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import Any, Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.api.envelope import check_size, found, found_some, read_json
from taskplane.gateway.api.shapes import STATUS_TEXT, flatten, kind_of, task_json
from taskplane.gateway.auth import Caller
from taskplane.gateway.http import Headers, Reply, Request, empty_reply
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate import v0_3
from taskplane.gateway.translate.documents import is_partial, read_task
from taskplane.runtime.errors import Invalid, NotFound, Refused

_PAGE: Final = 100
_EVENTS: Final = 1_000
_MOST_MESSAGES: Final = 1_000


async def put(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Creates or replaces a whole task. Refused `MANAGED`: it is one that is run here. AlreadyExists: the id belongs to
    somebody else. Conflict: it is not at the generation that If-Match names."""
    document = await read_json(plane, request)
    task = await plane.worker.run(request.size, read_task, document)
    expected = _generation(request.header(b"if-match"))
    asked = pb.PutTaskRequest(task=task, expected_generation=expected, agent=request.header(b"x-agent-name"))
    check_size(asked)
    try:
        record = (await plane.tasks.PutTask(asked)).record
    except Refused as error:
        if error.reason != "MANAGED":
            raise
        raise Refused(
            f"task {task.id} is run by this server, which alone writes it",
            reason="MANAGED",
            suggestion="send it a message instead, or store your own task under another id",
        ) from error
    shown = await _shown(plane, record.task)
    return found(shown, "Successfully stored task", status=201, headers=_etag(record))


async def get(plane: Plane, request: Request, caller: Caller) -> Reply:
    """A task or, under the id of a session, what the session shows as one task. NotFound."""
    task_id = request.arguments["task"]
    try:
        record = (await plane.tasks.GetTask(pb.GetTaskRequest(task_id=task_id))).record
    except NotFound as missing:
        try:
            session = await plane.sessions.GetSessionTask(sb.GetSessionTaskRequest(context_id=task_id))
        except NotFound:
            raise missing from None
        return found(await _shown(plane, session.task), "Successfully retrieved task")
    return found(await _shown(plane, record.task), "Successfully retrieved task", headers=_etag(record))


async def delete(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Removes a task with its log; one that runs is canceled. NotFound."""
    await plane.tasks.DeleteTask(pb.DeleteTaskRequest(task_id=request.arguments["task"]))
    return empty_reply(204)


async def of_session(plane: Plane, request: Request, caller: Caller) -> Reply:
    """All tasks of a session, oldest first, after its session task where it has one. NotFound."""
    async with aclosing(_tasks_of(plane, request.arguments["session"], artifacts=True)) as tasks:
        shown = [await _shown(plane, task) async for task in tasks]
    return found_some(shown, "Successfully retrieved session tasks")


async def session_messages(plane: Plane, request: Request, caller: Caller) -> Reply:
    """The conversation that a session's tasks are: the newest page first, each page oldest to newest. With `kind` the
    messages of that kind, status texts among them. NotFound; Invalid."""
    limit = request.number("limit", _PAGE)
    if not 1 <= limit <= _MOST_MESSAGES:
        raise Invalid(
            f"limit must be between 1 and {_MOST_MESSAGES}", fields={"limit": f"must be between 1 and {_MOST_MESSAGES}"}
        )
    end = request.query.get("before", "")
    # The conversation is read through, but no more of it is held than the page.
    page: deque[a2a.Message] = deque(maxlen=limit)
    count = 0
    async with aclosing(_said(plane, request.arguments["session"], request.query.get("kind", ""))) as messages:
        async for message in messages:
            if end and message.message_id == end:
                break
            page.append(message)
            count += 1
        else:
            if end:
                what = "names no message of this session"
                raise Invalid(f"before {what}", fields={"before": what})
    before = page[0].message_id if count > limit else None
    data = {"messages": await _messages(plane, page), "before": before}
    return found(data, "Successfully retrieved messages")


async def task_messages(plane: Plane, request: Request, caller: Caller) -> Reply:
    """The messages of one task; with `kind` those of that kind, status texts among them. NotFound."""
    record = (await plane.tasks.GetTask(pb.GetTaskRequest(task_id=request.arguments["task"]))).record
    kind = request.query.get("kind", "")
    messages = await _of_kind(plane, record.task, kind) if kind else flatten([record.task])
    return found(await _messages(plane, messages), "Successfully retrieved messages")


async def _shown(plane: Plane, task: a2a.Task) -> dict[str, Any]:
    return await plane.worker.run(task.ByteSize(), task_json, task)


async def _messages(plane: Plane, messages: Collection[a2a.Message]) -> list[dict[str, Any]]:
    size = sum(message.ByteSize() for message in messages)
    return await plane.worker.run(size, lambda: [v0_3.message(message) for message in messages])


async def _said(plane: Plane, context_id: str, kind: str) -> AsyncGenerator[a2a.Message, None]:
    """The messages of a session, oldest first; with `kind` those of that kind. NotFound."""
    seen: set[str] = set()
    async with aclosing(_tasks_of(plane, context_id, artifacts=False)) as tasks:
        async for task in tasks:
            for message in await _of_kind(plane, task, kind) if kind else flatten([task], seen):
                yield message


async def _tasks_of(plane: Plane, context_id: str, *, artifacts: bool) -> AsyncGenerator[a2a.Task, None]:
    """The tasks of a session, oldest first. The session task comes first where the session has one, unless a runtime
    stored a task of its own under the session's id. NotFound: no such session."""
    session = (await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))).session
    if session.has_session_task and not await _stands_for_itself(plane, context_id):
        yield (await plane.sessions.GetSessionTask(sb.GetSessionTaskRequest(context_id=context_id))).task
    async with aclosing(_pages(plane, context_id, artifacts)) as tasks:
        async for task in tasks:
            yield task


async def _stands_for_itself(plane: Plane, context_id: str) -> bool:
    try:
        found = await plane.tasks.GetTask(pb.GetTaskRequest(task_id=context_id, history_length=0))
    except NotFound:
        return False
    return found.record.context_id == context_id


async def _pages(plane: Plane, context_id: str, artifacts: bool) -> AsyncGenerator[a2a.Task, None]:
    asked = pb.ListTasksRequest(
        context_id=context_id, page_size=_PAGE, include_artifacts=artifacts, order=pb.TASK_ORDER_CREATED
    )
    while True:
        page = await plane.tasks.ListTasks(asked)
        for record in page.records:
            yield record.task
        if not page.next_page_token:
            return
        asked.page_token = page.next_page_token


async def _of_kind(plane: Plane, task: a2a.Task, kind: str) -> list[a2a.Message]:
    """Status texts are in no history: they are read from the log."""
    if kind != STATUS_TEXT:
        return [message for message in flatten([task]) if kind_of(message) == kind]
    messages: list[a2a.Message] = []
    after = 0
    while True:
        asked = pb.ListEventsRequest(
            task_id=task.id, kinds=[pb.EVENT_KIND_STATUS], after_generation=after, limit=_EVENTS
        )
        try:
            events = (await plane.tasks.ListEvents(asked)).events
        except NotFound:
            # The session task has no log.
            return messages
        for event in events:
            message = event.event.status_update.status.message
            if kind_of(message) == kind and not is_partial(message):
                messages.append(message)
        if len(events) < _EVENTS:
            return messages
        after = events[-1].generation


def _etag(record: pb.TaskRecord) -> Headers:
    return [(b"etag", b'"%d"' % record.generation)]


def _generation(if_match: str) -> int:
    """The generation that If-Match names, as a number, an entity tag or the end of a cursor; 0: any."""
    text = if_match.removeprefix("W/").strip('"').rpartition("-")[2]
    if text in ("", "*"):
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Invalid("If-Match must name a generation", fields={"If-Match": "must name a generation"})
    return int(text)
