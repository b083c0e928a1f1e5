"""Tasks under /api: document tasks written by external runtimes, and reads of all tasks."""

import hashlib
import logging
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any, Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway import etags, operations
from taskplane.gateway.api.effective_history import apply_session
from taskplane.gateway.api.envelope import data_reply, list_reply, read_json
from taskplane.gateway.api.session_tasks import iterate_tasks
from taskplane.gateway.api.shapes import task_json
from taskplane.gateway.api.task_infos import wants_superseded
from taskplane.gateway.auth import Caller
from taskplane.gateway.follow import cursor_of
from taskplane.gateway.http import Headers, Reply, Request, empty_reply
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.documents import read_task
from taskplane.gateway.validation import check_size
from taskplane.runtime.errors import NotFound, PlaneError, Refused
from taskplane.runtime.validation import is_id

# Turns of a document of which its session is told at once: the newest ones.
_MOST_TURNS: Final = 1_000

_log = logging.getLogger(__name__)


async def put(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Create or replace a document task. Raise Refused `MANAGED` if an executor runs the task; AlreadyExists if the id
    belongs to another owner; Conflict if the task does not have the generation in If-Match."""
    document = await read_json(plane, request)
    task = await plane.worker.run(request.size, read_task, document)
    expected = etags.parse_if_match(request.header(b"if-match"), "generation")
    asked = pb.PutTaskRequest(task=task, expected_generation=expected, agent=request.header(b"x-agent-name"))
    check_size(asked)
    try:
        stored = await plane.tasks.PutTask(asked)
    except Refused as error:
        if error.reason != "MANAGED":
            raise
        raise Refused(
            f"task {task.id} is run by this server, which alone writes it",
            reason="MANAGED",
            suggestion="send it a message instead, or store your own task under another id",
        ) from error
    record = stored.record
    begun = await _begin_turns(plane, record, stored.invocation_ids)
    if not begun:
        await operations.touch_session(plane, record.context_id)
    if begun or stored.created:
        await _keep_in_line(plane, record.context_id)
    shown = await _shown(plane, record.task, cursor_of(record))
    return data_reply(shown, "Successfully stored task", status=201, headers=_headers(record))


async def _begin_turns(plane: Plane, record: pb.TaskRecord, turns: Iterable[str]) -> bool:
    """Have the session know the turns of a document, so that rewinds and pushed histories cut them; return whether some
    are new. A failure is logged only: the document is stored, and they become known when it is stored again."""
    entries = [
        sb.Entry(id=_begun_id(record.uid, turn), kind=sb.ENTRY_KIND_OUTCOME, invocation_id=turn, task_id=record.id)
        for turn in turns
        if is_id(turn)
    ]
    if not entries:
        return False
    asked = sb.AppendEntriesRequest(context_id=record.context_id, entries=entries[-_MOST_TURNS:])
    try:
        return (await plane.sessions.AppendEntries(asked)).appended > 0
    except NotFound:
        # Tasks may be stored for a session that does not exist.
        return False
    except PlaneError as error:
        _log.warning("session %s does not know all turns of task %s: %s", record.context_id, record.id, error)
        return False


def _begun_id(uid: str, turn: str) -> str:
    """Return the id of the entry that has the session know a turn of a document."""
    return hashlib.sha256(f"{uid}\0{turn}".encode()).hexdigest()[:32]


async def _keep_in_line(plane: Plane, context_id: str) -> None:
    """Apply the session's rewinds to a document that was stored after them."""
    try:
        session = (await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))).session
    except NotFound:
        return
    if session.steered_seq:
        await apply_session(plane, context_id)


async def get(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return a task or, under the id of a session, the session task. Raise NotFound."""
    record = await operations.get(plane, request.arguments["task"], None)
    shown = await _shown(plane, record.task, cursor_of(record))
    # The session task has no log, and so no generation and no cursor.
    headers = _headers(record) if record.incarnation else None
    return data_reply(shown, "Successfully retrieved task", headers=headers)


async def delete(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Delete a task with its log, canceling it if it runs; its messages stay in its session. Raise NotFound."""
    await plane.executor.DeleteTask(xb.DeleteTaskRequest(task_id=request.arguments["task"]))
    return empty_reply(204)


async def of_session(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return all tasks of a session, oldest first, after its session task if it has one. `include=superseded` includes
    tasks hidden by a rewind, each with `superseded`. Raise NotFound or Invalid."""
    superseded = wants_superseded(request)
    shown: list[dict[str, Any]] = []
    listed = iterate_tasks(plane, request.arguments["session"], artifacts=True, superseded=superseded)
    async with aclosing(listed):
        async for one in listed:
            shown.append(await _shown(plane, one.task, one.cursor))
            if one.superseded:
                shown[-1]["superseded"] = True
    return list_reply(shown, "Successfully retrieved session tasks")


async def _shown(plane: Plane, task: a2a.Task, cursor: str = "") -> dict[str, Any]:
    return await plane.worker.run(task.ByteSize(), task_json, task, cursor)


def _headers(record: pb.TaskRecord) -> Headers:
    return [(b"etag", etags.from_number(record.generation)), (b"taskplane-cursor", cursor_of(record).encode())]
