"""The agents behind this gateway, as the executor lists them: kept for a while, asked for again when they are old."""

import asyncio
import contextvars
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.api.executor.v1.executor_pb2_grpc import AgentExecutorStub
from taskplane.runtime.errors import NotFound, Unavailable

# Seconds between two questions about agents that are not known.
_MISS_INTERVAL: Final = 1.0


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent as it is now. `seen_at` is when this card was first seen, in seconds since 1970."""

    name: str
    card: a2a.AgentCard
    is_default: bool
    seen_at: float
    # It may be streamed, which is so unless its card says otherwise.
    streams: bool
    required_extensions: frozenset[str]
    extensions: frozenset[str]


class Agents:
    """The directory. The first agent that the executor lists is the default one, found under the empty name."""

    def __init__(self, executor: AgentExecutorStub, age: float) -> None:
        """`age` is how many seconds an answer of the executor counts as new."""
        self._executor = executor
        self._age = age
        self._found: Mapping[str, Agent] = {}
        self._asked_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    def peek(self, name: str) -> Agent | None:
        """The agent as far as it is known already."""
        return self._found.get(name)

    def fresh(self, name: str) -> Agent | None:
        """What `find` returns without asking anybody; None: it asks."""
        return self._found.get(name) if time.monotonic() - self._asked_at < self._age else None

    async def find(self, name: str) -> Agent:
        """The agent; empty: the default one. NotFound `AGENT_NOT_FOUND`. Unavailable: nothing is known yet and the
        executor cannot be reached."""
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
            raise NotFound(f"there is no agent {name or '(default)'}", reason="AGENT_NOT_FOUND")
        return agent

    async def _ask(self) -> None:
        """One question at a time, however many wait for its answer; it outlives a caller that goes away."""
        if self._asking is None or self._asking.done():
            # As the gateway itself, whoever happens to ask first.
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
        self._asked_at = time.monotonic()


def _retrieve_exception(task: asyncio.Task[None]) -> None:
    """Takes notice of a failure whose askers have all gone."""
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
    )
