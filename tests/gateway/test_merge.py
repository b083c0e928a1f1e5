"""Two streams read as one."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from taskplane.gateway.a2a.merge import merged


class Source:
    """A stream that is fed by the test, counts what was taken of it, and says when it was closed."""

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


async def test_elements_come_as_they_are_ready_each_stream_in_its_order() -> None:
    one, other = Source(), Source()
    told = merged(one.elements(), other.elements())
    for number in (1, 2, 3):
        one.queue.put_nowait(number)
    found = [await anext(told) for _ in range(2)]
    other.queue.put_nowait(10)
    found += [await anext(told) for _ in range(2)]
    assert sorted(found) == [1, 2, 3, 10]
    assert [number for number in found if number < 10] == [1, 2, 3]
    await told.aclose()
    assert one.closed
    assert other.closed


async def test_a_slow_reader_holds_at_most_one_element_of_each() -> None:
    one, other = Source(), Source()
    for number in range(100):
        one.queue.put_nowait(number)
        other.queue.put_nowait(number)
    told = merged(one.elements(), other.elements())
    await anext(told)
    for _ in range(10):
        await asyncio.sleep(0)
    assert one.taken + other.taken <= 3
    await told.aclose()


@pytest.mark.parametrize("end", [None, ValueError("broken")])
async def test_the_end_of_one_is_the_end_of_both(end: Exception | None) -> None:
    one, other = Source(), Source()
    told = merged(one.elements(), other.elements())
    other.queue.put_nowait(end)
    if end is None:
        assert [number async for number in told] == []
    else:
        with pytest.raises(ValueError, match="broken"):
            await anext(told)
    assert one.closed
    assert other.closed


async def test_a_reader_that_is_cancelled_leaves_nothing_open() -> None:
    one, other = Source(), Source()

    async def read() -> None:
        told = merged(one.elements(), other.elements())
        try:
            await anext(told)
        finally:
            await told.aclose()

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.01)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert one.closed
    assert other.closed
