"""The merge of two streams into one."""

import asyncio
from collections.abc import AsyncGenerator
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


async def merged(one: AsyncGenerator[A, None], other: AsyncGenerator[B, None]) -> AsyncGenerator[A | B, None]:
    """Yield the elements of both streams as they arrive until either ends, then close both. The order within each
    stream is kept. At most one element of each is buffered."""
    sources: tuple[AsyncGenerator[A | B, None], ...] = (one, other)
    waiting = {asyncio.ensure_future(anext(source)): source for source in sources}
    try:
        while True:
            ready, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            # The order is fixed if both are ready.
            for task in [task for task in waiting if task in ready]:
                source = waiting.pop(task)
                try:
                    element = task.result()
                except StopAsyncIteration:
                    return
                yield element
                waiting[asyncio.ensure_future(anext(source))] = source
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for source in sources:
            await source.aclose()
