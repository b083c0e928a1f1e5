"""The gRPC binding of A2A (1.0 section 10): services under their official names, which authenticate their callers.

A service is a table of methods and a codec. A call is refused before its request is read if its caller is not known or
has too many open calls; the further checks have the order of the JSON-RPC binding. A method reads and returns bytes, so
that large messages are parsed and written in the thread for large work.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError, Message

from taskplane.gateway import probes
from taskplane.gateway.a2a.admission import admit, check_version
from taskplane.gateway.a2a.call import Call
from taskplane.gateway.a2a.follow import Item, total_bytes
from taskplane.gateway.a2a.operations import OPERATIONS, Operation, Stream, Unary
from taskplane.gateway.a2a.streams import begin, take_slot
from taskplane.gateway.bindings.grpc_calls import Metadata, call_of, echo
from taskplane.gateway.bindings.grpc_open_calls import OpenCalls
from taskplane.gateway.bindings.grpc_service import A2AService, Method
from taskplane.gateway.bindings.grpc_streams import EndedStream
from taskplane.gateway.bindings.grpc_v0_3 import V0_3
from taskplane.gateway.errors import status_grpc, without_agent
from taskplane.gateway.plane import Plane
from taskplane.gateway.settings import ErrorMap
from taskplane.gateway.translate import received, wire_1_0
from taskplane.gateway.translate.dialect import Read
from taskplane.runtime import logs
from taskplane.runtime.errors import Invalid, PlaneError, Unavailable
from taskplane.runtime.interceptors import Context, at_end, malformed
from taskplane.runtime.principal import enter
from taskplane.runtime.services import Services
from taskplane.runtime.validation import WrongFields, invalid

V1: Final = A2AService(
    package="lf.a2a.v1",
    version="1.0",
    versions=("1.0",),
    methods={name: Method(OPERATIONS[name], *messages) for name, messages in wire_1_0.MESSAGES.items()},
    read=lambda _, request: Read(request),
    as_sent=lambda _, fields: fields,
    result=lambda _, answer: wire_1_0.result(answer),
    event=wire_1_0.event,
    status=status_grpc,
)
SERVICES: Final[Sequence[A2AService]] = (V1, V0_3)


class GrpcBinding:
    """The services of a process. They answer as unavailable while no gateway is open."""

    def __init__(self) -> None:
        self._calls: OpenCalls | None = None

    def register(self, services: Services) -> None:
        """Add the services to those of the process, before its server starts."""
        for service in SERVICES:
            handlers = {name: self._handler(service, method) for name, method in service.methods.items()}
            services.add_public(service.file, handlers, partial(self._status, service))

    @asynccontextmanager
    async def open(self, plane: Plane) -> AsyncGenerator[None]:
        """Serve the calls for a gateway while the body runs. At its end wait for those that are open, until
        `shutdown_timeout` seconds have passed since its streams were drained."""
        self._calls = calls = OpenCalls(plane)
        with plane.streams.running(calls):
            try:
                yield
            finally:
                self._calls = None
                await calls.end()

    async def ready(self) -> bool:
        """Return whether a gateway is open and ready."""
        return self._calls is not None and await probes.is_ready(self._calls.plane)

    def _handler(self, service: A2AService, method: Method) -> "grpc.RpcMethodHandler[Any, Any]":
        # The requests are streams to the server, which reads a message when it wants to; nothing differs for clients.
        if isinstance(method.operation, Stream):
            return grpc.stream_stream_rpc_method_handler(partial(self._stream, service, method, method.operation))
        return grpc.stream_unary_rpc_method_handler(partial(self._unary, service, method, method.operation))

    async def _unary(
        self, service: A2AService, method: Method, operation: Unary, _requests: object, context: Context
    ) -> bytes:
        calls = self._open_calls()
        with calls.running():
            call, request = await _admitted(calls, service, method, context)
            answer = await _with_task_errors(operation.serve(call, request))

            def written() -> bytes:
                return service.result(operation, answer).SerializeToString()

            if call.used:
                context.set_trailing_metadata(echo(call))
            return await call.plane.worker.run(answer.total_bytes(), written)

    async def _stream(
        self, service: A2AService, method: Method, operation: Stream, _requests: object, context: Context
    ) -> AsyncGenerator[bytes, None]:
        calls = self._open_calls()
        with calls.running():
            call, request = await _admitted(calls, service, method, context)
            plane = call.plane

            def written(items: Sequence[Item]) -> list[bytes]:
                return [
                    service.event(payload, cursor, numbered=flow.numbered).SerializeToString()
                    for cursor, payload in items
                ]

            slot = take_slot(call)
            at_end(context, slot.release)
            flow = await _with_task_errors(begin(operation.serve(call, request), slot))
            if call.used:
                context.set_trailing_metadata(echo(call))
            try:
                # Before the first event: one that its client does not take could not be followed by a status otherwise.
                await context.send_initial_metadata(())
                with EndedStream.of(plane, call.caller) as stream:
                    while (items := await stream.following(flow)) is not None:
                        for message in await plane.worker.run(total_bytes(items), written, items):
                            with stream.writing():
                                yield message
            finally:
                await flow.aclose()

    def _open_calls(self) -> OpenCalls:
        if self._calls is None:
            raise Unavailable("this server is starting or stopping", reason="NOT_READY", retry_after=1.0)
        return self._calls

    def _status(self, service: A2AService, error: PlaneError) -> Any:
        error_map: ErrorMap = "1.0.1" if self._calls is None else self._calls.plane.settings.error_map
        return service.status(error, logs.request_id.get(), error_map)


async def _admitted(calls: OpenCalls, service: A2AService, method: Method, context: Context) -> tuple[Call, Any]:
    """Return the call and the checked request."""
    accepted, plane = asyncio.get_running_loop().time(), calls.plane
    metadata = Metadata(context.invocation_metadata() or ())
    caller = plane.authenticator.identify(metadata)
    caller.check_read()
    enter(caller.principal)
    calls.take(context, caller.principal)
    data: Any = await plane.uploads.message(context.read())
    if data is grpc.aio.EOF:
        raise malformed()
    operation, size = method.operation, len(data)
    found = await plane.worker.run(size, _parsed, service, method, data)
    request: Any = found.request
    asked = metadata.header(b"a2a-version")
    check_version(plane, service.version, asked, accepted=service.versions, offered=service.version)
    call = call_of(plane, metadata, caller, service.version, size=size, accepted=accepted)
    await _with_task_errors(admit(call, operation, getattr(request, "tenant", "")))
    call.wait = found.wait
    await plane.worker.run(size, _check, service, operation, request)
    return call, request


def _parsed(service: A2AService, method: Method, data: bytes) -> Read:
    try:
        message = method.request.FromString(data)
    except DecodeError:
        raise malformed() from None
    return service.read(method.operation, message)


def _check(service: A2AService, operation: Operation, request: Message) -> None:
    bad = WrongFields()
    try:
        received.settle(request, bad)
        operation.check(request, bad)
        bad.check()
    except Invalid as error:
        raise invalid(service.as_sent(request, error.fields), reason=error.reason) from None


async def _with_task_errors(serving: Awaitable[Any]) -> Any:
    """Return what an operation returns, and raise that an agent is missing as the protocol has it."""
    try:
        return await serving
    except PlaneError as error:
        raise without_agent(error) from error.__cause__
