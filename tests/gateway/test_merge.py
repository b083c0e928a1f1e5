"""Merging of two streams into one."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from taskplane.gateway.a2a.merge import merged


class Source:
    """A stream that the test feeds, with a count of taken elements and a flag for its close."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[int | Exception | None] = asyncio.Queue()
        self.taken = 0
        self.closed = False

    async def elements(self) -> AsyncGenerator[int, None]:
        try:
            while (element := await self.queue.get()) is not None:
                if isinstance(element, Exception):
                    raise element
                self.taken += 1
                yield element
        finally:
            self.closed = True


async def test_elements_come_as_soon_as_ready_in_the_order_of_each_stream() -> None:
    one, other = Source(), Source()
    stream = merged(one.elements(), other.elements())
    for number in (1, 2, 3):
        one.queue.put_nowait(number)
    found = [await anext(stream) for _ in range(2)]
    other.queue.put_nowait(10)
    found += [await anext(stream) for _ in range(2)]
    assert sorted(found) == [1, 2, 3, 10]
    assert [number for number in found if number < 10] == [1, 2, 3]
    await stream.aclose()
    assert one.closed
    assert other.closed


async def test_at_most_one_element_of_each_stream_is_read_ahead() -> None:
    one, other = Source(), Source()
    for number in range(100):
        one.queue.put_nowait(number)
        other.queue.put_nowait(number)
    stream = merged(one.elements(), other.elements())
    await anext(stream)
    for _ in range(10):
        await asyncio.sleep(0)
    assert one.taken + other.taken <= 3
    await stream.aclose()


@pytest.mark.parametrize("end", [None, ValueError("broken")])
async def test_the_end_of_one_stream_ends_both(end: Exception | None) -> None:
    one, other = Source(), Source()
    stream = merged(one.elements(), other.elements())
    other.queue.put_nowait(end)
    if end is None:
        assert [number async for number in stream] == []
    else:
        with pytest.raises(ValueError, match="broken"):
            await anext(stream)
    assert one.closed
    assert other.closed


async def test_a_cancelled_reader_closes_both_streams() -> None:
    one, other = Source(), Source()

    async def read() -> None:
        stream = merged(one.elements(), other.elements())
        try:
            await anext(stream)
        finally:
            await stream.aclose()

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.01)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert one.closed
    assert other.closed
