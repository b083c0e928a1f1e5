"""What happens around every call, whatever its shape and whichever channel it came through.

A method's handler is wrapped once, when its service is registered. Around it stand the concerns of `CONCERNS`,
outermost first: the request id, log and metrics, principal and policy, errors. A concern has `enter` and `leave` and
does not know whether the call is unary or a stream, socket or local, so none of the four can differ. A stream is
handed to gRPC as a coroutine that writes, not as a generator: gRPC never closes a generator whose client went away.
"""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, cast

import grpc
from google.protobuf.message import DecodeError

from taskplane.runtime import logs, principal, status
from taskplane.runtime.errors import Conflict, Internal, Invalid, PermissionDenied, PlaneError, Unauthenticated
from taskplane.runtime.identity import PRINCIPAL_KEY, Seal
from taskplane.runtime.metrics import CALLS, SECONDS, STREAMS
from taskplane.runtime.policy import Access
from taskplane.runtime.principal import Principal

REQUEST_ID_KEY: Final = "x-request-id"
SLOW: Final = 1.0
"""Seconds after which an answered unary call is worth a line in the log."""

_log = logging.getLogger(__name__)
_REQUEST_ID: Final = re.compile(r"[\w.:/+=-]{1,128}", re.ASCII)

Context = grpc.aio.ServicerContext[Any, Any]
Handler = Callable[[Any, Context], Awaitable[Any]]


class Malformed:
    """What stands for a request that is no message of its type."""


def tolerant(parse: Callable[[bytes], Any] | None) -> Callable[[bytes], Any] | None:
    """`parse`, if there is one, but Malformed instead of a DecodeError, which gRPC would answer with UNKNOWN."""

    if parse is None:
        return None

    def read(data: bytes) -> Any:
        try:
            return parse(data)
        except DecodeError:
            return Malformed()

    return read


class ClientGone(asyncio.CancelledError):
    """A stream was written to after its client had left: the same as a cancellation."""


@dataclass(frozen=True, slots=True)
class Method:
    """What is known of a method when it is registered. `access` None: it has no line in the policy."""

    path: str
    streaming: bool
    access: Access | None
    seal: Seal
    signed: bool
    default: Principal | None


class Call:
    """One call being served."""

    __slots__ = ("context", "metadata", "principal", "request_id", "started")

    def __init__(self, context: Context) -> None:
        self.context = context
        self.metadata: dict[str, Any] = dict(context.invocation_metadata() or ())
        self.request_id = ""
        self.principal: Principal | None = None
        self.started = time.perf_counter()


class Concern:
    """One thing that is done around every call of one method. What it does not define is not called."""

    def __init__(self, method: Method) -> None:
        """For the calls of `method`."""

    def enter(self, call: Call) -> None:
        """Before the handler; a PlaneError raised here is the answer."""

    def leave(self, call: Call, error: BaseException | None) -> BaseException | None:
        """After the handler, or after a refusal further in. Returns the error that goes on outwards. Never raises."""
        return error


class RequestId(Concern):
    """The id of the caller's request, or a new one, in every log line of the call."""

    def enter(self, call: Call) -> None:
        given = call.metadata.get(REQUEST_ID_KEY)
        if not isinstance(given, str) or not _REQUEST_ID.fullmatch(given):
            given = logs.new_request_id()
        call.request_id = given
        logs.request_id.set(given)


class Observe(Concern):
    """One line in the log and one count per call; failures and slow calls are seen at INFO, the rest at DEBUG."""

    def __init__(self, method: Method) -> None:
        self._path = method.path
        self._slow = float("inf") if method.streaming else SLOW
        self._ok = CALLS.labels(method.path, "OK")
        self._seconds = None if method.streaming else SECONDS.of(method.path)
        self._streams = STREAMS.labels(method.path) if method.streaming else None

    def enter(self, call: Call) -> None:
        if self._streams is not None:
            self._streams.inc()

    def leave(self, call: Call, error: BaseException | None) -> BaseException | None:
        seconds = time.perf_counter() - call.started
        if self._streams is not None:
            self._streams.dec()
        if self._seconds is not None:
            self._seconds.observe(seconds)
        if error is None:
            self._ok.inc()
            if seconds >= self._slow:
                self._line(logging.INFO, call, seconds, "OK", None)
            elif _log.isEnabledFor(logging.DEBUG):
                self._line(logging.DEBUG, call, seconds, "OK", None)
            return None
        code = "CANCELLED"
        if isinstance(error, PlaneError):
            code = error.code
        elif isinstance(error, grpc.aio.AbortError):
            code = call.context.code().name
        CALLS.labels(self._path, code).inc()
        level = {"INTERNAL": logging.ERROR, "CANCELLED": logging.DEBUG}.get(code, logging.INFO)
        self._line(level, call, seconds, code, error)
        return error

    def _line(self, level: int, call: Call, seconds: float, code: str, error: BaseException | None) -> None:
        cause = error.__cause__ if code == "INTERNAL" and error is not None else None
        _log.log(
            level,
            "rpc",
            extra={
                "method": self._path,
                "code": code,
                "reason": error.reason if isinstance(error, PlaneError) else None,
                "ms": round(seconds * 1000, 2),
                "actor": call.principal.actor if call.principal else None,
            },
            exc_info=cause,
        )


class Authorise(Concern):
    """Finds out who calls and whether the policy lets them. What they may see is decided by scope, in the stores."""

    def __init__(self, method: Method) -> None:
        self._access = method.access
        self._read = method.seal.read
        self._signed = method.signed
        self._default = method.default

    def enter(self, call: Call) -> None:
        value = call.metadata.get(PRINCIPAL_KEY)
        if value is not None:
            caller: Principal | None = self._read(value)
        else:
            caller = None if self._signed else self._default
        call.principal = caller
        principal.enter(caller)
        access = self._access
        if access is Access.PUBLIC:
            return
        if access is None:
            raise PermissionDenied("this operation is not open to anyone", reason="NO_POLICY")
        if caller is None:
            raise Unauthenticated("this call has no principal", reason="NO_PRINCIPAL")
        if access is Access.SERVICE and not caller.service:
            raise PermissionDenied("only a service may call this operation", reason="SERVICE_ONLY")


class Errors(Concern):
    """Whatever a handler raises becomes an error of ours, except its cancellation and a status it sent by itself.

    What nobody foresaw is INTERNAL: the text goes to the log, the caller gets the request id. A CancelledError that no
    one asked for would leave a gRPC client waiting until its deadline (grpc/grpc#29248), so it is ABORTED.
    """

    def leave(self, call: Call, error: BaseException | None) -> BaseException | None:
        if error is None or isinstance(error, (ClientGone, grpc.aio.AbortError)):
            return error
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                return error
            aborted = Conflict("the operation was abandoned by the service", reason="ABANDONED")
            aborted.__cause__ = error
            return aborted
        if isinstance(error, PlaneError) and not isinstance(error, Internal):
            return error
        if isinstance(error, Exception):
            internal = Internal(f"internal error, request id {call.request_id}")
            internal.__cause__ = error
            return internal
        return error


CONCERNS: Final[Sequence[Callable[[Method], Concern]]] = (RequestId, Observe, Authorise, Errors)
"""Outermost first."""


def wrap(handler: "grpc.RpcMethodHandler[Any, Any]", method: Method) -> "grpc.RpcMethodHandler[Any, Any]":
    """The same handler with every concern around it. TypeError: a shape that no service of ours has."""
    if handler.request_streaming:
        raise TypeError(f"{method.path}: methods that stream requests are not served here")
    if handler.response_streaming:
        return grpc.unary_stream_rpc_method_handler(
            cast("Any", _around(_written(cast("Any", handler.unary_stream)), method)),
            handler.request_deserializer,
            handler.response_serializer,
        )
    return grpc.unary_unary_rpc_method_handler(
        cast("Any", _around(cast("Any", handler.unary_unary), method)),
        handler.request_deserializer,
        handler.response_serializer,
    )


def _around(behaviour: Handler, method: Method) -> Handler:
    concerns = [make(method) for make in CONCERNS]
    placed = list(enumerate(concerns))
    enters = [(at, one.enter) for at, one in placed if type(one).enter is not Concern.enter]
    leaves = [(at, one.leave) for at, one in reversed(placed) if type(one).leave is not Concern.leave]
    all_the_way = len(concerns)

    async def serve(request: Any, context: Context) -> Any:
        call = Call(context)
        reply: Any = None
        error: BaseException | None = None
        # How far in the call has come: the number of concerns that it has passed.
        inside = 0
        try:
            for inside, enter in enters:  # noqa: B007 - read below
                enter(call)
            inside = all_the_way
            if type(request) is Malformed:
                raise Invalid("the request is not a message of this method's type", reason="MALFORMED_REQUEST")
            reply = await behaviour(request, context)
        except BaseException as raised:  # noqa: BLE001 - handed to the concerns, then raised or sent
            error = raised
        for at, leave in leaves:
            if at < inside:
                error = leave(call, error)
        if error is None:
            return reply
        try:
            await _refuse(context, error)
        finally:
            error = None  # a frame that holds its own exception is a cycle

    return serve


async def _refuse(context: Context, error: BaseException) -> NoReturn:
    if not isinstance(error, PlaneError):
        raise error
    whole = status.to_status(error)
    await context.abort(status.code_of(error), whole.message, trailing_metadata=status.trailers(whole))


def _written(behaviour: Callable[[Any, Context], AsyncIterator[Any]]) -> Handler:
    async def write_all(request: Any, context: Context) -> None:
        replies = behaviour(request, context)
        try:
            async for reply in replies:
                try:
                    await context.write(reply)
                except grpc.aio.InternalError as error:  # what a write raises after the client has gone
                    raise ClientGone from error
        finally:
            aclose = getattr(replies, "aclose", None)
            if aclose is not None:
                await aclose()

    return write_all
