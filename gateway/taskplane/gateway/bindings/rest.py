"""The REST binding. Input: path, query and body. Output: JSON and errors in the form of a version. The paths here are
those of A2A 1.0 (section 11), with errors as in AIP-193.

Checks are made in the order of the JSON-RPC binding. A value in the path replaces the same value in the body. A tenant
is also read from the query, whatever the method.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from starlette.responses import Response

from taskplane.gateway.a2a.admission import admit, check_version
from taskplane.gateway.a2a.operations import OPERATIONS, Operation, Stream
from taskplane.gateway.a2a.streams import PayloadStream, begin, take_slot
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.bindings.http_calls import asked_version, call_of, echo
from taskplane.gateway.bindings.params import read, tenant_of
from taskplane.gateway.bindings.sent_events import SentEvents
from taskplane.gateway.errors import error_rest, rest_status, without_agent
from taskplane.gateway.event_streams import event_stream
from taskplane.gateway.json_body import parse_json
from taskplane.gateway.metrics import SECONDS, answered
from taskplane.gateway.plane import Plane
from taskplane.gateway.settings import ERROR_MAPS, ErrorMap
from taskplane.gateway.translate.fields import is_object
from taskplane.gateway.translate.v1_0 import V1_0, Dialect
from taskplane.gateway.web import sse
from taskplane.gateway.web.disconnect import ToldAtEnd
from taskplane.gateway.web.http import JSON, ClientGone, Headers, Reply, Request, bytes_reply, remedies
from taskplane.gateway.web.translation_thread import TranslationThread
from taskplane.runtime import json_lines, logs, tracing
from taskplane.runtime.errors import Internal, Invalid, PlaneError

_log = logging.getLogger(__name__)
_A2A_JSON: Final = b"application/a2a+json"
_FLAGS: Final = ("includeArtifacts", "include_artifacts")
_VALUES: Final = {"true": True, "false": False}
_NUMBER: Final = re.compile("[0-9]{1,9}")
_QUALITY: Final = re.compile(rb"[01](?:\.[0-9]{0,3})?")


@dataclass(frozen=True, slots=True)
class Form:
    """The form of one version over REST: its JSON, the statuses and bodies of its errors, the type of a response.

    `versions` are those that a client may name.
    """

    dialect: Dialect
    versions: Sequence[str]
    status: Callable[[PlaneError], tuple[int, str]]
    error: Callable[[PlaneError, str], dict[str, Any]]
    media_type: Callable[[Request], bytes]

    def failure(self, request: Request, error: PlaneError, headers: Headers | None = None) -> Response:
        """Return the response to a request that failed, with further headers."""
        status, _ = self.status(error)
        body = self.error(error, logs.request_id.get())
        return self.content(request, status, body, [*(headers or ()), *remedies(error, status)])

    def content(self, request: Request, status: int, value: Any, headers: Headers) -> Response:
        """Return a response with a JSON value."""
        return bytes_reply(status, json_lines.encode(value), self.media_type(request), headers)

    def events(self, worker: TranslationThread, flow: PayloadStream) -> SentEvents:
        """Return the elements of a stream as server-sent events. An error is the last event."""
        return SentEvents(worker, flow, self.dialect.event, self._error_event)

    def _error_event(self, error: PlaneError) -> bytes:
        """Return an error as a stream event. Official clients ignore the content of an error event without the name
        "error"."""
        return sse.event(json_lines.encode(self.error(error, logs.request_id.get())), name="error")


@dataclass(frozen=True, slots=True)
class Rest:
    """The handler of one path. `forms`: the form of its version, by the setting `error_map`. `ids`: pairs of a request
    field and the path parameter with its value; that of the tenant is `tenant` everywhere."""

    forms: Mapping[ErrorMap, Form]
    operation: Operation
    ids: tuple[tuple[str, str], ...] = ()

    async def __call__(self, plane: Plane, request: Request, caller: Caller) -> Reply:
        """Answer one request to the agent in the path."""
        name, form = self.operation.name, self.forms[plane.settings.error_map]
        try:
            tracing.describe({"rpc.method": name}, name=name)
            with ToldAtEnd():
                reply = await self._answer(plane, request, caller, form)
            answered(name)
        except PlaneError as error:
            reply = _failed(form, request, name, error)
        except ClientGone:
            raise
        except Exception:  # noqa: BLE001 - the client gets a response; the log gets the details
            _log.exception("a REST request failed")
            reply = _failed(form, request, name, Internal("internal error"))
        SECONDS.labels(name).observe(asyncio.get_running_loop().time() - request.accepted)
        return reply

    async def _answer(self, plane: Plane, request: Request, caller: Caller, form: Form) -> Reply:
        operation = self.operation
        params = await _params(plane, request)
        arguments = request.arguments
        params |= {name: arguments[part] for name, part in self.ids}
        tenant = arguments.get("tenant", "")
        if not tenant and params.get("tenant") in (None, ""):
            tenant = request.query.get("tenant", "")
        if tenant:
            params["tenant"] = tenant
        call = call_of(plane, request, caller, form.dialect.version)
        version = form.dialect.version
        check_version(plane, version, asked_version(request), accepted=form.versions, offered=version)
        await admit(call, operation, tenant_of(form.dialect, params))
        exact = plane.settings.large_integers == "refuse"
        found = await plane.worker.run(request.size, read, operation, form.dialect, params, exact=exact)
        call.wait = found.wait
        if isinstance(operation, Stream):
            slot = take_slot(call)
            flow = await begin(operation.serve(call, found.request), slot)
            return event_stream(plane, caller, form.events(plane.worker, flow), slot=slot, headers=echo(call))
        answer = await operation.serve(call, found.request)

        def written() -> Response:
            return form.content(request, 200, form.dialect.result(answer), echo(call))

        return await plane.worker.run(answer.total_bytes(), written)


def _failed(form: Form, request: Request, name: str, error: PlaneError) -> Response:
    error = without_agent(error)
    answered(name, error.reason)
    tracing.describe({"error.type": error.reason})
    return form.failure(request, error)


async def _params(plane: Plane, request: Request) -> dict[str, Any]:
    """Return the request fields from the query (GET, HEAD, DELETE) or from the body. A missing body has no fields."""
    if request.method in ("GET", "HEAD", "DELETE"):
        return {name: _value(name, value) for name, value in request.query.items() if value}
    request.check_json()
    body = await plane.uploads.whole(request)
    if not body:
        return {}
    try:
        value = await plane.worker.run(request.size, parse_json, body)
    except ValueError:
        raise Invalid("the request is not JSON", reason="PARSE_ERROR") from None
    if not is_object(value):
        raise Invalid("the body must be a JSON object", reason="INVALID_REQUEST")
    return value


def _value(name: str, text: str) -> Any:
    """Convert the text of a query parameter to the JSON value of its field. Only booleans and `status` need this: other
    numeric fields accept texts."""
    if name in _FLAGS:
        return _VALUES.get(text, text)
    return int(text) if name == "status" and _NUMBER.fullmatch(text) else text


def _media_type(request: Request) -> bytes:
    """Return the media type of a response: that which `Accept` names or prefers of both, else that of `Content-Type`,
    else application/a2a+json (A2A 1.0 section 11.1, a2a H8)."""
    for header in (b"accept", b"content-type"):
        preferred = _preferences(request.headers(header))
        if preferred:
            return JSON if preferred.get(JSON, 0.0) >= preferred.get(_A2A_JSON, 0.0) else _A2A_JSON
    return _A2A_JSON


def _preferences(elements: Sequence[str]) -> Mapping[bytes, float]:
    """Return the quality of both JSON types, of those that are named and wanted (RFC 9110 section 12.4.2)."""
    found: dict[bytes, float] = {}
    for element in elements:
        media_type, *parameters = (part.strip().lower().encode() for part in element.split(";"))
        if media_type in (JSON, _A2A_JSON):
            quality = next((part[2:] for part in parameters if part.startswith(b"q=")), b"1")
            found[media_type] = float(quality) if _QUALITY.fullmatch(quality) else 1.0
    return {media_type: quality for media_type, quality in found.items() if quality}


def _form(error_map: ErrorMap) -> Form:
    status, error = partial(rest_status, error_map=error_map), partial(error_rest, error_map=error_map)
    return Form(V1_0, ("1.0",), status, error, _media_type)


FORMS: Final[Mapping[ErrorMap, Form]] = {error_map: _form(error_map) for error_map in ERROR_MAPS}


def _paths() -> tuple[tuple[str, str, Rest], ...]:
    task, config = (("id", "task"),), (("taskId", "task"), ("id", "config"))
    configs = "/tasks/{task}/pushNotificationConfigs"
    found = (
        ("POST", "/message:send", "SendMessage", ()),
        ("POST", "/message:stream", "SendStreamingMessage", ()),
        ("GET", "/tasks", "ListTasks", ()),
        # Paths with ":cancel" or ":subscribe" come before /tasks/{task}: that path would match them, too.
        ("POST", "/tasks/{task}:cancel", "CancelTask", task),
        ("GET", "/tasks/{task}:subscribe", "SubscribeToTask", task),
        ("POST", "/tasks/{task}:subscribe", "SubscribeToTask", task),
        ("GET", "/tasks/{task}", "GetTask", task),
        ("POST", configs, "CreateTaskPushNotificationConfig", config[:1]),
        ("GET", configs, "ListTaskPushNotificationConfigs", config[:1]),
        ("GET", f"{configs}/{{config}}", "GetTaskPushNotificationConfig", config),
        ("DELETE", f"{configs}/{{config}}", "DeleteTaskPushNotificationConfig", config),
        ("GET", "/extendedAgentCard", "GetExtendedAgentCard", ()),
    )
    return tuple((method, path, Rest(FORMS, OPERATIONS[name], ids)) for method, path, name, ids in found)


PATHS: Final = _paths()
"""The paths below the base of an agent, with their methods and handlers."""
