"""Promises of the in-process channel beyond those of a socket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from tests.runtime.conftest import ALICE, Held, as_alice, echo_services

from taskplane.runtime import errors
from taskplane.runtime.channel import InProcessChannel, client
from taskplane.runtime.interceptors import Context

HELLO = BytesValue(value=b"hello")


async def test_requests_that_stream_have_no_stub() -> None:
    async with InProcessChannel(echo_services()) as channel:
        for made in (channel, client(channel, identity=ALICE)):
            with pytest.raises(TypeError, match="request streams"):
                made.stream_stream("/x/Y")(iter(()))
            with pytest.raises(TypeError, match="request streams"):
                made.stream_unary("/x/Y")(iter(()))


async def test_a_cancelled_caller_waits_for_the_handlers_finally() -> None:
    ended: list[str] = []
    begun = asyncio.Event()

    async def say(request: BytesValue, context: Context) -> BytesValue:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            ended.append("say")
        return request

    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        yield await say(request, context)

    async with InProcessChannel(echo_services(say, tell)) as channel:
        stub = as_alice(channel)
        starts: list[Callable[[], Any]] = [lambda: stub.Say(HELLO), lambda: stub.Tell(HELLO).read()]
        for start in starts:
            begun.clear()
            ended.clear()
            call: asyncio.Future[Any] = asyncio.ensure_future(start())
            await begun.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert ended == ["say"]


async def test_a_second_cancellation_neither_waits_nor_disturbs_the_handler() -> None:
    cleaning, release, cleaned = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def say(request: BytesValue, context: Context) -> BytesValue:
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await release.wait()
            cleaned.set()
        return request

    async with InProcessChannel(echo_services(say)) as channel:
        call: asyncio.Future[Any] = asyncio.ensure_future(as_alice(channel).Say(HELLO))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        call.cancel()
        await cleaning.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert not cleaned.is_set()
        release.set()
        await cleaned.wait()


async def test_a_producer_is_never_more_than_one_message_ahead() -> None:
    made = 0

    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        nonlocal made
        for byte in request.value:
            made += 1
            yield BytesValue(value=bytes([byte]))

    async with InProcessChannel(echo_services(tell=tell)) as channel:
        taken = 0
        async for _ in as_alice(channel).Tell(HELLO):
            taken += 1
            for _ in range(10):
                await asyncio.sleep(0)
            assert made <= taken + 1
        assert taken == 5


async def test_a_message_written_to_a_waiting_reader_does_not_hold_up_the_handler() -> None:
    ended = asyncio.Event()

    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        yield request
        ended.set()

    async with InProcessChannel(echo_services(tell=tell)) as channel:
        stream = as_alice(channel).Tell(HELLO)
        assert await stream.read() == HELLO
        assert ended.is_set()
        assert not stream.cancel()
        assert await stream.read() is grpc.aio.EOF


async def test_each_call_ends_at_its_own_deadline() -> None:
    held = Held()
    loop = asyncio.get_running_loop()
    ends: list[str] = []

    async def say(request: BytesValue, context: Context) -> BytesValue:
        return request if request == HELLO else await held.say(request, context)

    async with InProcessChannel(echo_services(say)) as channel:
        stub = as_alice(channel)

        async def call(name: str, seconds: float) -> None:
            began = loop.time()
            with pytest.raises(errors.DeadlineExceeded):
                await stub.Say(BytesValue(), timeout=seconds)
            # A timer may be early by a millisecond.
            assert loop.time() > began + seconds - 0.002
            ends.append(name)

        assert await stub.Say(HELLO, timeout=0.2) == HELLO
        endless = [stub.Say(BytesValue(), timeout=3_600)]
        async with asyncio.TaskGroup() as calls:
            for name, seconds in (("c", 0.2), ("a", 0.1), ("d", 0.2), ("b", 0.1)):
                calls.create_task(call(name, seconds))
                endless.append(stub.Say(BytesValue(), timeout=3_600))
                await asyncio.sleep(0.001)
        # Those that were given the same; which of the others is first depends on how long it took to begin them all.
        assert [name for name in ends if name in "ab"] == ["a", "b"]
        assert [name for name in ends if name in "cd"] == ["c", "d"]
        assert not any(each.done() for each in endless)
        await channel.close()


async def test_nothing_is_left_behind() -> None:
    before = asyncio.all_tasks()
    held = Held()
    async with InProcessChannel(echo_services(held.say, held.tell)) as channel:
        stub = as_alice(channel)
        before_it_began = stub.Say(HELLO)
        assert before_it_began.cancel()
        assert await before_it_began.code() is grpc.StatusCode.CANCELLED
        assert asyncio.all_tasks() == before
        calls = [stub.Say(HELLO), stub.Tell(HELLO)]
        await held.begun.wait()
        await channel.close()
        assert asyncio.all_tasks() == before
        assert held.cancelled
        del calls
    assert asyncio.all_tasks() == before
