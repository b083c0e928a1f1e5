"""The ASGI application: routing, authentication and error responses of every request."""

import logging
from collections.abc import Awaitable, Mapping
from typing import Any, Final

from opentelemetry.trace import Span
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.bindings import rest, rest_v0_3
from taskplane.gateway.errors import MethodNotAllowed, NoSuchRoute, error_api, http_status
from taskplane.gateway.metrics import answered
from taskplane.gateway.plane import Plane
from taskplane.gateway.routes import PublicRoute, Route, RouteTable
from taskplane.gateway.web.disconnect import ToldAtEnd
from taskplane.gateway.web.http import ClientGone, Headers, Reply, Request, json_reply, remedies
from taskplane.runtime import logs, tracing
from taskplane.runtime.errors import Internal, PlaneError
from taskplane.runtime.principal import Principal, check_operator, enter
from taskplane.runtime.validation import is_request_id

_log = logging.getLogger(__name__)
# Headers that pages of other, allowed origins may send.
_CORS_HEADERS: Final = (
    "Authorization",
    "Content-Type",
    "Last-Event-ID",
    "Idempotency-Key",
    "If-Match",
    "If-None-Match",
    "A2A-Version",
    "A2A-Extensions",
    "X-A2A-Extensions",
    "X-API-Key",
    "traceparent",
    "tracestate",
)
_FORMS: Final = {"1.0": rest.FORMS, "0.3": rest_v0_3.FORMS}

# The principal of public routes, which read nothing that has an owner.
ANONYMOUS: Final = Principal("", "", "anonymous")


class App:
    """The application for one plane. It never redirects, and never lets an exception reach the server."""

    def __init__(self, plane: Plane) -> None:
        tracing.look_for_sdk()
        self._plane = plane
        self._table = RouteTable()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        if scope["type"] != "http":
            raise TypeError(f"the gateway serves http, not {scope['type']}")
        request = Request(scope, receive)
        shown = request.header(b"x-request-id")
        logs.request_id.set(shown if is_request_id(shown) else logs.new_request_id())
        if (span := tracing.serve(scope["method"], _trace_of(request), {})) is None:
            await self._serve(scope, receive, send, request)
            return
        try:
            await self._serve(scope, receive, _observed(send, span), request)
        finally:
            span.end()

    async def _serve(self, scope: Scope, receive: Receive, send: Send, request: Request) -> None:
        version = ""
        try:
            route, request.arguments = self._table.find(scope["method"], scope["raw_path"].decode("latin-1"))
            if isinstance(route, PublicRoute):
                answering, principal = route.handler(self._plane, request), ANONYMOUS
            else:
                version = route.rest
                caller = self._caller(route, request)
                answering, principal = route.handler(self._plane, request, caller), caller.principal
        except PlaneError as error:
            version = error.rest if isinstance(error, MethodNotAllowed | NoSuchRoute) else version
            await _failure(error, request, self._form(version))(scope, receive, send)
            return
        # The server runs each request in a context of its own.
        enter(principal)
        operation = f"{route.method} {route.path}"
        tracing.describe({"http.request.method": route.method, "http.route": route.path}, name=operation)
        reply = await self._answer(operation, answering)
        if reply is not None:
            await reply(scope, receive, send)

    def _form(self, version: str) -> rest.Form | None:
        """Return the form of a version of the REST binding; None without a version."""
        return _FORMS[version][self._plane.settings.error_map] if version else None

    def _caller(self, route: Route, request: Request) -> Caller:
        caller = self._plane.authenticator.authenticate(request)
        if route.operates:
            check_operator(caller.principal)
        else:
            caller.check_read()
        if route.writes:
            caller.check_write()
        return caller

    async def _answer(self, operation: str, answering: Awaitable[Reply]) -> Reply | None:
        """Return the response, also for a failure; None if the client has gone."""
        error: PlaneError
        try:
            with ToldAtEnd():
                reply = await answering
        except ClientGone:
            return None
        except PlaneError as failure:
            error = failure
        except Exception:  # noqa: BLE001 - the client gets a response and the log the details
            _log.exception("%s failed", operation)
            error = Internal("internal error")
        else:
            answered(operation)
            return reply
        answered(operation, error.reason)
        tracing.describe({"error.type": error.reason})
        return _failure(error)


def application(plane: Plane) -> ASGIApp:
    """Return the application, with CORS (WHATWG Fetch, section 3.3) if other origins are allowed."""
    app: Any = App(plane)
    if not plane.settings.cors_origins:
        return app  # type: ignore[no-any-return]
    return CORSMiddleware(
        app,
        allow_origins=plane.settings.cors_origins,
        allow_methods=("GET", "POST", "PUT", "PATCH", "DELETE"),
        allow_headers=_CORS_HEADERS,
        expose_headers=("ETag",),
    )


def _trace_of(request: Request) -> Mapping[str, str]:
    """Return the trace context that a caller sent (W3C Trace Context); empty if there is none."""
    if not (value := request.header(b"traceparent")):
        return {}
    return {tracing.TRACEPARENT: value, tracing.TRACESTATE: request.header(b"tracestate")}


def _observed(send: Send, span: Span) -> Send:
    """Return a `send` that notes the status of the response on a span."""

    async def observed(message: Message) -> None:
        if message["type"] == "http.response.start":
            status: int = message["status"]
            span.set_attribute("http.response.status_code", status)
            if status >= 500:
                tracing.failed(span, str(status))
        await send(message)

    return observed


def _failure(error: PlaneError, request: Request | None = None, form: rest.Form | None = None) -> Response:
    """Return the response of an error: in a form of the REST binding for a request of this binding, else in that of
    /api."""
    status = http_status(error)
    headers: Headers = []
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="taskplane"'))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", error.allowed.encode()))
    if request is not None and form is not None:
        return form.failure(request, error, headers)
    return json_reply(status, error_api(error, logs.request_id.get()), headers + remedies(error, status))
