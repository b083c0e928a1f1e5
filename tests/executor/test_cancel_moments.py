"""A cancel at any moment of a turn: the agent's code is closed, and nothing follows the end of the task."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence

import pytest
from tests.executor.plane import Stores, open_plane, until
from tests.support.thorough import THOROUGH

from taskplane.agents.agent import (
    AgentCard,
    ArtifactChunk,
    Change,
    Checkpoint,
    Complete,
    Say,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.errors import Refused

pytestmark = pytest.mark.more

ROUNDS = 100 if THOROUGH else 8
ENDED = (a2a.TASK_STATE_CANCELED, a2a.TASK_STATE_COMPLETED)


class Busy:
    """Has every phase of a turn, each of random length. Counts what is open."""

    card = AgentCard(name="busy", version="1")

    def __init__(self, chance: random.Random) -> None:
        self.open = 0
        self._chance = chance

    async def rest(self) -> None:
        await asyncio.sleep(self._chance.choice((0, 0, 0.001, 0.003)))

    async def route(self, turn: Turn) -> AsyncIterator[Change] | None:
        await self.rest()
        return self.run(turn) if turn.text == "routed" else None

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        self.open += 1
        try:
            for count in range(3):
                yield Text(f"word {count} ")
                await self.rest()
            if turn.text == "held":
                await asyncio.Event().wait()
            yield ToolCall(id="1", name="search", args={})
            await self.rest()
            yield ToolResult(id="1", name="search", response="nothing")
            yield Checkpoint({"at": 1})
            yield Say("so far")
            await turn.session.events()
            if turn.text == "natural":
                async for change in self.chunks():
                    yield change
            yield Complete("well")
        finally:
            self.open -= 1

    async def make_artifact(self, turn: Turn) -> AsyncIterator[Change]:
        async for change in self.chunks():
            yield change

    async def chunks(self) -> AsyncIterator[Change]:
        self.open += 1
        try:
            for count in range(5):
                await self.rest()
                yield ArtifactChunk("a", text=f"{count} ", append=count > 0, last=count == 4)
        finally:
            self.open -= 1

    async def status_text(self, turn: Turn, recent: Sequence[str]) -> str | None:
        self.open += 1
        try:
            await self.rest()
            return str(self._chance.random())
        finally:
            self.open -= 1


@pytest.mark.parametrize("seed", range(2))
async def test_a_cancel_at_any_moment_closes_everything(stores: Stores, seed: int) -> None:
    """P8, C7: while a router continues inside a task, in a tool, in a stream, in an artifact and between: the task is
    canceled, or had completed, and the log ends with that."""
    chance = random.Random(seed)
    agent = Busy(chance)
    seen: set[int] = set()
    async with open_plane(stores, ("a", agent), route_timeout=0.001, status_interval=0.002) as plane:
        for count in range(ROUNDS // 2):
            # A task that ends by its cancel only: all others may be faster.
            waiting = await plane.submit(chance.choice(("routed", "natural", "forced")) if count else "held")
            await asyncio.sleep(chance.uniform(0, 0.04))
            task_id = waiting.task.task_id
            try:
                await plane.stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=task_id))
            except Refused as error:
                assert error.reason == "TERMINAL"
            await until(lambda: not plane.service.runs.active)
            assert agent.open == 0
            (*_, last) = await plane.events(task_id)
            state = last.event.status_update.status.state
            assert last.kind == tasks.EVENT_KIND_STATUS and state in ENDED
            assert (await plane.task(task_id)).status.state == state
            seen.add(state)
    assert a2a.TASK_STATE_CANCELED in seen
