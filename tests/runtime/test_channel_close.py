"""A channel that is closed under its calls, over a socket and in process."""

import asyncio

import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from tests.runtime.conftest import Dial, Held, as_alice, echo_services

from taskplane.runtime import errors

HELLO = BytesValue(value=b"hello")


async def test_a_closed_channel_cuts_its_calls_off_as_unavailable(dial: Dial) -> None:
    held = Held()
    async with dial(echo_services(held.say, held.tell)) as channel:
        stub = as_alice(channel)
        calls = [stub.Say(HELLO), stub.Tell(HELLO)]
        assert await calls[1].read() == HELLO
        waiting = [asyncio.ensure_future(calls[0]), asyncio.ensure_future(calls[1].read())]
        await held.begun.wait()
        await channel.close()
        for each in waiting:
            with pytest.raises(errors.Unavailable):
                await each
        await held.ended.wait()
        with pytest.raises(errors.Unavailable):
            await stub.Say(HELLO)
