"""The JSON-RPC binding of A2A 1.0 (section 9) and 0.3 (section 3.2.1): envelope, results, events and errors.

Checks are made in this order: content type, JSON, envelope, method, then those of `a2a.admission`, params, the agent's
capabilities, then the operation itself.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import orjson
from starlette.responses import Response

from taskplane.gateway.a2a.admission import admit, check_version
from taskplane.gateway.a2a.call import Call
from taskplane.gateway.a2a.operations import OPERATIONS, Operation, Stream
from taskplane.gateway.a2a.streams import PayloadStream, begin, take_slot
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.bindings.http_calls import asked_version, call_of, echo
from taskplane.gateway.bindings.params import read, tenant_of
from taskplane.gateway.bindings.sent_events import SentEvents
from taskplane.gateway.errors import error_0_3, error_1_0, without_agent
from taskplane.gateway.event_streams import event_stream
from taskplane.gateway.json_body import parse_any_depth
from taskplane.gateway.metrics import SECONDS, answered
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.dialect import Result, Wait
from taskplane.gateway.translate.v0_3 import V0_3
from taskplane.gateway.translate.v1_0 import V1_0, Dialect
from taskplane.gateway.translate.versions import version_of
from taskplane.gateway.web import sse
from taskplane.gateway.web.disconnect import ToldAtEnd
from taskplane.gateway.web.http import (
    BodyEncoded,
    BodyTooLarge,
    BodyTooSlow,
    ClientGone,
    Headers,
    Reply,
    Request,
    bytes_reply,
    empty_reply,
    json_reply,
    remedies,
)
from taskplane.gateway.web.translation_thread import TranslationThread
from taskplane.runtime import json_lines, logs, tracing
from taskplane.runtime.errors import Internal, Invalid, PermissionDenied, PlaneError, Unimplemented
from taskplane.runtime.struct_values import Digits

METHODS: Final[Mapping[str, tuple[Operation, Dialect]]] = {
    **{name: (operation, V1_0) for name, operation in OPERATIONS.items()},
    "message/send": (OPERATIONS["SendMessage"], V0_3),
    "message/stream": (OPERATIONS["SendStreamingMessage"], V0_3),
    "tasks/get": (OPERATIONS["GetTask"], V0_3),
    "tasks/cancel": (OPERATIONS["CancelTask"], V0_3),
    "tasks/resubscribe": (OPERATIONS["SubscribeToTask"], V0_3),
    "tasks/pushNotificationConfig/set": (OPERATIONS["CreateTaskPushNotificationConfig"], V0_3),
    "tasks/pushNotificationConfig/get": (OPERATIONS["GetTaskPushNotificationConfig"], V0_3),
    "tasks/pushNotificationConfig/list": (OPERATIONS["ListTaskPushNotificationConfigs"], V0_3),
    "tasks/pushNotificationConfig/delete": (OPERATIONS["DeleteTaskPushNotificationConfig"], V0_3),
    "agent/getAuthenticatedExtendedCard": (OPERATIONS["GetExtendedAgentCard"], V0_3),
}

_VERSIONS: Final = "1.0 or 0.3; each has its own method names"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Frame:
    """The frame of a response: the request's id as JSON, empty for a notification, the dialect, and headers."""

    id: bytes
    dialect: Dialect
    headers: Headers | None = None


async def serve(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Answer one JSON-RPC request to the agent in the path, in the A2A version that its method name belongs to.

    One without an id is a notification (JSON-RPC 2.0 section 4.1): it is carried out, and its answer has no body.
    """
    rpc_id, name = b"null", ""
    try:
        with ToldAtEnd():
            request.check_json()
            body = await plane.uploads.whole(request)
            envelope, too_deep = await plane.worker.run(request.size, _parse, body)
            rpc_id = _id_of(envelope)
            name = _method_of(envelope)
            if "id" not in envelope:
                rpc_id = b""
            if too_deep is not None:
                raise too_deep
            if (method := METHODS.get(name)) is None:
                raise _no_method(f"method {name[:100]} does not exist")
            operation, dialect = method
            tracing.describe({"rpc.system.name": "jsonrpc", "rpc.method": name}, name=name)
            reply = await _answer(plane, request, caller, operation, Frame(rpc_id, dialect), envelope.get("params"))
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


async def _answer(
    plane: Plane, request: Request, caller: Caller, operation: Operation, frame: Frame, params: Any
) -> Reply:
    dialect = frame.dialect
    asked = asked_version(request)
    if asked and dialect is V0_3 and version_of(asked) == "1.0":
        raise _no_method("this method does not exist in A2A 1.0")
    call = call_of(plane, request, caller, dialect.version)
    check_version(plane, dialect.version, asked, accepted=(dialect.version,), offered=_VERSIONS)
    await admit(call, operation, tenant_of(dialect, params))
    frame.headers = echo(call)
    exact = plane.settings.large_integers == "refuse"
    found = await plane.worker.run(request.size, read, operation, dialect, params, exact=exact)
    # Nobody reads the answer to a notification.
    call.wait = found.wait if frame.id else Wait.EXISTS
    if isinstance(operation, Stream):
        return await _stream(call, operation, found.request, frame)
    answer = await operation.serve(call, found.request)
    return await plane.worker.run(answer.total_bytes(), _result, answer, frame)


def _result(answer: Result, frame: Frame) -> Response:
    result = json_lines.encode(frame.dialect.result(answer))
    return bytes_reply(200, b'{"jsonrpc":"2.0","id":' + frame.id + b',"result":' + result + b"}", headers=frame.headers)


async def _stream(call: Call, operation: Stream, request: Any, frame: Frame) -> Reply:
    """Return the stream of an operation. Errors before its first event are an ordinary response, except in 0.3, where
    the official client reads nothing but event streams (a2a C16, C23); an agent that is missing is one in both."""
    try:
        slot = take_slot(call)
        with ToldAtEnd():
            flow = await begin(operation.serve(call, request), slot)
    except PlaneError as error:
        if frame.dialect is V1_0 or error.reason == "AGENT_NOT_FOUND" or not frame.id:
            raise
        headers = [*sse.UNCACHED, *remedies(error, 200)]
        return bytes_reply(200, _error_event(frame, error), sse.CONTENT_TYPE, headers)
    if not frame.id:
        await flow.aclose()
        slot.release()
        return empty_reply(204)
    return event_stream(
        call.plane, call.caller, events(call.plane.worker, flow, frame), slot=slot, headers=frame.headers
    )


def events(worker: TranslationThread, flow: PayloadStream, frame: Frame) -> SentEvents:
    """Return the elements of a stream as server-sent events. An error is the last event."""
    head = b'{"jsonrpc":"2.0","id":' + frame.id + b',"result":'
    return SentEvents(worker, flow, frame.dialect.event, partial(_error_event, frame), head=head, tail=b"}")


def _error_event(frame: Frame, error: PlaneError) -> bytes:
    """Return an error as a stream event. It has no `event:` line, since official clients lose the code with one."""
    body = {"jsonrpc": "2.0", "id": orjson.Fragment(frame.id), "error": _error(frame.dialect, error)}
    return sse.event(json_lines.encode(body))


def _error(dialect: Dialect | None, error: PlaneError) -> dict[str, Any]:
    """Return the `error` member of a response; in the form of 1.0 if the version is not known."""
    return (error_0_3 if dialect is V0_3 else error_1_0)(error, logs.request_id.get())


def _no_method(what: str) -> Unimplemented:
    return Unimplemented(what, reason="METHOD_NOT_FOUND")


def _failed(name: str, rpc_id: bytes, error: PlaneError) -> Reply:
    """Return the error response: HTTP 200 for JSON-RPC errors, a status of its own for errors of HTTP."""
    status = 200
    if isinstance(error, BodyTooLarge):
        error, status = PlaneError(error.message, reason="INVALID_REQUEST", metadata=error.metadata), 413
    elif error.reason == "AGENT_NOT_FOUND":
        error, status = without_agent(error), 404
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
    body = _error(_dialect_of(name), error)
    return json_reply(status, {"jsonrpc": "2.0", "id": orjson.Fragment(rpc_id), "error": body}, remedies(error, status))


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
