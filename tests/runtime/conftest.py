"""A real service on a real channel, over a socket and in process: `dial` opens any."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Literal, Protocol

import grpc
import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, MethodOptions
from google.protobuf.wrappers_pb2 import BytesValue

from taskplane.runtime import errors
from taskplane.runtime.channel import InProcessChannel, client, connect
from taskplane.runtime.interceptors import Context
from taskplane.runtime.policy import Access
from taskplane.runtime.principal import Principal
from taskplane.runtime.server import serving
from taskplane.runtime.services import Services

SERVICE = "taskplane.test.v1.Echo"
SAY = f"/{SERVICE}/Say"
LOOK = f"/{SERVICE}/Look"
TELL = f"/{SERVICE}/Tell"
ALICE = Principal("acme", "alice", "user:alice")
ROBOT = Principal("acme", "alice", "executor", service=True)

Say = Callable[[BytesValue, Context], Awaitable[BytesValue]]
Tell = Callable[[BytesValue, Context], AsyncIterator[BytesValue]]


async def say_back(request: BytesValue, context: Context) -> BytesValue:
    return request


async def tell_bytes(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
    for byte in request.value:
        yield BytesValue(value=bytes([byte]))


class Held:
    """A handler that begins, waits until it is released, and tells how it ended."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.release = asyncio.Event()
        self.ended = asyncio.Event()
        self.cancelled = False

    async def hold(self) -> None:
        self.begun.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        finally:
            await asyncio.sleep(0)
            self.ended.set()

    async def say(self, request: BytesValue, context: Context) -> BytesValue:
        await self.hold()
        return request

    async def tell(self, request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        yield request
        await self.hold()
        yield request


async def overrun(held: Held, call: Callable[[], Awaitable[object]]) -> None:
    """Makes a call that `held` holds up beyond its deadline, and waits for the handler to end.

    On a busy machine the deadline may pass before the handler begins; then the call is made again.
    """
    while not held.begun.is_set():
        with pytest.raises(errors.DeadlineExceeded):
            await call()
    await held.ended.wait()


def _echo_file() -> FileDescriptor:
    """Return the descriptor that grpc_tools would generate: `Look` and `Tell` may be repeated, `Say` may not."""
    file = FileDescriptorProto(name="taskplane/test/v1/echo.proto", package="taskplane.test.v1", syntax="proto3")
    file.dependency.append("google/protobuf/wrappers.proto")
    service = file.service.add(name="Echo")
    for name in ("Say", "Look", "Tell"):
        method = service.method.add(name=name, server_streaming=name == "Tell")
        method.input_type = method.output_type = ".google.protobuf.BytesValue"
        if name != "Say":
            method.options.idempotency_level = MethodOptions.NO_SIDE_EFFECTS
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindFileByName(file.name)


ECHO = _echo_file()


class EchoStub:
    """What grpc_tools would generate for a service with two unary methods and one stream."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        made: Any = channel
        arguments = (BytesValue.SerializeToString, BytesValue.FromString)
        self.Say: Any = made.unary_unary(SAY, *arguments, _registered_method=True)
        self.Look: Any = made.unary_unary(LOOK, *arguments, _registered_method=True)
        self.Tell: Any = made.unary_stream(TELL, *arguments, _registered_method=True)
        self.Gone: Any = made.unary_unary(f"/{SERVICE}/Gone", *arguments, _registered_method=True)


def add_echo(servicer: tuple[Say, Tell], server: grpc.aio.Server) -> None:
    """What grpc_tools would generate to register it."""
    behaviours: Any = servicer
    unary = grpc.unary_unary_rpc_method_handler(behaviours[0], BytesValue.FromString, BytesValue.SerializeToString)
    handlers = {
        "Say": unary,
        "Look": unary,
        "Tell": grpc.unary_stream_rpc_method_handler(
            behaviours[1], BytesValue.FromString, BytesValue.SerializeToString
        ),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_registered_method_handlers(SERVICE, handlers)


def echo_services(
    say: Say = say_back,
    tell: Tell = tell_bytes,
    *,
    access: Access | None = Access.USER,
    secret: bytes = b"",
    default: Principal | None = None,
) -> Services:
    services = Services(
        policy=dict.fromkeys((SAY, LOOK, TELL), access) if access else {}, secret=secret, default=default
    )
    services.add(add_echo, (say, tell))
    return services


Kind = Literal["socket", "inprocess"]


@pytest.fixture(params=["socket", "inprocess"])
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


class Dial(Protocol):
    def __call__(self, services: Services) -> AbstractAsyncContextManager[grpc.aio.Channel]: ...


@pytest.fixture
def dial(kind: Kind) -> Dial:
    """Opens a bare channel to services, of the kind under test."""

    @asynccontextmanager
    async def opened(services: Services) -> AsyncGenerator[grpc.aio.Channel]:
        async with AsyncExitStack() as stack:
            if kind == "inprocess":
                yield await stack.enter_async_context(InProcessChannel(services))
            else:
                server = await stack.enter_async_context(serving(services, "127.0.0.1:0", grace=0.2))
                yield await stack.enter_async_context(connect(server.address))

    return opened


def as_alice(channel: grpc.aio.Channel, *, secret: bytes = b"", deadline: float = 10.0) -> EchoStub:
    return EchoStub(client(channel, identity=ALICE, secret=secret, deadline=deadline))
