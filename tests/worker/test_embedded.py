"""`taskplane.worker.Worker` in a program, over sockets."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from tests.cli.command import taskplane
from tests.executor.plane import Plane, open_plane, open_stores, text

from taskplane.agents.agent import AgentCard, Change, Complete, Policy, Turn, Working
from taskplane.agents.elsewhere import Elsewhere
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.server import serving
from taskplane.worker import Worker


class Counter:
    """Counts the messages before; after the message `for ever` it runs until it is stopped."""

    card = AgentCard(name="counter", version="1")

    def policy(self, turn: Turn) -> Policy:
        strategy: Literal["queue", "parallel"] = "queue" if turn.text == "in turn" else "parallel"
        limit = 0.2 if turn.text == "for ever" else None
        return Policy(run_limit=limit, isolation="thread", strategy=strategy)

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        yield Working("Counting")
        if turn.text == "for ever":
            await asyncio.Event().wait()
        yield Complete(f"{len(turn.history)} before")


@asynccontextmanager
async def working(directory: Path) -> AsyncGenerator[Plane]:
    """An executor that serves a card, and a worker in this event loop."""
    stop = asyncio.Event()
    async with (
        open_stores(directory) as stores,
        serving(stores.services, f"unix:{directory}/stores", grace=0.1) as server,
        open_plane(stores, ("far", Elsewhere(AgentCard(name="far")))) as plane,
    ):
        worker = Worker(Counter(), name="far", tasks=server.address, sessions=server.address, ops_listen="")
        serve = asyncio.create_task(worker.serve(stop))
        try:
            yield plane
        finally:
            stop.set()
            await serve


async def test_c8_a_worker_in_a_program_runs_agents_under_their_own_policy(tmp_path: Path) -> None:
    """C8, P9: the worker applies the run limit and the isolation of the agent's policy; the conversation is that of the
    session."""
    async with working(tmp_path) as plane:
        first = await plane.run("one")
        assert text(first.status.message) == "0 before"
        assert text((await plane.run("two", context_id=first.context_id)).status.message) == "2 before"
        failed = await plane.run("for ever")
        assert failed.status.state == a2a.TASK_STATE_FAILED
        assert failed.status.message.metadata.fields["reason"].string_value == "RUN_TIMEOUT"


async def test_c8_a_task_waits_until_a_worker_comes(tmp_path: Path) -> None:
    """C8: an executor that has only the card of an agent neither claims nor runs its tasks."""
    async with open_stores(tmp_path) as stores:
        async with open_plane(stores, ("far", Elsewhere(AgentCard(name="far"))), ("near", Counter())) as plane:
            task_id = (await plane.submit("hello")).task.task_id
            # A task that is claimed from the queue, after the other one was passed over.
            begun = await plane.run("in turn", agent="near")
            later = [await plane.submit("in turn", agent="near", context_id=begun.context_id) for _ in range(2)]
            assert (await plane.at_rest(later[-1])).status.state == a2a.TASK_STATE_COMPLETED
            record = await plane.record(task_id)
            assert record.state == a2a.TASK_STATE_SUBMITTED and record.fence == record.attempt == 0
        async with open_plane(stores, ("far", Counter())) as other:
            assert text((await other.reaches(task_id, a2a.TASK_STATE_COMPLETED)).status.message) == "0 before"


def test_a_worker_without_an_agent_exits_2_and_shows_how_to_name_one(tmp_path: Path) -> None:
    done = taskplane("worker", cwd=tmp_path)
    assert done.returncode == 2 and "--agent NAME=MODULE:ATTRIBUTE" in done.stderr
