"""Services that authenticate their callers themselves, beside internal ones."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.wrappers_pb2 import BytesValue
from grpc_reflection.v1alpha import reflection_pb2_grpc
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from tests.runtime.conftest import ALICE, ECHO, ROBOT, SERVICE, Dial, EchoStub, as_alice, echo_services

from taskplane.runtime import errors, principal, status
from taskplane.runtime.channel import connect
from taskplane.runtime.identity import PRINCIPAL_KEY, PrincipalSigner
from taskplane.runtime.interceptors import Context
from taskplane.runtime.server import serving
from taskplane.runtime.services import Services

SECRET = b"s3cret"
OPEN = "open.v1.Door"
KNOCK, RING, WALK = (f"/{OPEN}/{name}" for name in ("Knock", "Ring", "Walk"))
HELLO = BytesValue(value=b"hello")


def described() -> FileDescriptorProto:
    file = FileDescriptorProto(name="open/v1/door.proto", package="open.v1", syntax="proto3")
    file.dependency.append("google/protobuf/wrappers.proto")
    for name in ("Knock", "Ring", "Walk"):
        file.message_type.add(name=f"{name}Request")
    service = file.service.add(name="Door")
    for name in ("Knock", "Ring", "Walk"):
        method = service.method.add(name=name, server_streaming=name == "Ring")
        method.input_type, method.output_type = f".open.v1.{name}Request", ".google.protobuf.BytesValue"
    return file


async def knock(request: bytes, context: Context) -> bytes:
    return request + repr(principal.current()).encode()


async def ring(request: bytes, context: Context) -> AsyncIterator[bytes]:
    yield request
    raise errors.NotFound("nobody is at home", reason="NOBODY", metadata={"door": "1"})


async def walk(request: bytes, context: Context) -> bytes:
    raise RuntimeError("a secret of ours")


def own_status(error: errors.PlaneError) -> Any:
    return status.to_status(error, status.Info("OUT_OF_RANGE", "OWN", "open", dict(error.metadata)))


def with_door(services: Services) -> Services:
    handlers: dict[str, Any] = {
        "Knock": grpc.unary_unary_rpc_method_handler(knock),
        "Ring": grpc.unary_stream_rpc_method_handler(ring),
        "Walk": grpc.unary_unary_rpc_method_handler(walk),
    }
    services.add_public(described(), handlers, own_status)
    return services


async def test_it_is_called_without_a_principal_and_the_internal_ones_are_not(dial: Dial) -> None:
    """S2: a principal, signed or not, neither opens nor closes it, and is nothing to its handlers."""
    made: Any
    async with dial(with_door(echo_services(secret=SECRET))) as channel:
        made = channel
        signed = PrincipalSigner(SECRET).write(ROBOT)
        for metadata in ((), ((PRINCIPAL_KEY, signed),), ((PRINCIPAL_KEY, "forged.x"),)):
            assert await made.unary_unary(KNOCK)(b"hello", metadata=metadata) == b"helloNone"
        for stub in (EchoStub(channel), as_alice(channel), as_alice(channel, secret=b"guessed")):
            with pytest.raises((grpc.aio.AioRpcError, errors.Unauthenticated)):
                await stub.Say(HELLO)
        assert await as_alice(channel, secret=SECRET).Say(HELLO) == HELLO


async def test_its_errors_have_the_form_of_its_own_and_faults_stay_here(dial: Dial) -> None:
    async with dial(with_door(echo_services(default=ALICE))) as channel:
        made: Any = channel
        stream = made.unary_stream(RING)(b"hello")
        assert await stream.read() == b"hello"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.OUT_OF_RANGE, "nobody is at home")
        with pytest.raises(grpc.aio.AioRpcError) as fault:
            await made.unary_unary(WALK)(b"hello")
        assert fault.value.code() is grpc.StatusCode.OUT_OF_RANGE
        assert "secret" not in str(fault.value)


async def test_without_internal_services_it_listens_anywhere_without_a_secret() -> None:
    async with (
        serving(with_door(Services(policy={})), "0.0.0.0:0", grace=0.1, connection_age=None) as server,
        connect(server.address) as channel,
    ):
        made: Any = channel
        assert await made.unary_unary(KNOCK)(b"hello") == b"helloNone"
    with pytest.raises(errors.Invalid, match="other machines could call it"):
        async with serving(with_door(echo_services()), "0.0.0.0:0"):
            pass


async def test_reflection_describes_it_beside_the_internal_ones() -> None:
    async with (
        serving(with_door(echo_services()), "127.0.0.1:0", grace=0.1) as server,
        connect(server.address) as channel,
    ):
        asked = [
            ServerReflectionRequest(list_services=""),
            *(ServerReflectionRequest(file_containing_symbol=name) for name in (OPEN, SERVICE)),
        ]
        stubs: Any = reflection_pb2_grpc
        stub = stubs.ServerReflectionStub(channel)
        names, door, echo = [reply async for reply in stub.ServerReflectionInfo(iter(asked))]
    assert {each.name for each in names.list_services_response.service} >= {OPEN, SERVICE}
    for reply, name in ((door, "open/v1/door.proto"), (echo, ECHO.name)):
        files = [FileDescriptorProto.FromString(each) for each in reply.file_descriptor_response.file_descriptor_proto]
        assert {file.name for file in files} == {name, "google/protobuf/wrappers.proto"}
