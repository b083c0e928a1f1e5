"""Runs of agents beside the event loop of the process: each in a thread with an event loop of its own.

So may run what blocks: a `run` that is a plain generator always does, any other if the policy or the operator says so.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, Final, TypeVar

from taskplane.executor import agent as port
from taskplane.executor.hosted import Hosted

T = TypeVar("T")

THREAD: Final = "taskplane-agent"
"""The beginning of the names of the threads."""
_END: Final = object()

_Begin = Callable[[port.Turn], AsyncIterator[port.Change] | Iterator[port.Change]]


def changes_of(hosted: Hosted, turn: port.Turn, policy: port.Policy) -> AsyncIterator[port.Change]:
    """Begin a run of an agent where it is to run. Raises what the agent raises."""
    if hosted.is_synchronous or "thread" in (hosted.isolation, policy.isolation):
        return _ThreadedRun(hosted.name, turn, hosted.agent.run)
    changes = hosted.agent.run(turn)
    if isinstance(changes, Iterator):
        return _ThreadedRun(hosted.name, turn, lambda _: changes)
    return changes


async def _stepwise(changes: Iterator[port.Change]) -> AsyncGenerator[port.Change]:
    """Yield from a plain generator, and close it."""
    try:
        for change in changes:
            yield change
    finally:
        close = getattr(changes, "close", None)
        if close is not None:
            close()


class _Exited:
    """An exception that would end a thread's event loop if it were raised there."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _ThreadedRun(AsyncIterator[port.Change]):
    """The changes of an agent that runs in a thread of its own, which goes on between two of them."""

    def __init__(self, name: str, turn: port.Turn, begin: _Begin) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, name=f"{THREAD}-{name}", daemon=True)
        self._thread.start()
        self._given = turn
        self._here = asyncio.get_running_loop()
        self._begin = begin
        self._changes: AsyncIterator[port.Change] | None = None
        self._watching: asyncio.Task[None] | None = None
        # The thread's task that waits for the next change.
        self._stepping: asyncio.Task[Any] | None = None

    async def __anext__(self) -> port.Change:
        change = await self._there(self._step)
        if change is _END:
            raise StopAsyncIteration
        if isinstance(change, _Exited):
            raise change.error
        return change  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """Close what the agent yields from, and end the thread. Waits while the agent blocks."""
        if self._loop.is_closed():
            return
        if self._watching is not None:
            self._watching.cancel()
        try:
            await self._there(self._close)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)

    async def _there(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call(), self._loop))

    async def _step(self) -> Any:
        self._stepping = asyncio.current_task()
        try:
            if self._changes is None:
                changes = self._begin(self._turn())
                self._changes = _stepwise(changes) if isinstance(changes, Iterator) else changes
            return await anext(self._changes, _END)
        except (SystemExit, KeyboardInterrupt) as error:
            return _Exited(error)

    async def _close(self) -> None:
        if self._stepping is not None:
            # It may have been canceled, and an agent that cleans up cannot be closed meanwhile.
            await asyncio.wait([self._stepping])
        close = getattr(self._changes, "aclose", None)
        if close is not None:
            await close()

    def _turn(self) -> port.Turn:
        """Return the turn as the thread's loop may use it."""
        cancelled = asyncio.Event()

        async def watch() -> None:
            await self._given.cancelled.wait()
            self._loop.call_soon_threadsafe(cancelled.set)

        def begin() -> None:
            self._watching = self._here.create_task(watch())

        async def read_incoming() -> list[port.Message]:
            reading: Awaitable[list[port.Message]] = self._given.read_incoming()
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_awaited(reading), self._here))

        self._here.call_soon_threadsafe(begin)
        return replace(self._given, cancelled=cancelled, read_incoming=read_incoming)

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
