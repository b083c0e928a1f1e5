"""An agent whose changes are recorded on their way to the executor, and held up where a test wants to act."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from dataclasses import replace
from typing import Any, Final, cast

from taskplane.agents.agent import Agent, Change, Policy, Turn

Wanted = Callable[[Change], bool]

_ATTRIBUTES: Final = ("status_text", "extended_card", "routes_at_sight")


class Recorder:
    """The changes of an agent, in the order in which it yielded them. Belongs to one event loop."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        # The newest exception of the agent.
        self.error: BaseException | None = None
        self._loop = asyncio.get_running_loop()
        self._wanted: Wanted | None = None
        self._found: asyncio.Future[Change] = self._loop.create_future()
        self._go: asyncio.Future[None] | None = None

    def look_for(self, wanted: Wanted) -> "asyncio.Future[Change]":
        """Hold the agent at the next change that is wanted; that change is the result of the future."""
        self._found = self._loop.create_future()
        self._wanted = wanted
        self.let_go()
        return self._found

    def let_go(self) -> None:
        """Let the agent continue."""
        if self._go is not None and not self._go.done():
            self._go.set_result(None)

    async def take(self, change: Change) -> None:
        """Record a change. Called in the loop in which the agent runs."""
        if asyncio.get_running_loop() is self._loop:
            await self._take(change)
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._take(change), self._loop))

    def take_blocking(self, change: Change) -> None:
        """Record a change. Called in another thread than that of the loop."""
        asyncio.run_coroutine_threadsafe(self._take(change), self._loop).result()

    async def _take(self, change: Change) -> None:
        self.changes.append(change)
        if self._wanted is not None and self._wanted(change):
            self._wanted = None
            self._go = self._loop.create_future()
            self._found.set_result(change)
            await self._go


def recorded(agent: Agent, recorder: Recorder) -> Agent:
    """Return an agent with the same optional methods and behaviour as `agent`.

    With the isolation "process" the agent gets a thread: only agents that are loaded by name can have a process.
    """
    # Optional methods are found by `isinstance`, which looks for them in the class.
    members: dict[str, Any] = {"card": agent.card}
    given: Any = agent
    for name in _ATTRIBUTES:
        if hasattr(given, name):
            attribute = getattr(given, name)
            members[name] = staticmethod(attribute) if callable(attribute) else attribute

    def run(turn: Turn) -> Any:
        return _followed(_called(recorder, given.run, turn), recorder)

    def run_in_thread(turn: Turn) -> Generator[Change]:
        yield from _followed(given.run(turn), recorder)

    async def route(turn: Turn) -> Any:
        try:
            found = given.route(turn)
            return _followed(await found if inspect.isawaitable(found) else found, recorder)
        except Exception as error:
            recorder.error = error
            raise

    def make_artifact(turn: Turn) -> Any:
        return _followed(_called(recorder, given.make_artifact, turn), recorder)

    def policy(turn: Turn) -> Any:
        found = _called(recorder, given.policy, turn)
        in_process = isinstance(found, Policy) and found.isolation == "process"
        return replace(found, isolation="thread") if in_process else found

    members["run"] = staticmethod(run_in_thread if inspect.isgeneratorfunction(given.run) else run)
    for method in (route, make_artifact, policy):
        if hasattr(given, method.__name__):
            members[method.__name__] = staticmethod(method)
    made: Any = type(type(given).__name__, (), members)
    return cast("Agent", made())


def _called(recorder: Recorder, call: Callable[[Turn], Any], turn: Turn) -> Any:
    try:
        return call(turn)
    except Exception as error:
        recorder.error = error
        raise


def _followed(changes: object, recorder: Recorder) -> Any:
    if isinstance(changes, AsyncIterator):
        return _Followed(cast("AsyncIterator[Change]", changes), recorder)
    if isinstance(changes, Iterator):
        return _stepwise(cast("Iterator[Change]", changes), recorder)
    return changes


def _stepwise(changes: Iterator[Change], recorder: Recorder) -> Generator[Change]:
    try:
        for change in changes:
            recorder.take_blocking(change)
            yield change
    except Exception as error:
        recorder.error = error
        raise
    finally:
        close = getattr(changes, "close", None)
        if close is not None:
            close()


class _Followed(AsyncGenerator[Change, None]):
    """An iterator of an agent, with every change recorded."""

    def __init__(self, changes: AsyncIterator[Change], recorder: Recorder) -> None:
        self._changes = self.yielding = changes
        self._recorder = recorder

    async def asend(self, value: None) -> Change:
        return await self._next(anext(self._changes))

    async def athrow(self, typ: Any, val: Any = None, tb: Any = None) -> Change:
        throw = getattr(self._changes, "athrow", None)
        if throw is None:
            raise typ
        return await self._next(throw(typ))

    async def aclose(self) -> None:
        close = getattr(self._changes, "aclose", None)
        if close is not None:
            await close()

    async def _next(self, step: Any) -> Change:
        try:
            change: Change = await step
        except StopAsyncIteration:
            raise
        except Exception as error:
            self._recorder.error = error
            raise
        await self._recorder.take(change)
        return change
