"""The directory of agents, as the executor lists them, cached for a limited time."""

import asyncio
import contextlib
import contextvars
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.api.executor.v1.executor_pb2_grpc import AgentExecutorStub
from taskplane.gateway.translate.cards import input_modes
from taskplane.runtime.errors import NotFound, Unavailable

# Seconds between two calls for agents that are not known.
_MISS_INTERVAL: Final = 1.0
# Seconds that a list of all agents waits for the executor.
_LIST_PATIENCE: Final = 2.0


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent and its current card. `seen_at` is the time when this card was first seen, in seconds since 1970."""

    name: str
    card: a2a.AgentCard
    is_default: bool
    seen_at: float
    # Whether it supports streaming; true unless its card says otherwise.
    streams: bool
    required_extensions: frozenset[str]
    extensions: frozenset[str]
    input_modes: frozenset[str]


class Agents:
    """A cache of the executor's agents. The first agent that is listed is the default one; its name here is empty."""

    def __init__(self, executor: AgentExecutorStub, age: float) -> None:
        """Create an empty cache with entries that are fresh for `age` seconds."""
        self._executor = executor
        self._age = age
        self._found: Mapping[str, Agent] = {}
        # The extensions that any of them requires.
        self.required_extensions: frozenset[str] = frozenset()
        self._asked_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    def peek(self, name: str) -> Agent | None:
        """Return the cached agent, however old; None if it is not cached."""
        return self._found.get(name)

    def fresh(self, name: str) -> Agent | None:
        """Return the cached agent while the cache is fresh; None if `find` would call the executor."""
        return self._found.get(name) if time.monotonic() - self._asked_at < self._age else None

    async def find(self, name: str) -> Agent:
        """Return the agent with this name, the default one for an empty name.

        Raise NotFound `AGENT_NOT_FOUND`, or Unavailable if nothing is cached and the executor cannot be reached.
        """
        since = time.monotonic() - self._asked_at
        agent = self._found.get(name)
        if agent is None:
            if since >= _MISS_INTERVAL or not self._found:
                await self._ask()
        elif since >= self._age:
            try:
                await self._ask()
            except Unavailable:
                return agent
        agent = self._found.get(name)
        if agent is None:
            raise NotFound(
                f"there is no agent {name or '(default)'}",
                reason="AGENT_NOT_FOUND",
                suggestion=f"the agents are {', '.join(filter(None, self._found))}" if self._found else "",
            )
        return agent

    async def list_all(self) -> Sequence[Agent]:
        """Return all agents, the default one first: those known so far, if any, while the executor does not answer."""
        if not self._found or time.monotonic() - self._asked_at >= self._age:
            with contextlib.suppress(Unavailable, TimeoutError):
                async with asyncio.timeout(_LIST_PATIENCE):
                    await self._ask()
        return [agent for name, agent in self._found.items() if name]

    async def _ask(self) -> None:
        """Load the list, once for all callers that wait; the call outlives a caller that is cancelled."""
        if self._asking is None or self._asking.done():
            # In an empty context, so that the call is made for the gateway and not for the first caller.
            self._asking = asyncio.create_task(self._load(), context=contextvars.Context())
            self._asking.add_done_callback(_retrieve_exception)
        await asyncio.shield(self._asking)

    async def _load(self) -> None:
        listed = (await self._executor.ListAgents(xb.ListAgentsRequest())).agents
        found: dict[str, Agent] = {}
        for index, one in enumerate(listed):
            before = self._found.get(one.name)
            agent = _read(one, is_default=index == 0)
            if before is not None and before.card == agent.card and before.is_default == agent.is_default:
                agent = before
            found[one.name] = agent
            if index == 0:
                found[""] = agent
        self._found = found
        self.required_extensions = frozenset().union(*(agent.required_extensions for agent in found.values()))
        self._asked_at = time.monotonic()


def _retrieve_exception(task: asyncio.Task[None]) -> None:
    """Mark a failure as retrieved, for the case that all waiting callers have left."""
    if not task.cancelled():
        task.exception()


def _read(listed: xb.Agent, *, is_default: bool) -> Agent:
    card = a2a.AgentCard()
    card.CopyFrom(listed.card)
    capabilities = card.capabilities
    extensions = capabilities.extensions
    return Agent(
        listed.name,
        card,
        is_default,
        time.time(),
        capabilities.streaming if capabilities.HasField("streaming") else True,
        frozenset(one.uri for one in extensions if one.required),
        frozenset(one.uri for one in extensions),
        input_modes(card),
    )
