"""Calls of one channel over several replicas: spread, moved away from those that leave, repeated where that is safe."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from prometheus_client import REGISTRY
from tests.runtime.conftest import ALICE, ECHO, SAY, TELL, EchoStub, as_alice, echo_services
from tests.support.balancer import balancer
from tests.support.dns import name_server

from taskplane.runtime import errors
from taskplane.runtime.channel import client, connect
from taskplane.runtime.interceptors import Context
from taskplane.runtime.server import Serving, serving
from taskplane.runtime.services import Services

HELLO = BytesValue(value=b"hello")
# What `serving` takes, in the time of a test.
QUICK: dict[str, Any] = {"grace": 5.0, "connection_age": 1.0, "connection_grace": 1.0}
LASTING: dict[str, Any] = {**QUICK, "connection_age": 600.0}


def named(name: str) -> Services:
    """An echo that answers with its name."""

    async def say(request: BytesValue, context: Context) -> BytesValue:
        return BytesValue(value=name.encode())

    return echo_services(say, default=ALICE)


async def asked(stub: EchoStub, times: int = 100) -> Counter[str]:
    """Who answered so many calls, one after the other."""
    return Counter([(await stub.Say(HELLO)).value.decode() for _ in range(times)])


async def until(found: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    """Waits for what takes as many calls as it takes."""
    async with asyncio.timeout(seconds):
        while not await found():
            pass


@asynccontextmanager
async def two(**options: Any) -> AsyncGenerator[tuple[Serving, Serving]]:
    """Replicas a and b at two addresses of loopback, with one port."""
    options = {**QUICK, **options}
    async with (
        serving(named("a"), "127.0.0.1:0", **options) as a,
        serving(named("b"), f"127.0.0.2:{a.port}", **options) as b,
    ):
        yield a, b


async def both(stub: EchoStub) -> None:
    """Returns when calls go to a and b."""
    await until(lambda: _reached(stub, {"a", "b"}))


async def _reached(stub: EchoStub, names: set[str]) -> bool:
    return set(await asked(stub, 10)) == names


async def test_a_list_of_addresses_spreads_calls_evenly() -> None:
    async with two() as (a, b), connect(f"{a.address},{b.address}", ECHO) as channel:
        stub = as_alice(channel)
        await both(stub)
        found = await asked(stub)
        assert min(found["a"], found["b"]) >= 40, found


async def test_a_name_that_resolves_to_two_addresses_spreads_calls_evenly() -> None:
    async with (
        two() as (a, _),
        name_server("127.0.0.1", "127.0.0.2") as names,
        connect(names.target("echo.test", a.port), ECHO) as channel,
    ):
        stub = as_alice(channel)
        await both(stub)
        found = await asked(stub)
        assert min(found["a"], found["b"]) >= 40, found


async def test_a_replica_that_a_name_resolves_to_from_now_on_is_used_and_one_it_does_not_is_left() -> None:
    """A name is resolved anew when a connection has reached its age."""
    async with (
        two() as (a, _),
        name_server("127.0.0.1") as names,
        connect(names.target("echo.test", a.port), ECHO) as channel,
    ):
        stub = as_alice(channel)
        assert set(await asked(stub)) == {"a"}
        # Less than the 30 s between two resolutions that gRPC has by default.
        names.addresses = ["127.0.0.1", "127.0.0.2"]
        await until(lambda: _reached(stub, {"a", "b"}), 20)
        names.addresses = ["127.0.0.2"]
        await until(lambda: _reached(stub, {"b"}), 20)


async def test_a_replica_that_is_started_later_gets_its_share() -> None:
    async with AsyncExitStack() as stack:
        a = await stack.enter_async_context(serving(named("a"), "127.0.0.1:0", **QUICK))
        channel = await stack.enter_async_context(connect(f"{a.address},127.0.0.2:{a.port}", ECHO))
        stub = as_alice(channel)
        assert set(await asked(stub)) == {"a"}
        await stack.enter_async_context(serving(named("b"), f"127.0.0.2:{a.port}", **QUICK))
        await both(stub)
        found = await asked(stub)
        assert min(found["a"], found["b"]) >= 40, found


async def test_a_replica_that_is_not_ready_gets_no_calls_until_it_is() -> None:
    ready = False

    async def probe() -> bool:
        return ready

    async with AsyncExitStack() as stack:
        a = await stack.enter_async_context(serving(named("a"), "127.0.0.1:0", **QUICK))
        unready = serving(named("b"), f"127.0.0.2:{a.port}", ready=probe, patience=0.0, period=0.02, **QUICK)
        await stack.enter_async_context(unready)
        stub = as_alice(await stack.enter_async_context(connect(f"{a.address},127.0.0.2:{a.port}", ECHO)))
        assert set(await asked(stub)) == {"a"}
        ready = True
        await both(stub)
        ready = False
        await until(lambda: _reached(stub, {"a"}))


async def test_a_replica_that_is_stopped_and_started_again_loses_no_call() -> None:
    """C14: calls of methods that are never repeated, under load, through three restarts of one of two replicas."""
    async with AsyncExitStack() as stack:
        a = await stack.enter_async_context(serving(named("a"), "127.0.0.1:0", **QUICK))
        listen = f"127.0.0.2:{a.port}"
        stub = as_alice(await stack.enter_async_context(connect(f"{a.address},{listen}", ECHO)))
        stopped = asyncio.Event()

        async def load() -> None:
            while not stopped.is_set():
                await asked(stub, 1)

        async with asyncio.TaskGroup() as callers:
            for _ in range(4):
                callers.create_task(load())
            for _ in range(3):
                async with serving(named("b"), listen, **QUICK) as b:
                    await both(stub)
                    await b.leave()
                    assert set(await asked(stub, 20)) == {"a"}
            stopped.set()


async def test_no_call_fails_when_connections_reach_their_age() -> None:
    """Connections of 0.2 s, under load: a call that meets the end of its connection goes to the next one."""
    async with two(connection_age=0.2) as (a, b), connect(f"{a.address},{b.address}", ECHO) as channel:
        stub = as_alice(channel)
        async with asyncio.TaskGroup() as callers:
            for _ in range(8):
                callers.create_task(asked(stub, 300))


async def test_a_stream_is_cut_off_as_unavailable_after_the_grace_and_a_call_within_it_is_answered() -> None:
    release = asyncio.Event()

    async def say(request: BytesValue, context: Context) -> BytesValue:
        await release.wait()
        return request

    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        yield request
        await asyncio.Event().wait()

    async def after_its_age(grace: float, call: Callable[[EchoStub], Awaitable[BytesValue]]) -> BytesValue:
        services = echo_services(say, tell, default=ALICE)
        ages: dict[str, Any] = {"connection_age": 0.2, "connection_grace": grace}
        async with (
            serving(services, "127.0.0.1:0", grace=0.1, **ages) as server,
            connect(server.address, ECHO) as channel,
        ):
            return await call(as_alice(channel))

    async def long_stream(stub: EchoStub) -> BytesValue:
        stream = stub.Tell(HELLO)
        assert await stream.read() == HELLO
        with pytest.raises(errors.Unavailable):
            await stream.read()
        return HELLO

    async def long_call(stub: EchoStub) -> BytesValue:
        asyncio.get_running_loop().call_later(1.0, release.set)
        found: BytesValue = await stub.Say(HELLO)
        return found

    assert await after_its_age(0.2, long_stream) == HELLO
    assert await after_its_age(60.0, long_call) == HELLO


async def test_through_a_tcp_balancer_load_spreads_by_connection_within_two_ages() -> None:
    async with (
        serving(named("a"), "127.0.0.1:0", **QUICK) as a,
        serving(named("b"), "127.0.0.1:0", **QUICK) as b,
        balancer(a.port) as between,
        connect(f"127.0.0.1:{between.port}", ECHO) as channel,
    ):
        stub = as_alice(channel)
        assert set(await asked(stub)) == {"a"}
        between.backends = [b.port]
        # The connection that is open now, and at most one that was begun before.
        await until(lambda: _reached(stub, {"b"}))
        assert between.connections[a.port] <= 2
        between.backends = [a.port, b.port]
        for name in ("a", "b", "a"):
            await until(lambda name=name: _reached(stub, {name}))  # type: ignore[misc]


async def test_a_replica_that_leaves_a_tcp_balancer_loses_no_call_of_a_patient_client() -> None:
    """C14: calls of a method that is never repeated; while the only connection leads to who leaves, they wait."""
    async with (
        serving(named("a"), "127.0.0.1:0", **QUICK) as a,
        balancer(a.port) as between,
        connect(f"127.0.0.1:{between.port}", ECHO) as channel,
    ):
        stub = EchoStub(client(channel, identity=ALICE, patience=10.0))
        stopped = asyncio.Event()

        async def load() -> None:
            while not stopped.is_set():
                await asked(stub, 1)

        async with asyncio.TaskGroup() as callers:
            async with serving(named("b"), "127.0.0.1:0", **LASTING) as b:
                between.backends = [b.port, a.port]
                assert set(await asked(stub, 10)) == {"b"}
                for _ in range(4):
                    callers.create_task(load())
                await b.leave()
            assert set(await asked(stub, 20)) == {"a"}
            stopped.set()


async def test_a_replica_that_goes_silent_is_left_within_seconds() -> None:
    """Neither its socket nor its health says anything; calls that may be repeated are, elsewhere."""
    async with (
        serving(named("a"), "127.0.0.1:0", grace=0.1) as a,
        serving(named("b"), "127.0.0.1:0", grace=0.1) as b,
        balancer(b.port) as before_b,
        connect(f"{a.address},127.0.0.1:{before_b.port}", ECHO) as channel,
    ):
        stub = as_alice(channel)
        await both(stub)
        before_b.silent = True
        async with asyncio.timeout(6):
            while set(names := [(await stub.Look(HELLO)).value for _ in range(10)]) != {b"a"}:
                pass
        assert names == [b"a"] * 10


async def test_a_stream_from_a_peer_that_goes_silent_ends_within_seconds() -> None:
    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        yield request
        await asyncio.Event().wait()

    async with (
        serving(echo_services(tell=tell, default=ALICE), "127.0.0.1:0", grace=0.1) as server,
        balancer(server.port) as between,
        connect(f"127.0.0.1:{between.port}", ECHO) as channel,
    ):
        stream = as_alice(channel).Tell(HELLO)
        assert await stream.read() == HELLO
        between.silent = True
        with pytest.raises(errors.Unavailable):
            async with asyncio.timeout(6):
                await stream.read()


async def test_a_connection_that_nobody_uses_is_kept_however_often_it_is_pinged() -> None:
    """By default a server ends it at the third ping, as too many."""
    async with (
        serving(named("a"), "127.0.0.1:0", grace=0.1, connection_age=600.0) as a,
        balancer(a.port) as between,
        connect(f"127.0.0.1:{between.port}") as channel,
    ):
        assert await asked(as_alice(channel), 1)
        passed = between.passed
        async with asyncio.timeout(30):
            # Pings and their answers.
            while between.passed < passed + 2 * 6:
                await asyncio.sleep(0.02)
        assert await asked(as_alice(channel), 1)
        assert between.connections == {a.port: 1}


class Failing:
    """An echo that refuses its first calls as UNAVAILABLE."""

    def __init__(self, times: int) -> None:
        self.calls = 0
        self._times = times

    def _check(self) -> None:
        self.calls += 1
        if self.calls <= self._times:
            raise errors.Unavailable("not now")

    async def say(self, request: BytesValue, context: Context) -> BytesValue:
        self._check()
        return request

    async def tell(self, request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        self._check()
        yield request


async def test_only_idempotent_calls_are_retried() -> None:
    for times, method, calls in (
        (2, "Look", 3),
        (2, "Tell", 3),
        (9, "Look", 4),
        (9, "Tell", 4),
        (1, "Say", 1),
    ):
        failing = Failing(times)
        services = echo_services(failing.say, failing.tell, default=ALICE)
        async with (
            serving(services, "127.0.0.1:0", grace=0.1) as server,
            connect(server.address, ECHO) as channel,
        ):
            stub = as_alice(channel)
            call = getattr(stub, method)(HELLO)
            reply = call.read() if method == "Tell" else call
            if calls <= times:
                with pytest.raises(errors.Unavailable):
                    await reply
            else:
                assert await reply == HELLO
        assert failing.calls == calls, method


async def test_a_stream_is_not_retried_after_its_first_message() -> None:
    begun = 0

    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        nonlocal begun
        begun += 1
        yield request
        raise errors.Unavailable("not now")

    async with (
        serving(echo_services(tell=tell, default=ALICE), "127.0.0.1:0", grace=0.1) as server,
        connect(server.address, ECHO) as channel,
    ):
        stream = as_alice(channel).Tell(HELLO)
        assert await stream.read() == HELLO
        with pytest.raises(errors.Unavailable):
            await stream.read()
    assert begun == 1


class Seeing(grpc.aio.ServerInterceptor):
    """An interceptor that notes the methods it sees."""

    def __init__(self) -> None:
        self.methods: list[str] = []

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        self.methods.append(handler_call_details.method)
        return await continuation(handler_call_details)


async def test_an_interceptor_and_a_metric_see_each_call_by_its_name() -> None:
    def counted(method: str) -> float:
        return REGISTRY.get_sample_value("taskplane_rpc_calls_total", {"method": method, "code": "OK"}) or 0.0

    before = {method: counted(method) for method in (SAY, TELL)}
    seeing = Seeing()
    async with (
        serving(named("a"), "127.0.0.1:0", grace=0.1, interceptors=[seeing]) as server,
        connect(server.address) as channel,
    ):
        stub = as_alice(channel)
        for _ in range(3):
            await stub.Say(HELLO)
        assert [reply async for reply in stub.Tell(HELLO)]
    assert seeing.methods == [SAY] * 3 + [TELL]
    assert {method: counted(method) - before[method] for method in before} == {SAY: 3, TELL: 1}
