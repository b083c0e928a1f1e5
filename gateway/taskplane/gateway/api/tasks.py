"""Tasks under /api: documents that external runtimes write, and every task read as they read theirs."""

from contextlib import aclosing
from typing import Any

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway import etags
from taskplane.gateway.api.envelope import check_size, found, found_some, read_json
from taskplane.gateway.api.history import apply
from taskplane.gateway.api.listing import tasks_of
from taskplane.gateway.api.shapes import task_json
from taskplane.gateway.api.task_infos import wants_superseded
from taskplane.gateway.auth import Caller
from taskplane.gateway.http import Headers, Reply, Request, empty_reply
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.documents import read_task
from taskplane.runtime.errors import NotFound, Refused


async def put(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Creates or replaces a whole task. Refused `MANAGED`: it is one that is run here. AlreadyExists: the id belongs to
    somebody else. Conflict: it is not at the generation that If-Match names."""
    document = await read_json(plane, request)
    task = await plane.worker.run(request.size, read_task, document)
    expected = etags.named(request.header(b"if-match"), "generation")
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
    if stored.created:
        await _keep_in_line(plane, record.task.context_id)
    shown = await _shown(plane, record.task)
    return found(shown, "Successfully stored task", status=201, headers=_etag(record))


async def _keep_in_line(plane: Plane, context_id: str) -> None:
    """A document that comes after the rewind of its turn is hidden like those that were there."""
    try:
        session = (await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))).session
    except NotFound:
        return
    if session.steered_seq:
        await apply(plane, context_id)


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
    """Remove a task with its log; one that runs is canceled, and what it said stays in its session. NotFound."""
    await plane.executor.DeleteTask(xb.DeleteTaskRequest(task_id=request.arguments["task"]))
    return empty_reply(204)


async def of_session(plane: Plane, request: Request, caller: Caller) -> Reply:
    """All tasks of a session, oldest first, after its session task where it has one. `include=superseded` shows those
    that a rewind hid, too, each with `superseded`. NotFound; Invalid."""
    superseded = wants_superseded(request)
    shown: list[dict[str, Any]] = []
    listed = tasks_of(plane, request.arguments["session"], artifacts=True, superseded=superseded)
    async with aclosing(listed):
        async for one in listed:
            shown.append(await _shown(plane, one.task))
            if one.superseded:
                shown[-1]["superseded"] = True
    return found_some(shown, "Successfully retrieved session tasks")


async def _shown(plane: Plane, task: a2a.Task) -> dict[str, Any]:
    return await plane.worker.run(task.ByteSize(), task_json, task)


def _etag(record: pb.TaskRecord) -> Headers:
    return [(b"etag", etags.numbered(record.generation))]
