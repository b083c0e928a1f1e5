"""The JSON-RPC binding of A2A 1.0 (section 9) and 0.3 (section 3.2.1): envelope, version, extensions and errors.

Checks are made in this order: content type, JSON, envelope, method, version, required extensions, params, the agent's
capabilities, then the operation itself.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import Any

import orjson

from taskplane.api import growing_text
from taskplane.gateway.a2a.card import agent_name, find, known, version_of
from taskplane.gateway.a2a.methods import METHODS, Call, Method, error_body
from taskplane.gateway.agents import Agent
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.json_body import parse_any_depth
from taskplane.gateway.metrics import SECONDS, answered
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.v0_3 import V0_3
from taskplane.gateway.translate.v1_0 import V1_0, Dialect
from taskplane.gateway.web.http import (
    BodyEncoded,
    BodyTooLarge,
    BodyTooSlow,
    ClientGone,
    Headers,
    Reply,
    Request,
    empty_reply,
    json_reply,
    remedies,
)
from taskplane.runtime import json_lines, tracing
from taskplane.runtime.errors import (
    Internal,
    Invalid,
    NotFound,
    PermissionDenied,
    PlaneError,
    Refused,
    Unavailable,
    Unimplemented,
)
from taskplane.runtime.struct_values import Digits

_log = logging.getLogger(__name__)


async def serve(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Answer one JSON-RPC request to the agent in the path, in the A2A version that its method name belongs to.

    One without an id is a notification (JSON-RPC 2.0 section 4.1): it is carried out, and its answer has no body.
    """
    rpc_id, name = b"null", ""
    try:
        request.check_json()
        body = await plane.uploads.whole(request)
        envelope, too_deep = await plane.worker.run(request.size, _parse, body)
        rpc_id = _id_of(envelope)
        name = _method_of(envelope)
        if "id" not in envelope:
            rpc_id = b""
        if too_deep is not None:
            raise too_deep
        method = METHODS.get(name)
        if method is None:
            raise Unimplemented(f"method {name[:100]} does not exist", reason="METHOD_NOT_FOUND")
        tracing.describe({"rpc.system.name": "jsonrpc", "rpc.method": name}, name=name)
        _check_version(request, method.dialect)
        path = agent_name(request)
        agent, missing = plane.agents.fresh(path), None
        if agent is None:
            agent, missing = await _agent_of(plane, path, method)
        extensions = request.extensions
        echo = _check_extensions(extensions, agent, method.dialect)
        if method.writes and not caller.may_write:
            raise PermissionDenied('this API key lacks the scope "write"', reason="READ_ONLY_KEY")
        params = envelope.get("params")
        # The paths with a namespace are those of kagent. Its clients know growing texts without naming them.
        grows = "namespace" in request.arguments or growing_text.EXTENSION in extensions
        call = Call(plane, request, caller, agent, path, method.dialect, params, rpc_id, echo, grows, missing)
        reply = await method.serve(call)
        if not rpc_id:
            reply = empty_reply(204)
        answered(name)
    except PlaneError as error:
        reply = _failed(name, rpc_id, error)
    except ClientGone:
        raise
    except Exception:  # noqa: BLE001 - the client gets a response and the log the details
        _log.exception("a JSON-RPC request failed")
        reply = _failed(name, rpc_id, Internal("internal error"))
    if name in METHODS:
        SECONDS.labels(name).observe(asyncio.get_running_loop().time() - request.accepted)
    return reply


def _failed(name: str, rpc_id: bytes, error: PlaneError) -> Reply:
    """Return the error response: HTTP 200 for JSON-RPC errors, a status of its own for errors of HTTP."""
    status = 200
    if isinstance(error, BodyTooLarge):
        error, status = PlaneError(error.message, reason="INVALID_REQUEST", metadata=error.metadata), 413
    elif isinstance(error, NotFound) and error.reason == "AGENT_NOT_FOUND":
        error, status = Unimplemented(error.message, reason="METHOD_NOT_FOUND", suggestion=error.suggestion), 404
    elif isinstance(error, PermissionDenied):
        status = 403
    elif isinstance(error, BodyEncoded):
        status = 415
    elif isinstance(error, BodyTooSlow):
        status = 408
    answered(name if name in METHODS else "unknown", error.reason)
    tracing.describe({"error.type": error.reason})
    if not rpc_id:
        return empty_reply(204 if status == 200 else status)
    body = error_body(_dialect_of(name), error)
    return json_reply(status, {"jsonrpc": "2.0", "id": orjson.Fragment(rpc_id), "error": body}, remedies(error))


def _dialect_of(name: str) -> Dialect | None:
    if not name:
        return None
    return V0_3 if "/" in name else V1_0


def _parse(body: bytes) -> tuple[dict[str, Any], Invalid | None]:
    """Return the envelope, and the error for a value that is nested too deeply in it."""
    try:
        envelope, too_deep = parse_any_depth(body)
    except ValueError:
        raise Invalid("the request is not JSON", reason="PARSE_ERROR") from None
    if not isinstance(envelope, dict):
        raise too_deep or _bad_envelope("the request must be one JSON object; batches are not supported")
    return envelope, too_deep  # pyright: ignore[reportUnknownVariableType]


def _id_of(envelope: dict[str, Any]) -> bytes:
    rpc_id = envelope.get("id")
    if rpc_id is not None and (not isinstance(rpc_id, (str, int, float)) or isinstance(rpc_id, bool)):
        raise _bad_envelope("id must be a string or a number")
    # A number beyond those of Python comes back as it was written.
    return rpc_id.encode() if isinstance(rpc_id, Digits) else json_lines.encode(rpc_id)


def _method_of(envelope: dict[str, Any]) -> str:
    if envelope.get("jsonrpc") != "2.0":
        raise _bad_envelope('jsonrpc must be "2.0"')
    name = envelope.get("method")
    if not isinstance(name, str) or not name:
        raise _bad_envelope("method must be a string")
    return name


def _bad_envelope(what: str) -> Invalid:
    return Invalid(f"invalid request: {what}", reason="INVALID_REQUEST")


def _check_version(request: Request, dialect: Dialect) -> None:
    """Refuse a version other than the method's. The header wins over the query (A2A 1.0 section 3.6); without either
    the method name decides."""
    asked = request.header(b"a2a-version")
    if not asked and request.scope["query_string"]:
        asked = request.query.get("A2A-Version", "")
    if not asked or asked == dialect.version:
        return
    version = version_of(asked)
    if version == dialect.version:
        return
    if version == "1.0":
        raise Unimplemented("this method does not exist in A2A 1.0", reason="METHOD_NOT_FOUND")
    raise Refused(
        f"A2A version {asked[:20]} is not supported",
        reason="VERSION_NOT_SUPPORTED",
        suggestion="use A2A-Version 1.0 or 0.3; each has its own method names",
    )


async def _agent_of(plane: Plane, name: str, method: Method) -> tuple[Agent | None, NotFound | None]:
    """Return the agent with the name in the path, for which the executor has to be called, or that there is none.

    Operations on tasks need no agent, be it gone or renamed: for them no executor is called. The default agent may be
    unknown while the executor has never been reached.
    """
    if not method.sends:
        return known(plane, name), None
    try:
        return await find(plane, name), None
    except NotFound as missing:
        if not name:
            raise
        return None, missing
    except Unavailable:
        if name:
            raise
        return plane.agents.peek(""), None


def _check_extensions(asked: Collection[str], agent: Agent | None, dialect: Dialect) -> Headers:
    """Return the header that echoes the extensions in use (A2A 1.0 section 3.2.6)."""
    if agent is None:
        return []
    if not (asked or agent.required_extensions):
        return []
    missing = agent.required_extensions.difference(asked)
    if missing:
        raise Refused(
            f"this agent requires the extension {min(missing)}",
            reason="EXTENSION_SUPPORT_REQUIRED",
            suggestion="name it in A2A-Extensions",
        )
    used = ", ".join(uri for uri in asked if uri in agent.extensions or uri == growing_text.EXTENSION)
    name = b"a2a-extensions" if dialect is V1_0 else b"x-a2a-extensions"
    return [(name, used.encode())] if used else []
