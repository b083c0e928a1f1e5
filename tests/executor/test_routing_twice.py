"""One keyed message at two executors at once, while a router thinks."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest
from tests.executor.plane import Stores, open_plane, open_stores, text, until

from taskplane.agents.agent import AgentCard, Change, Text, Turn


@pytest.fixture
async def stores(tmp_path: Path, database_url: str) -> AsyncGenerator[Stores, None]:
    """Both stores, on either engine."""
    async with open_stores(tmp_path, database_url=database_url) as opened:
        yield opened


class Thinking:
    """A router that waits for the test, and counts its calls; shared by both executors."""

    card = AgentCard(name="thinking", version="1")

    def __init__(self) -> None:
        self.asked = 0
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()

    async def route(self, turn: Turn) -> str | AsyncIterator[Change]:
        self.asked += 1
        number = self.asked
        self.begun.set()
        await self.let_go.wait()
        return f"answer {number}" if turn.text == "answer" else self.model(number)

    async def model(self, number: int) -> AsyncIterator[Change]:
        yield Text(f"model {number}")

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        yield Text("run")


async def test_two_executors_ask_a_router_once(stores: Stores) -> None:
    """P2, C10: the repeat waits for the decision of the first executor, and gets the same answer."""
    agent = Thinking()
    async with open_plane(stores, ("a", agent)) as near, open_plane(stores, ("a", agent)) as far:
        first = asyncio.create_task(near.submit("answer", key="k", message_id="m", context_id="c"))
        await agent.begun.wait()
        second = asyncio.create_task(far.submit("answer", key="k", message_id="m", context_id="c"))
        await until(lambda: stores.calls.get("ListEntries", 0) > 0)
        agent.let_go.set()
        assert [text(reply.message) for reply in await asyncio.gather(first, second)] == ["answer 1"] * 2
        assert agent.asked == 1


async def test_a_repeat_at_another_executor_does_not_stop_the_work_that_a_router_began(stores: Stores) -> None:
    """P2, C10: the repeat comes between the decision and the task; the model is asked once."""
    agent = Thinking()
    looked = asyncio.Event()

    async def hold(_: object) -> None:
        # Only the first executor comes here; the other one creates nothing before it.
        del stores.channel.before["CreateTask"]
        await looked.wait()

    async def look(_: object) -> None:
        looked.set()

    stores.channel.before |= {"CreateTask": hold, "GetTask": look}
    async with open_plane(stores, ("a", agent)) as near, open_plane(stores, ("a", agent)) as far:
        agent.let_go.set()
        first = asyncio.create_task(near.submit("task", key="k", message_id="m", context_id="c"))
        await until(lambda: "CreateTask" not in stores.channel.before)
        second = asyncio.create_task(far.submit("task", key="k", message_id="m", context_id="c"))
        one, two = await asyncio.gather(first, second)
        assert one.task.task_id == two.task.task_id
        assert text((await near.at_rest(one)).status.message) == "model 1"
        assert agent.asked == 1


async def test_a_router_is_asked_by_another_executor_after_the_route_timeout(stores: Stores) -> None:
    """C10: both sends get the same answer."""
    agent = Thinking()
    async with (
        open_plane(stores, ("a", agent), route_timeout=0.2) as far,
        open_plane(stores, ("a", agent), route_timeout=60.0) as near,
    ):
        first = asyncio.create_task(near.submit("answer", key="k", message_id="m", context_id="c"))
        await agent.begun.wait()
        second = asyncio.create_task(far.submit("answer", key="k", message_id="m", context_id="c"))
        await until(lambda: agent.asked > 1)
        agent.let_go.set()
        assert len({text(reply.message) for reply in await asyncio.gather(first, second)}) == 1
