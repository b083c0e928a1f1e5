"""Tasks under /api: document tasks written by external runtimes, and reads of all tasks."""

from contextlib import aclosing
from typing import Any

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.a2a import tasks
from taskplane.gateway.a2a.follow import cursor_of
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.coordination import deletion, documents
from taskplane.gateway.kagent.envelope import data_reply, list_reply, read_json
from taskplane.gateway.kagent.session_tasks import iterate_tasks, wants_superseded
from taskplane.gateway.kagent.shapes import task_json
from taskplane.gateway.limits import parse_if_match
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.documents import read_task
from taskplane.gateway.web import etags
from taskplane.gateway.web.http import Headers, Reply, Request, empty_reply


async def put(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Create or replace a document task, and create its session if there is none, with the agent in X-Agent-Name.

    Raise Refused `MANAGED` if an executor runs the task; AlreadyExists if the id belongs to another owner; Conflict if
    the task does not have the generation in If-Match.
    """
    document = await read_json(plane, request, lenient=True)
    task = await plane.worker.run(request.size, read_task, document)
    expected = parse_if_match(request.header(b"if-match"), "generation")
    agent = request.header(b"x-agent-name")
    record = (await documents.put(plane, task, agent=agent, expected_generation=expected)).record
    shown = await _shown(plane, record.task, cursor_of(record))
    return data_reply(shown, "Successfully stored task", status=201, headers=_headers(record))


async def get(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return a task or, under the id of a session, the session task. Raise NotFound."""
    record = await tasks.read(plane, request.arguments["task"])
    shown = await _shown(plane, record.task, cursor_of(record))
    # The session task has no log, and so no generation and no cursor.
    headers = _headers(record) if record.incarnation else None
    return data_reply(shown, "Successfully retrieved task", headers=headers)


async def delete(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Delete a task with its log and its words, canceling it if it runs. Raise NotFound."""
    await deletion.delete_task(plane, request.arguments["task"])
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
