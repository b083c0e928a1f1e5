"""Routes that rewind a session, undo a rewind, and fork a session at an earlier point."""

import logging
from typing import Any

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.coordination import conversation
from taskplane.gateway.kagent.envelope import data_reply, read_object, read_options
from taskplane.gateway.kagent.shapes import session_json
from taskplane.gateway.limits import check_key, check_size, parse_if_match
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.fields import Fields
from taskplane.gateway.translate.reading import Reading
from taskplane.gateway.translate.rewinds import read_version
from taskplane.gateway.translate.v0_3 import V0_3
from taskplane.gateway.web.http import Reply, Request

_log = logging.getLogger(__name__)


async def rewind(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Cut a turn and every later one. Raise NotFound, also `INVOCATION_NOT_FOUND`; Conflict `VERSION_MISMATCH` or
    `REWIND_IN_FLIGHT`."""
    bad = Reading()
    body = Fields(await read_object(plane, request), "", bad)
    asked = xb.RewindSessionRequest(
        context_id=request.arguments["session"],
        before_invocation_id=body.id("before", required=True),
        idempotency_key=_key(request),
        expected_version=_expected(request, body),
    )
    bad.check()
    done = await plane.executor.RewindSession(asked)
    return data_reply(await _left(plane, done.task, done.version), "Successfully rewound session")


async def undo(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Undo the newest rewind. Raise NotFound; Refused `NOTHING_TO_UNDO` or `TOO_LATE_TO_UNDO`; Conflict as `rewind`."""
    bad = Reading()
    body = Fields(await read_options(plane, request), "", bad)
    asked = xb.UndoRewindRequest(
        context_id=request.arguments["session"],
        idempotency_key=_key(request),
        expected_version=_expected(request, body),
    )
    bad.check()
    done = await plane.executor.UndoRewind(asked)
    return data_reply(await _left(plane, done.task, done.version), "Successfully undid the rewind")


async def fork(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Create a session with the effective history of this one, or with its part before a turn. Raise NotFound, also
    `INVOCATION_NOT_FOUND`; AlreadyExists if the new id is in use."""
    bad = Reading()
    body = Fields(await read_options(plane, request), "", bad)
    asked = sb.ForkRequest(
        context_id=request.arguments["session"],
        # An empty `before` is an error; it must not be taken for a missing one, which copies everything.
        before_invocation_id=body.id("before", required=body.get("before") is not None),
        new_context_id=body.id("id"),
        title=body.text("name"),
    )
    bad.check()
    check_size(asked)
    session = (await plane.sessions.Fork(asked)).session
    _log.info("forked session %s into %s", asked.context_id, session.context_id)
    return data_reply(session_json(session), "Successfully forked session", status=201)


def _key(request: Request) -> str:
    key = request.header(b"idempotency-key")
    check_key(key)
    return key


def _expected(request: Request, body: Fields) -> int:
    """Return the version that body or header expect of the session; 0: any."""
    return read_version(body, "expectedVersion") or parse_if_match(request.header(b"if-match"), "version")


async def _left(plane: Plane, task: a2a.Task, version: int) -> dict[str, Any]:
    session = (await plane.sessions.GetSession(sb.GetSessionRequest(context_id=task.context_id))).session
    task = await conversation.with_documents(plane, task)
    messages = await plane.worker.run(task.ByteSize(), lambda: [V0_3.message(one) for one in task.history])
    return {"session": session_json(session), "version": version, "messages": messages}
