"""Exits of the code of agents: `sys.exit()` in an asyncio task of an agent is a failure of that task alone.

asyncio hands SystemExit and KeyboardInterrupt of any task on to whoever runs the event loop, which would end the
process. Tasks inherit the context in which they are made, so those of agents are known by a context variable. Callbacks
(`call_soon`) have no such place.
"""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

_agent: ContextVar[str] = ContextVar("taskplane_agent", default="")
_EXITS: Final = (SystemExit, KeyboardInterrupt)


class AgentExit(RuntimeError):
    """A task that an agent made raised SystemExit or KeyboardInterrupt, which is the cause."""


@contextmanager
def within_agent(name: str) -> Generator[None]:
    """Mark what is done within as the code of an agent, and so every task that is made there."""
    token = _agent.set(name)
    try:
        yield
    finally:
        _agent.reset(token)


def contain_exits(loop: asyncio.AbstractEventLoop) -> None:
    """Have tasks of agents in this loop raise AgentExit instead of exits.

    A loop that has a task factory already is left as it is.
    """
    if loop.get_task_factory() is None:
        loop.set_task_factory(_task)


def _task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any], **options: Any
) -> "asyncio.Task[Any]":
    context = options.get("context")
    agent = _agent.get() if context is None else context.get(_agent, "")
    if agent and isinstance(coroutine, Coroutine):
        coroutine = _Contained(coroutine, agent)
    return asyncio.Task(coroutine, loop=loop, **options)


class _Contained(Coroutine[Any, Any, Any]):
    """A coroutine of an agent. No coroutine function, since one that never began would leave the other unawaited."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], agent: str) -> None:
        self._coroutine = coroutine
        self._agent = agent

    def send(self, value: Any) -> Any:
        try:
            return self._coroutine.send(value)
        except _EXITS as error:
            raise self._exit(error) from error

    def throw(self, *error: Any) -> Any:
        try:
            return self._coroutine.throw(*error)
        except _EXITS as exit_:
            raise self._exit(exit_) from exit_

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        # Its name, frame and code, which asyncio shows.
        return getattr(self._coroutine, name)

    def _exit(self, error: BaseException) -> AgentExit:
        return AgentExit(f"a task of agent {self._agent} raised {error!r}")
