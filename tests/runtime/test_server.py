"""Sockets: where they may be opened, what they say about themselves, and how they end."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.runtime.conftest import SERVICE, Held, add_echo, as_alice, echo_services, say_back, tell_bytes

from taskplane.runtime import errors
from taskplane.runtime import server as server_module
from taskplane.runtime.channel import connect
from taskplane.runtime.interceptors import Context
from taskplane.runtime.policy import Access
from taskplane.runtime.server import serving
from taskplane.runtime.services import Services

HELLO = BytesValue(value=b"hello")
MIB = 1024 * 1024


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "10.1.2.3:50051", "plane.example:50051", ":0"])
async def test_without_a_secret_nothing_listens_where_others_can_reach_it(listen: str) -> None:
    """No unauthenticated mode on a non-loopback bind; the error names the setting."""
    with pytest.raises(errors.Invalid, match="other machines could call it") as failed:
        async with serving(echo_services(), listen):
            pass
    assert "internal_secret" in failed.value.suggestion


async def test_with_a_secret_it_listens_anywhere() -> None:
    async with (
        serving(echo_services(secret=b"s3cret"), "0.0.0.0:0", grace=0.1) as server,
        connect(server.address) as channel,
    ):
        assert server.address == f"127.0.0.1:{server.port}"
        assert await as_alice(channel, secret=b"s3cret").Say(HELLO) == HELLO


async def test_a_unix_socket_is_loopback(tmp_path: Path) -> None:
    listen = f"unix:{tmp_path}/plane.sock"
    async with serving(echo_services(), listen, grace=0.1) as server, connect(server.address) as channel:
        assert await as_alice(channel).Say(HELLO) == HELLO


async def test_an_address_in_use_is_refused_and_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(errors.Unavailable, match=f"cannot listen on 127.0.0.1:{port}"):
            async with serving(echo_services(), f"127.0.0.1:{port}"):
                pass


async def test_two_servers_do_not_share_a_port() -> None:
    async with serving(echo_services(), "127.0.0.1:0", grace=0.1) as server:
        with pytest.raises(errors.Unavailable):
            async with serving(echo_services(), server.address):
                pass


@pytest.mark.parametrize("listen", ["nonsense", "127.0.0.1:", "127.0.0.1:http"])
async def test_an_address_that_is_none_is_refused(listen: str) -> None:
    with pytest.raises(errors.Invalid, match="not a listen address"):
        async with serving(echo_services(), listen):
            pass


def test_a_service_is_registered_once() -> None:
    services = echo_services()
    with pytest.raises(ValueError, match="registered already"):
        services.add(add_echo, (say_back, tell_bytes))


def test_methods_that_stream_requests_are_not_registered() -> None:
    services = Services(policy={"/x.Y/Z": Access.USER})
    with pytest.raises(TypeError, match="request streams"):
        services.add_registered_method_handlers(
            "x.Y", {"Z": grpc.stream_stream_rpc_method_handler(lambda *_: iter(()))}
        )


async def test_reflection_lists_every_service() -> None:
    async with serving(echo_services(), "127.0.0.1:0", grace=0.1) as server, connect(server.address) as channel:
        stubs: Any = reflection_pb2_grpc
        call = stubs.ServerReflectionStub(channel).ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        )
        (reply,) = [reply async for reply in call]
        names = {service.name for service in reply.list_services_response.service}
    assert names == {SERVICE, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}


def watch(channel: grpc.aio.Channel, service: str = SERVICE) -> AsyncIterator[health_pb2.HealthCheckResponse]:
    stubs: Any = health_pb2_grpc
    call: AsyncIterator[health_pb2.HealthCheckResponse] = stubs.HealthStub(channel).Watch(
        health_pb2.HealthCheckRequest(service=service)
    )
    return aiter(call)


async def status(watched: AsyncIterator[health_pb2.HealthCheckResponse]) -> str:
    async with asyncio.timeout(10):
        return health_pb2.HealthCheckResponse.ServingStatus.Name((await anext(watched)).status)


@pytest.mark.parametrize("service", ["", SERVICE])
@pytest.mark.parametrize("failure", [errors.Unavailable("the database is away"), LookupError("a fault"), None])
async def test_health_follows_the_readiness_probe_and_back_again(service: str, failure: Exception | None) -> None:
    """C15: readiness turns false while the database is away, and true again when it is back."""
    answers = {"now": False}

    async def ready() -> bool:
        if failure is not None and not answers["now"]:
            raise failure
        return answers["now"]

    async with (
        serving(echo_services(), "127.0.0.1:0", ready=ready, grace=0.1, patience=0.0, period=0.02) as server,
        connect(server.address) as channel,
    ):
        watched = watch(channel, service)
        assert await status(watched) == "NOT_SERVING"
        answers["now"] = True
        assert await status(watched) == "SERVING"
        answers["now"] = False
        assert await status(watched) == "NOT_SERVING"
        answers["now"] = True
        assert await status(watched) == "SERVING"


async def test_a_hiccup_shorter_than_the_patience_is_not_shown() -> None:
    """C15: readiness turns false after 5 s, not at the first failed probe."""
    probes: asyncio.Queue[bool] = asyncio.Queue()
    failed = asyncio.Event()

    async def ready() -> bool:
        passes = await probes.get()
        if not passes:
            failed.set()
        return passes

    async with (
        serving(echo_services(), "127.0.0.1:0", ready=ready, grace=0.1, patience=60.0, period=0.02) as server,
        connect(server.address) as channel,
    ):
        probes.put_nowait(True)
        watched = watch(channel)
        while await status(watched) != "SERVING":
            pass
        for passes in (False, False, True):
            probes.put_nowait(passes)
        await failed.wait()
        assert server.health.serving


async def test_a_probe_that_hangs_has_failed() -> None:
    hangs = False
    given_up = asyncio.Event()

    async def ready() -> bool:
        if hangs:
            try:
                await asyncio.Event().wait()
            finally:
                given_up.set()
        return True

    async with (
        serving(echo_services(), "127.0.0.1:0", ready=ready, grace=0.1, patience=0.0, period=0.05) as server,
        connect(server.address) as channel,
    ):
        watched = watch(channel)
        while await status(watched) != "SERVING":
            pass
        hangs = True
        assert await status(watched) == "NOT_SERVING"
        assert given_up.is_set()


async def test_without_a_probe_a_server_is_ready() -> None:
    async with serving(echo_services(), "127.0.0.1:0", grace=0.1) as server, connect(server.address) as channel:
        watched = watch(channel)
        while await status(watched) != "SERVING":
            pass


async def test_a_drain_reports_not_serving_first_and_then_lets_calls_finish() -> None:
    """C14: health is NOT_SERVING, then stop(grace): calls that end within the grace are answered."""
    begun, release = asyncio.Event(), asyncio.Event()

    async def say(request: BytesValue, context: Context) -> BytesValue:
        begun.set()
        await release.wait()
        return request

    drain = asyncio.Event()

    async def serve() -> None:
        async with serving(echo_services(say), "127.0.0.1:0", grace=30) as server:
            addresses.set_result(server.address)
            await drain.wait()

    addresses: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving_task = asyncio.create_task(serve())
    async with connect(await addresses) as channel:
        watched = watch(channel)
        while await status(watched) != "SERVING":
            pass
        call = asyncio.ensure_future(as_alice(channel).Say(HELLO))
        await begun.wait()
        drain.set()
        assert await status(watched) == "NOT_SERVING"
        assert not call.done()
        release.set()
        assert await call == HELLO
    await serving_task


async def test_a_draining_server_serves_calls_until_its_clients_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C14: calls that arrive while a gRPC server stops are lost, so clients must go elsewhere first."""
    monkeypatch.setattr(server_module, "NOTICE", 600.0)
    async with (
        serving(echo_services(), "127.0.0.1:0", grace=0.1) as server,
        connect(server.address) as channel,
    ):
        watched = watch(channel)
        while await status(watched) != "SERVING":
            pass
        leaving = asyncio.create_task(server.leave())
        assert await status(watched) == "NOT_SERVING"
        assert await as_alice(channel).Say(HELLO) == HELLO
        assert not leaving.done()
        leaving.cancel()
        await asyncio.wait({leaving})


async def test_calls_that_do_not_end_within_the_grace_are_cancelled() -> None:
    """C14: stop(grace) ends every stream."""
    cancelled = asyncio.Event()

    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        yield request
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with AsyncExitStack() as stack:
        async with serving(echo_services(tell=tell), "127.0.0.1:0", grace=0.05) as server:
            stream = as_alice(await stack.enter_async_context(connect(server.address))).Tell(HELLO)
            assert await stream.read() == HELLO
        await cancelled.wait()
        with pytest.raises(errors.Unavailable):
            await stream.read()


async def test_a_server_that_cannot_be_reached_is_unavailable_without_telling_where() -> None:
    async with connect("127.0.0.1:1") as channel:
        with pytest.raises(errors.Unavailable) as failed:
            await as_alice(channel).Say(HELLO)
    assert "127.0.0.1" not in str(failed.value)


async def test_a_restarted_server_is_found_again(tmp_path: Path) -> None:
    # Not a port, which somebody else could take meanwhile.
    listen = f"unix:{tmp_path}/plane.sock"
    async with AsyncExitStack() as stack:
        async with serving(echo_services(), listen, grace=0.1) as server:
            channel = await stack.enter_async_context(connect(server.address))
            stub = as_alice(channel)
            await stub.Say(HELLO)
        with pytest.raises(errors.Unavailable):
            await stub.Say(HELLO)
        async with serving(echo_services(), listen, grace=0.1), asyncio.timeout(60):
            await channel.channel_ready()
            assert await stub.Say(HELLO) == HELLO


async def test_the_handler_of_an_unread_stream_waits() -> None:
    """C13: a slow client costs no memory: its handler waits, and other calls on the connection do not."""
    told = 0

    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        nonlocal told
        while True:
            told += 1
            yield BytesValue(value=bytes(MIB))

    async with (
        serving(echo_services(tell=tell), "127.0.0.1:0", grace=0.1) as server,
        connect(server.address) as channel,
    ):
        stub = as_alice(channel)
        stream = stub.Tell(HELLO)
        for _ in range(3):
            await stream.read()
        before = 0
        # gRPC widens the window of a connection that it takes to be a long one, up to a bound.
        while told > before:
            before = told
            for _ in range(200):
                await stub.Say(HELLO)
            assert told <= 128
        stream.cancel()


async def test_a_channel_that_nobody_uses_does_not_hold_up_a_drain() -> None:
    """C14: a drain takes as long as what is under way, and an open connection is nothing under way."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(20))
        async with serving(echo_services(), "127.0.0.1:0", grace=600) as server:
            stub = as_alice(await stack.enter_async_context(connect(server.address)))
            assert await stub.Say(HELLO) == HELLO


async def test_calls_beyond_the_limit_are_refused_or_wait_in_their_client() -> None:
    """The limit of a server refuses; that of a connection lets further calls wait."""
    held = Held()
    async with (
        serving(echo_services(held.say), "127.0.0.1:0", grace=0.1, max_calls=1) as server,
        connect(server.address) as channel,
    ):
        first = asyncio.ensure_future(as_alice(channel).Say(HELLO))
        await held.begun.wait()
        with pytest.raises(errors.Exhausted):
            await as_alice(channel).Say(HELLO)
        held.release.set()
        assert await first == HELLO
    waiting = Held()
    async with (
        serving(echo_services(waiting.say), "127.0.0.1:0", grace=0.1, max_connection_calls=1) as server,
        connect(server.address) as channel,
    ):
        calls = [asyncio.ensure_future(as_alice(channel).Say(HELLO)) for _ in range(2)]
        await waiting.begun.wait()
        with pytest.raises(errors.DeadlineExceeded):
            await as_alice(channel).Look(HELLO, timeout=0.2)
        waiting.release.set()
        assert await asyncio.gather(*calls) == [HELLO] * 2
