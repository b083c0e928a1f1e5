"""Two and three replicas on one database, where those of the SDK run a task twice and miss a cancel."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from a2a.server.agent_execution import AgentExecutor
from bench.counting import bytes_counted
from bench.peer import Workloads
from sqlalchemy import Connection, text
from tests.conformance.test_task_store_cost import statements
from tests.gateway.plane import open_all
from tests.peer.peers import (
    WHOLE,
    AskingAgent,
    Executions,
    Held,
    HeldAgent,
    PiecesAgent,
    begun,
    bytes_per_chunk,
    in_state,
    joined,
    sdk_replicas,
    streamed,
)
from tests.support.databases import copied
from tests.support.postgres import Cluster
from tests.system.wire import call, client, result, send, text_message, until

from taskplane.agents.agent import Agent
from taskplane.agents.demo import Demo
from taskplane.storage.engine import open_engine

pytestmark = pytest.mark.more

CHUNKS = 2_000
ROUNDS = 3
CANCELED = "TASK_STATE_CANCELED"


@pytest.fixture
async def url(cluster: Cluster) -> AsyncGenerator[str]:
    """A database with the schemas of a plane."""
    async with copied(cluster) as url:
        yield url


@asynccontextmanager
async def clients(urls: Sequence[str]) -> AsyncGenerator[list[httpx.AsyncClient]]:
    """A client of each server."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(client(url)) for url in urls]


@asynccontextmanager
async def replicas(url: str, folder: Path, *agents: Agent) -> AsyncGenerator[list[httpx.AsyncClient]]:
    """Clients of a whole plane for each agent, all on one database."""
    async with AsyncExitStack() as stack:
        opened = [open_all(folder, ("demo", agent), database_url=url) for agent in agents]
        planes = [await stack.enter_async_context(each) for each in opened]
        yield await stack.enter_async_context(clients([plane.gateway.url for plane in planes]))


@asynccontextmanager
async def sdk(folder: Path, *executors: AgentExecutor) -> AsyncGenerator[list[httpx.AsyncClient]]:
    """Clients of replicas of the SDK's server."""
    async with sdk_replicas(folder / "sdk.db", *executors) as peers, clients([peer.url for peer in peers]) as found:
        yield found


async def test_w2_three_replicas_add_nothing_to_the_cost_of_an_event(url: str, tmp_path: Path) -> None:
    """W2: neither bytes nor statements, of which 2,000 chunks take fewer than 2,000, those of the idle replicas
    included. There each chunk takes more than three."""
    with bytes_counted():
        async with replicas(url, tmp_path, Demo(), Demo(), Demo()) as (http, *_):
            short = await bytes_per_chunk(http, 250)
            with statements() as seen:
                long = await bytes_per_chunk(http, CHUNKS)
    async with sdk(tmp_path, *(Workloads() for _ in range(3))) as (http, *_):
        with statements() as seen_there:
            await streamed(http, "chunks 50 60")
    print(f"{short:.0f} and {long:.0f} bytes for an event, {len(seen)} statements; there {len(seen_there)} for 50")
    assert long < 1.05 * short
    assert len(seen) < CHUNKS
    assert len(seen_there) > 3 * 50


async def test_w5_a_task_runs_once_at_a_time_whichever_replica_its_messages_reach(url: str, tmp_path: Path) -> None:
    """W5: its log has the events of one fence after those of the one before. There a message at another replica
    begins a second execution beside the first."""
    seen = Executions()
    async with replicas(url, tmp_path, AskingAgent(seen), AskingAgent(seen)) as both, open_engine(url) as engine:
        tasks = [(await send(both[0], "begin"))["task"]["id"] for _ in range(3)]
        for number in range(ROUNDS):
            await asyncio.gather(*(send(http, f"{number}", taskId=task_id) for task_id in tasks for http in both))
        fences = await engine.read(fences_by_task)
    assert (seen.most, len(fences)) == (1, 3)
    for found in fences.values():
        assert found == sorted(found) and len(set(found)) > ROUNDS
    there = Executions()
    async with sdk(tmp_path, Held(there), Held(there)) as (near, far):
        task = await begun(near, "begin")
        message = text_message("go on", taskId=task["id"], contextId=task["contextId"])
        second = asyncio.create_task(call(far, "SendMessage", {"message": message}))
        await until(partial(there.at_work, task["id"], 2))
        there.open.set()
        await second
    assert there.most == 2


def fences_by_task(conn: Connection) -> dict[str, list[int]]:
    """The fences of the events of each task that a run wrote, in the order of the log."""
    found: dict[str, list[int]] = {}
    for uid, fence in conn.execute(text("SELECT task_uid, fence FROM event ORDER BY task_uid, generation")):
        if fence:
            found.setdefault(uid, []).append(fence)
    return found


async def test_w6_a_cancel_at_another_replica_stops_the_run(url: str, tmp_path: Path) -> None:
    """W6: which has no effect any more. There its executor is never told, and goes on."""
    seen, there = Executions(), Executions()
    async with replicas(url, tmp_path, HeldAgent(seen), HeldAgent(seen)) as (near, far):
        task_id = await cancelled_from_afar(near, far, seen)
        await until(partial(seen.at_work, task_id, 0))
        seen.open.set()
        assert await in_state(near, task_id, CANCELED)
    assert (seen.begun, seen.cancels, seen.effects) == (1, 1, 0)
    async with sdk(tmp_path, Held(there), Held(there)) as (near, far):
        task_id = await cancelled_from_afar(near, far, there)
        there.open.set()
        await until(partial(there.at_work, task_id, 0))
    assert (there.cancels, there.effects) == (0, 1)


async def cancelled_from_afar(near: httpx.AsyncClient, far: httpx.AsyncClient, seen: Executions) -> str:
    """Begin a task at one replica and cancel it at the other; its id."""
    task_id: str = (await begun(near, "begin"))["id"]
    await until(partial(seen.at_work, task_id, 1))
    assert (await result(far, "CancelTask", {"id": task_id}))["status"]["state"] == CANCELED
    return task_id


async def test_w7_a_follow_up_with_the_task_id_alone_is_answered_at_any_replica(url: str, tmp_path: Path) -> None:
    """W7: 20 of 20, in their contexts."""
    async with replicas(url, tmp_path, Demo(), Demo()) as (near, far):
        asked = await asyncio.gather(*(send(near, "ask") for _ in range(20)))
        answers = await asyncio.gather(*(send(far, "blue", taskId=each["task"]["id"]) for each in asked))
        for before, after in zip(asked, answers, strict=True):
            assert after["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
            assert after["task"]["contextId"] == before["task"]["contextId"]


async def test_w9_a_reader_that_joins_at_another_replica_has_each_piece_once(url: str, tmp_path: Path) -> None:
    """W9: 50 readers at random moments of a stream of 200 pieces."""
    seen = Executions()
    async with replicas(url, tmp_path, PiecesAgent(seen), PiecesAgent(seen)) as (near, far):
        assert await joined(near, far, seen, 50) == [WHOLE] * 50
