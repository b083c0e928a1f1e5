"""Runs of agents in another event loop. Each `ThreadedRun` also has a thread of its own."""

import asyncio
import concurrent.futures
import contextvars
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

from taskplane.agents import agent as port
from taskplane.agents.asked_calls import Ask, AskedCalls
from taskplane.runtime.loops import complete

T = TypeVar("T")

THREAD: Final = "taskplane-agent"
"""The prefix of the names of the threads."""
_END: Final = object()

Begin = Callable[[port.Turn], AsyncIterator[port.Change] | Iterator[port.Change]]


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
    """An exception that an asyncio task must not raise: it would end the event loop, or lose its traceback."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Cancelled(asyncio.Event):
    """An event whose `is_set` also works while the agent blocks the loop: it asks the original event."""

    def __init__(self, original: asyncio.Event) -> None:
        super().__init__()
        self._original = original

    def is_set(self) -> bool:
        return self._original.is_set() or super().is_set()


class RunElsewhere(AsyncIterator[port.Change]):
    """The changes of an agent that runs in another event loop. Between two changes that loop runs its other tasks.

    All steps of a run have one context, so that an agent may set a context variable before a `yield` and reset it after
    the `yield`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, turn: port.Turn, begin: Begin) -> None:
        self._loop = loop
        self._turn = turn
        self._home_loop = asyncio.get_running_loop()
        self._begin = begin
        self._context = contextvars.copy_context()
        self._changes: AsyncIterator[port.Change] | None = None
        # The generator of the agent: it shows the line at which the agent waits.
        self.yielding: object = None
        self._watching: asyncio.Task[None] | None = None
        # The task in the other loop that waits for the next change.
        self._stepping: asyncio.Task[Any] | None = None

    async def __anext__(self) -> port.Change:
        change = await self._run_in_loop(self._step)
        if change is _END:
            raise StopAsyncIteration
        if isinstance(change, _Exited):
            raise change.error
        return change  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """Close the iterator of the agent. Waits while the agent blocks."""
        self._stop_watching()
        await self._run_in_loop(self._close)

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _run_in_loop(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async def within() -> T:
            return await self._loop.create_task(call(), context=self._context)

        return await asyncio.wrap_future(self._hand_over(within()))

    def _hand_over(self, coroutine: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    async def _step(self) -> Any:
        self._stepping = step = asyncio.current_task()
        try:
            if self._changes is None:
                changes = self._begin(self._turn_in_loop())
                self.yielding = getattr(changes, "yielding", changes)
                self._changes = _stepwise(changes) if isinstance(changes, Iterator) else changes
            return await anext(self._changes, _END)
        except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
            return _Exited(error)
        except asyncio.CancelledError as error:
            if step is not None and step.cancelling():
                raise
            return _Exited(error)

    async def _close(self) -> None:
        if self._stepping is not None:
            # The step may be canceled but not finished: a generator that still runs cannot be closed.
            await asyncio.wait([self._stepping])
        close = getattr(self._changes, "aclose", None)
        if close is None:
            return
        try:
            await close()
        except GeneratorExit as error:
            # A GeneratorExit would close the generator of the caller.
            raise RuntimeError("the agent raised GeneratorExit while closing") from error

    def _turn_in_loop(self) -> port.Turn:
        """Return the turn for use in the other loop."""
        cancelled = _Cancelled(self._turn.cancelled)

        async def watch() -> None:
            await self._turn.cancelled.wait()
            self._loop.call_soon_threadsafe(cancelled.set)

        def start_watching() -> None:
            self._watching = self._home_loop.create_task(watch())

        self._home_loop.call_soon_threadsafe(start_watching)
        return replace(self._turn, cancelled=cancelled, calls=AskedCalls(_asking(self._turn.calls, self._home_loop)))


class ThreadedRun(RunElsewhere):
    """A run in a thread and an event loop of its own. Both end with the run."""

    def __init__(self, name: str, turn: port.Turn, begin: Begin) -> None:
        super().__init__(asyncio.new_event_loop(), turn, begin)
        self._over = self._loop.create_future()
        self._ending = threading.Lock()
        self._ended = False
        threading.Thread(target=self._live, name=f"{THREAD}-{name}", daemon=True).start()

    async def aclose(self) -> None:
        """Close the iterator of the agent, and end the thread. Waits while the agent blocks."""
        if self._ended:
            self._stop_watching()
            return
        try:
            await super().aclose()
        finally:
            # A second call at the same time may find the loop closed.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(end, self._over)

    def _hand_over(self, coroutine: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        with self._ending:
            if not self._ended:
                return super()._hand_over(coroutine)
        coroutine.close()
        raise RuntimeError("the event loop of the agent has ended")

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            complete(self._loop, self._over)
            with self._ending:
                self._ended = True
            wind_down(self._loop)
        finally:
            self._loop.close()


def end(over: "asyncio.Future[None]") -> None:
    """Let the thread that runs `complete(loop, over)` end. Called in that loop."""
    if not over.done():
        over.set_result(None)


def wind_down(loop: asyncio.AbstractEventLoop) -> None:
    """Start calls that were handed over, cancel all tasks, and wait until they have ended."""
    # One cycle of the loop makes tasks of the calls that were handed over.
    complete(loop, loop.create_task(asyncio.sleep(0)))
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    complete(loop, asyncio.gather(*left, return_exceptions=True))
    complete(loop, loop.create_task(loop.shutdown_asyncgens()))


def _asking(calls: port.TurnCalls, loop: asyncio.AbstractEventLoop) -> Ask:
    """Return a function that makes the calls of a turn in `loop`, the loop of the plane."""

    async def ask(method: str, *arguments: Any) -> Any:
        call = getattr(calls, method)(*arguments)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, loop))

    return ask
