"""The places of health and reflection, whose callers need no credentials."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from tests.runtime.conftest import as_alice, echo_services
from tests.runtime.test_server import HELLO

from taskplane.runtime import anonymous, errors
from taskplane.runtime.server import serving
from taskplane.runtime.status import from_rpc_error

CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
REQUESTS = {
    CHECK: HealthCheckRequest(),
    WATCH: HealthCheckRequest(),
    REFLECTION: ServerReflectionRequest(list_services=""),
}


@asynccontextmanager
async def one_place() -> AsyncGenerator[Any, None]:
    """Open a channel to a server with room for one stream without credentials, one other such call, and two more."""
    async with (
        serving(echo_services(), "127.0.0.1:0", grace=0.1, max_calls=4, max_anonymous=1) as server,
        grpc.aio.insecure_channel(server.address) as channel,
    ):
        yield channel


async def asked(channel: Any, path: str) -> None:
    """Send one request, and wait for its first answer. PlaneError: it failed."""
    try:
        await channel.unary_stream(path)(REQUESTS[path].SerializeToString()).read()
    except grpc.aio.AioRpcError as error:
        raise from_rpc_error(error) from error


async def opened(channel: Any, path: str) -> Any:
    """Return a stream that has sent a request and may send others, after its first answer."""
    stream = channel.stream_stream(path)(request_and_no_end(path))
    await stream.read()
    return stream


async def request_and_no_end(path: str) -> AsyncIterator[bytes]:
    yield REQUESTS[path].SerializeToString()
    await asyncio.Event().wait()


async def served(channel: Any, path: str) -> None:
    """Wait until a call is no longer refused."""
    async with asyncio.timeout(10):
        while True:
            try:
                await asked(channel, path)
                return
            except errors.Exhausted:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("other", [WATCH, REFLECTION])
@pytest.mark.parametrize("path", [WATCH, REFLECTION])
async def test_a_stream_without_credentials_is_refused_beyond_their_limit_alone(path: str, other: str) -> None:
    """Whoever opens them shuts out neither health checks nor callers with credentials."""
    async with one_place() as channel:
        first = await opened(channel, path)
        for _ in range(5):
            with pytest.raises(errors.Exhausted) as refused:
                await asked(channel, other)
            assert (refused.value.reason, refused.value.retry_after) == ("TOO_MANY_CALLS", 1.0)
        await asked(channel, CHECK)
        assert await as_alice(channel).Say(HELLO) == HELLO
        first.cancel()
        await served(channel, other)


async def test_a_health_check_whose_request_does_not_arrive_has_a_place_and_loses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such checks too shut out nobody with credentials."""
    async with one_place() as channel:
        half = channel.stream_stream(CHECK)()
        await half.wait_for_connection()
        async with asyncio.timeout(10):
            while await counted(channel):
                await asyncio.sleep(0.01)
        assert await as_alice(channel).Say(HELLO) == HELLO
        await asked(channel, WATCH)
        half.cancel()
        await served(channel, CHECK)
        monkeypatch.setattr(anonymous, "ARRIVAL", 0.1)
        late = channel.stream_stream(CHECK)()
        with pytest.raises(grpc.aio.AioRpcError) as given_up:
            await late.read()
        assert from_rpc_error(given_up.value).reason == "BODY_TIMEOUT"
        await served(channel, CHECK)


async def counted(channel: Any) -> bool:
    """Whether another health check is answered."""
    try:
        await asked(channel, CHECK)
    except errors.Exhausted:
        return False
    return True


@pytest.mark.parametrize("path", [CHECK, WATCH])
async def test_a_request_of_health_that_is_none_is_refused(path: str) -> None:
    async with one_place() as channel:
        for messages in ([], [b"\xff"]):
            call = channel.stream_stream(path)(iter(messages))
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call.read()
            assert from_rpc_error(refused.value).reason == "MALFORMED_REQUEST"
