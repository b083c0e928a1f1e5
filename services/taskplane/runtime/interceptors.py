"""Common handling of every gRPC call: unary or streaming, by socket or in process.

The handler of a method is wrapped once, when its service is registered. The wrapper sets the request id, opens the
span, checks principal and policy, calls the handler, converts its error, and writes log and metrics. A stream is given
to gRPC as a coroutine that writes, not as a generator: gRPC never closes a generator after its client has disconnected.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, NoReturn

import grpc
from google.protobuf.message import DecodeError
from google.rpc import status_pb2  # type: ignore[import-untyped]
from opentelemetry.trace import Span

from taskplane.runtime import logs, principal, status, tracing
from taskplane.runtime.errors import Conflict, Internal, Invalid, PermissionDenied, PlaneError, Unauthenticated
from taskplane.runtime.identity import PRINCIPAL_KEY, PrincipalSigner
from taskplane.runtime.metrics import CALLS, OPEN_STREAMS, SECONDS
from taskplane.runtime.pacing import Pacer
from taskplane.runtime.plain_metrics import Number
from taskplane.runtime.policy import Access
from taskplane.runtime.principal import Principal
from taskplane.runtime.validation import REQUEST_ID

REQUEST_ID_KEY: Final = "x-request-id"
SLOW: Final = 1.0
"""Seconds after which a successful unary call is logged at INFO."""
_FAULTS: Final = frozenset({"INTERNAL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "DATA_LOSS", "UNKNOWN", "UNIMPLEMENTED"})

_LEVELS: Final = {"INTERNAL": logging.ERROR, "CANCELLED": logging.DEBUG, "NOT_FOUND": logging.DEBUG}

_log = logging.getLogger(__name__)
_clock: Final = time.perf_counter
_enter_request: Final = logs.request_id.set
_enter_principal: Final = principal.enter


Context = grpc.aio.ServicerContext[Any, Any]
Handler = Callable[[Any, Context], Awaitable[Any]]


class Malformed:
    """A request whose bytes are not a message of its type."""


def _parse_or_malformed(parse: Callable[[bytes], Any] | None) -> Callable[[bytes], Any] | None:
    """Wrap `parse`, if given, so that it returns Malformed instead of raising DecodeError: gRPC reports that as
    UNKNOWN."""
    if parse is None:
        return None

    @wraps(parse)
    def read(data: bytes) -> Any:
        try:
            return parse(data)
        except DecodeError:
            return Malformed()

    return read


class ClientGone(asyncio.CancelledError):
    """The client disconnected before a write to its stream. Treated as a cancellation."""


@dataclass(frozen=True, slots=True)
class Method:
    """A registered method.

    `access`: the allowed callers. None: no caller is allowed, since the policy does not mention the method. `signer`
    reads the principal of a call; None: the handler itself finds out who calls, and whatever claims to be a principal
    is ignored. `default`: the principal of calls that bring none. `pacer` counts the running unary calls. `to_status`
    returns the status of an error.
    """

    path: str
    streaming: bool
    access: Access | None
    signer: PrincipalSigner | None
    default: Principal | None
    pacer: Pacer
    to_status: Callable[[PlaneError], status_pb2.Status] = status.to_status


class _Observer:
    """Writes one line in the log and counts each call.

    Levels: ERROR for INTERNAL; DEBUG for NOT_FOUND, CANCELLED and all successes but slow unary calls; INFO for
    everything else.
    """

    def __init__(self, method: Method) -> None:
        self._path = method.path
        self._slow = float("inf") if method.streaming else SLOW
        self._answered = CALLS.labels(method.path, "OK")
        self._seconds = None if method.streaming else SECONDS.labels(method.path)

    def answered(self, seconds: float, caller: Principal | None) -> None:
        """Count a call that took `seconds` and succeeded."""
        self._answered.value += 1
        if self._seconds is not None:
            self._seconds.observe(seconds)
        if seconds >= self._slow:
            self._line(logging.INFO, "OK", seconds, None, caller)
        elif _log.isEnabledFor(logging.DEBUG):
            self._line(logging.DEBUG, "OK", seconds, None, caller)

    def failed(self, seconds: float, error: BaseException, context: Context, caller: Principal | None) -> None:
        """Count a call that took `seconds` and failed with `error`."""
        if self._seconds is not None:
            self._seconds.observe(seconds)
        code = "CANCELLED"
        if isinstance(error, PlaneError):
            code = error.code
        elif isinstance(error, grpc.aio.AbortError):
            code = context.code().name
        CALLS.labels(self._path, code).inc()
        level = _LEVELS.get(code, logging.INFO)
        self._line(level, code, seconds, error, caller)

    def _line(
        self, level: int, code: str, seconds: float, error: BaseException | None, caller: Principal | None
    ) -> None:
        cause = error.__cause__ if code == "INTERNAL" and error is not None else None
        _log.log(
            level,
            "rpc",
            extra={
                "method": self._path,
                "code": code,
                "reason": error.reason if isinstance(error, PlaneError) else None,
                "ms": round(seconds * 1000, 2),
                "actor": caller.actor if caller else None,
            },
            exc_info=cause,
        )


def _admit(access: Access | None, caller: Principal | None) -> None:
    """Raise Unauthenticated or PermissionDenied unless the policy allows the caller. The stores check owner and
    tenant."""
    if access is Access.PUBLIC:
        return
    if access is None:
        raise PermissionDenied("this operation is not available to any caller", reason="NO_POLICY")
    if caller is None:
        raise Unauthenticated("this call has no principal", reason="NO_PRINCIPAL")
    if access is Access.SERVICE and not caller.service:
        raise PermissionDenied("only services may call this operation", reason="SERVICE_ONLY")
    if access is Access.OPERATOR:
        principal.check_operator(caller)


def at_end(context: Context, then: Callable[[], object]) -> None:
    """Call `then` when a call has ended: not before its client has taken the reply."""

    def ended(_context: Context) -> None:
        then()

    callback: Any = ended
    context.add_done_callback(callback)


def malformed() -> Invalid:
    """Return the error of a request that cannot be parsed."""
    return Invalid("the request is not a message of the type of this method", reason="MALFORMED_REQUEST")


def _answer(error: BaseException, request_id: str) -> BaseException:
    """Return the error to raise for `error`: a PlaneError, except that a cancellation by the client and a status that
    the handler sent stay as they are.

    An unexpected error becomes INTERNAL: its text goes to the log, the client gets the request id. A CancelledError
    that nobody requested becomes ABORTED, since gRPC clients would wait until their deadline (grpc/grpc#29248).
    """
    if isinstance(error, (ClientGone, grpc.aio.AbortError)):
        return error
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            return error
        aborted = Conflict("the service abandoned the operation", reason="ABANDONED")
        aborted.__cause__ = error
        return aborted
    if isinstance(error, PlaneError) and not isinstance(error, Internal):
        return error
    if isinstance(error, Exception):
        internal = Internal(f"internal error, request id {request_id}")
        internal.__cause__ = error
        return internal
    return error


def wrap(handler: "grpc.RpcMethodHandler[Any, Any]", method: Method) -> "grpc.RpcMethodHandler[Any, Any]":
    """Return the wrapped handler. TypeError: a method that is not public streams requests, which is not supported.

    A public method may take its one request as a stream: it then finds out who calls before it reads the request.
    """
    tracing.look_for_sdk()
    reads = handler.request_streaming
    if reads and method.access is not Access.PUBLIC:
        raise TypeError(f"{method.path}: methods with request streams are not supported")
    behaviour: Any
    make: Any
    if handler.response_streaming:
        streams: Any = handler.stream_stream if reads else handler.unary_stream
        behaviour = _write_stream(streams, OPEN_STREAMS.labels(method.path))
        make = grpc.stream_stream_rpc_method_handler if reads else grpc.unary_stream_rpc_method_handler
    else:
        behaviour = handler.stream_unary if reads else handler.unary_unary
        make = grpc.stream_unary_rpc_method_handler if reads else grpc.unary_unary_rpc_method_handler
    wrapped: grpc.RpcMethodHandler[Any, Any] = make(
        _wrap_handler(behaviour, method),
        _parse_or_malformed(handler.request_deserializer),
        handler.response_serializer,
    )
    return wrapped


def _wrap_handler(behaviour: Handler, method: Method) -> Handler:
    observer = _Observer(method)
    answered = observer.answered
    access = method.access
    pacer = method.pacer
    # The pacer must not count calls that may be open for days: streams, and sends of clients, which wait for an agent.
    counted = 0 if method.streaming or access is Access.PUBLIC else 1
    any_caller = access is Access.USER
    read_principal = method.signer.cached_read if method.signer is not None else None
    to_status = method.to_status
    name = method.path.removeprefix("/")
    attributes = {"rpc.system.name": "grpc", "rpc.method": name}

    async def serve(request: Any, context: Context) -> Any:
        started = _clock()
        given: Any = None
        signed: Any = None
        traced: dict[str, str] = {}
        for key, value in context.invocation_metadata() or ():
            if key == PRINCIPAL_KEY:
                signed = value
            elif key == REQUEST_ID_KEY:
                given = value
            elif key in tracing.HEADERS and isinstance(value, str):
                traced[key] = value
        request_id = given if isinstance(given, str) and REQUEST_ID.fullmatch(given) else logs.new_request_id()
        _enter_request(request_id)
        span = tracing.serve(name, traced, attributes) if traced or tracing.LIVE.on else None
        caller: Principal | None = None
        try:
            caller = method.default if signed is None or read_principal is None else read_principal(signed)
            _enter_principal(caller)
            if caller is None or not any_caller:
                _admit(access, caller)
            if type(request) is Malformed:
                raise malformed()
            pacer.calls += counted
            try:
                reply = await behaviour(request, context)
            finally:
                pacer.calls -= counted
        except BaseException as raised:  # noqa: BLE001 - answered below
            error = _answer(raised, request_id)
        else:
            answered(_clock() - started, caller or principal.current())
            if span is not None:
                span.end()
            return reply
        observer.failed(_clock() - started, error, context, caller or principal.current())
        if span is not None:
            _end(span, error)
        try:
            await refuse(context, error, to_status)
        finally:
            del error  # the exception refers to this frame by its traceback: a reference cycle

    return serve


def _end(span: Span, error: BaseException) -> None:
    """End the span of a failed call. Only a fault of the service counts as an error of the span."""
    code = error.code if isinstance(error, PlaneError) else "CANCELLED"
    span.set_attribute("rpc.response.status_code", code)
    if isinstance(error, PlaneError):
        if code in _FAULTS:
            tracing.failed(span, error.reason)
        else:
            span.set_attribute("error.type", error.reason)
    span.end()


async def refuse(
    context: Context, error: BaseException, to_status: Callable[[PlaneError], status_pb2.Status]
) -> NoReturn:
    """End a call with the status of a PlaneError; any other error is raised. ClientGone: the client has gone before."""
    if not isinstance(error, PlaneError):
        try:
            raise error
        finally:
            del error  # the exception refers to this frame by its traceback: a reference cycle
    whole = to_status(error)
    try:
        await context.abort(status.code_of(whole), whole.message, trailing_metadata=status.trailers(whole))
    except grpc.aio.InternalError as gone:  # a client that has gone before its status
        raise ClientGone from gone


def _write_stream(behaviour: Callable[[Any, Context], AsyncIterator[Any]], open_streams: Number) -> Handler:
    async def write_all(request: Any, context: Context) -> None:
        replies = behaviour(request, context)
        with open_streams.during():
            try:
                async for reply in replies:
                    try:
                        await context.write(reply)
                    except grpc.aio.InternalError as error:  # a write after the client has gone
                        raise ClientGone from error
            except BaseException:
                aclose = getattr(replies, "aclose", None)
                if aclose is not None:
                    await aclose()
                raise

    return write_all
