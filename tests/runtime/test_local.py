"""What the local channel promises beyond what a socket can."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from tests.runtime.conftest import ALICE, Held, as_alice, echo_services

from taskplane.runtime.channel import LocalChannel, client
from taskplane.runtime.server import Context

HELLO = BytesValue(value=b"hello")


async def test_requests_that_stream_have_no_stub() -> None:
    async with LocalChannel(echo_services()) as channel:
        for made in (channel, client(channel, identity=ALICE)):
            with pytest.raises(TypeError, match="streams requests"):
                made.stream_stream("/x/Y")(iter(()))
            with pytest.raises(TypeError, match="streams requests"):
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

    async with LocalChannel(echo_services(say, tell)) as channel:
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

    async with LocalChannel(echo_services(say)) as channel:
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

    async with LocalChannel(echo_services(tell=tell)) as channel:
        taken = 0
        async for _ in as_alice(channel).Tell(HELLO):
            taken += 1
            for _ in range(10):
                await asyncio.sleep(0)
            assert made <= taken + 1
        assert taken == 5


async def test_nothing_is_left_behind() -> None:
    before = asyncio.all_tasks()
    held = Held()
    async with LocalChannel(echo_services(held.say, held.tell)) as channel:
        stub = as_alice(channel)
        calls = [stub.Say(HELLO), stub.Tell(HELLO)]
        await held.begun.wait()
        await channel.close()
        assert channel.running == set()
        assert held.cancelled
        del calls
    assert asyncio.all_tasks() == before
