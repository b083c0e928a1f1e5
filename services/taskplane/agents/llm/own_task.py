"""Changes that are made in one asyncio task of their own, independent of their reader."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Final

from taskplane.agents.agent import Change


class OwnTask:
    """An iterator over the changes of an async generator. The generator runs in one asyncio task from start to end.

    Libraries that keep a scope open across a `yield` need this: a route and the run that continues it are two tasks.
    The generator is at most one change ahead of its reader. A cancelled wait for the next change loses no change.
    """

    def __init__(self, make: Callable[[], AsyncGenerator[Change, None]]) -> None:
        self._make: Final = make
        self._task: asyncio.Task[None] | None = None
        self._changes: deque[Change] = deque()
        self._given = asyncio.Event()
        self._taken = asyncio.Event()
        self._taken.set()

    def __aiter__(self) -> "OwnTask":
        """Return itself."""
        return self

    async def __anext__(self) -> Change:
        """Return the next change. Raises the exceptions of the generator."""
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name="model")
            self._task.add_done_callback(lambda _: self._given.set())
        while not self._changes:
            if self._task.done():
                self._task.result()
                raise StopAsyncIteration
            self._given.clear()
            await self._given.wait()
        change = self._changes.popleft()
        if not self._changes:
            self._taken.set()
        return change

    def put_back(self, changes: Iterable[Change]) -> None:
        """Return these changes, in their order, before the next ones."""
        self._changes.extendleft(reversed(tuple(changes)))

    async def aclose(self) -> None:
        """Cancel the task and wait for its end; a cancellation meanwhile is raised after it."""
        cancelled: asyncio.CancelledError | None = None
        while self._task is not None and not self._task.done():
            self._task.cancel()
            try:
                await asyncio.wait((self._task,))
            except asyncio.CancelledError as error:
                cancelled = error
        if self._task is not None and not self._task.cancelled():
            # Mark a failure while closing as seen.
            self._task.exception()
        if cancelled is not None:
            raise cancelled

    async def _work(self) -> None:
        async with aclosing(self._make()) as changes:
            async for change in changes:
                await self._taken.wait()
                self._taken.clear()
                self._changes.append(change)
                self._given.set()
