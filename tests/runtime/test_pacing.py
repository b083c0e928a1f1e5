"""Promises of the pacer: one piece at a time, in order, and rests between them while calls are in flight."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from tests.runtime.conftest import Dial, as_alice, echo_services

from taskplane.runtime import errors
from taskplane.runtime.interceptors import Context
from taskplane.runtime.pacing import Pacer

HELLO = BytesValue(value=b"hello")


async def test_pieces_come_one_at_a_time_in_the_order_in_which_they_were_asked_for() -> None:
    """C13: any number of readers is one to all others; one that fails or is cancelled leaves its place."""
    pacer = Pacer()
    done: list[str] = []

    async def work(name: str) -> None:
        async with pacer.piece():
            done.append(f"{name} begins")
            await asyncio.sleep(0)
            if name == "b":
                raise errors.NotFound("gone")
            done.append(f"{name} ends")

    tasks = {name: asyncio.create_task(work(name)) for name in "abcd"}
    await asyncio.sleep(0)
    tasks["c"].cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    assert done == ["a begins", "a ends", "b begins", "d begins", "d ends"]


@pytest.mark.parametrize("busy", [True, False], ids=["call", "no call"])
async def test_others_have_the_process_between_two_pieces_only_while_a_call_is_in_flight(busy: bool) -> None:
    """C13: a reader that is alone loses nothing."""
    pacer = Pacer()
    done: list[str] = []

    async def work() -> None:
        async with pacer.piece():
            done.append("piece")
            if len(done) == 1:
                time.sleep(0.005)  # noqa: ASYNC251 - what holds the loop
                asyncio.get_running_loop().call_later(0.001, done.append, "others")

    pacer.calls += busy
    await asyncio.gather(work(), work())
    assert done == (["piece", "others", "piece"] if busy else ["piece", "piece"])


async def test_unary_calls_are_in_flight_and_streams_are_not(dial: Dial) -> None:
    """C13: a watch lasts, and nobody waits for its end."""
    seen: list[int] = []

    async def say(request: BytesValue, context: Context) -> BytesValue:
        seen.append(services.pacer.calls)
        raise errors.NotFound("no such thing")

    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        seen.append(services.pacer.calls)
        yield request

    services = echo_services(say, tell)
    async with dial(services) as channel:
        stub = as_alice(channel)
        with pytest.raises(errors.NotFound):
            await stub.Say(HELLO)
        assert [reply async for reply in stub.Tell(HELLO)] == [HELLO]
    assert seen == [1, 0]
    assert services.pacer.calls == 0
