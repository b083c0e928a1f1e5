"""Cancels of the llm agent over HTTP, in every phase of a turn and at random moments."""

import asyncio
import logging
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import CoroutineType

import pytest
from tests.executor.plane import Held, open_stores, until
from tests.gateway.llm_rounds import LATE, MOMENTS, Round, log_of, open_round, open_servers
from tests.gateway.plane import Json, open_behind, open_front
from tests.support.databases import copied
from tests.support.postgres import Cluster
from tests.support.thorough import THOROUGH

from taskplane.executor.runs.run import Run

pytestmark = [pytest.mark.more, pytest.mark.one_engine]

log = logging.getLogger(__name__)

TIMES = 100 if THOROUGH else 12
CANCELED = "TASK_STATE_CANCELED"
NOT_CANCELABLE = -32002


async def test_a_cancel_at_any_moment_closes_everything_and_ends_the_log(
    tmp_path: Path, engine_name: str, database_url: str
) -> None:
    """P8, P11, P13, C7: the connection to the model is closed, tool servers are stopped, the task stays canceled, and
    neither its log nor its streams continue. A blocked thread ends later without an effect."""
    seed = random.randrange(1_000_000)
    chosen = random.Random(seed)
    settings = {"status_interval": 0.02, "route_timeout": 60.0}
    figures = Figures()
    async with (
        open_servers(tmp_path) as servers,
        open_behind(tmp_path, ("llm", servers.agent), database_url=database_url, executor=settings) as behind,
        open_front(behind) as plane,
    ):
        canceled: dict[str, list[Json]] = {}
        for number in range(TIMES * 2):
            moment = MOMENTS[number % len(MOMENTS)]
            async with open_round(plane, servers, moment) as turn:
                await asyncio.sleep(chosen.uniform(0, 0.6 if moment == "between" else 0.05))
                at = time.monotonic()
                answer = await plane.rpc("CancelTask", {"id": turn.task_id})
                if "error" in answer:
                    assert (moment, answer["error"]["code"]) == ("between", NOT_CANCELABLE), (seed, number, answer)
                    continue
                assert answer["result"]["status"]["state"] == CANCELED, (seed, number)
                async with asyncio.timeout(30):
                    await asyncio.gather(*turn.readers)
                await until(lambda: all(each.answered or each.closed.is_set() for each in turn.requests))
                figures.add(moment, [each.closed_at - at for each in turn.requests if not each.answered])
                await until(lambda: not servers.looking and not servers.running())
                figures.gone.append(time.monotonic() - at)
                await until(lambda: not behind.executor.runs.active)
                assert ("thread" in servers.tools.inside) == (moment == "thread"), (seed, number)
            await until(lambda: not servers.tools.inside)
            canceled[turn.task_id] = await log_of(plane, turn.task_id)
            assert_ends_canceled(turn, canceled[turn.task_id])
            if len(canceled) == TIMES:
                break
        for task_id, before in canceled.items():
            assert (await plane.result("GetTask", {"id": task_id}))["status"]["state"] == CANCELED
            assert await log_of(plane, task_id) == before
        await until(lambda: not left_behind())
        assert servers.tools.finished == sum(moment == "thread" for moment in figures.moments)
        assert len(servers.processes()) >= figures.moments.count("stdio")
    log.warning("%s, %d cancels: %s", engine_name, len(canceled), figures)


class Figures:
    """Seconds from a cancel until connections to the model were closed, and until tool servers were stopped."""

    def __init__(self) -> None:
        self.moments: list[str] = []
        self.closed: list[float] = []
        self.gone: list[float] = []

    def add(self, moment: str, closed: Sequence[float]) -> None:
        self.moments.append(moment)
        self.closed += closed

    def __str__(self) -> str:
        def summary(values: list[float]) -> str:
            return f"{len(values)}, p50 {statistics.median(values):.3f} s, max {max(values):.3f} s"

        return f"open connections {summary(self.closed)}; servers of tools {summary(self.gone)}"


def left_behind() -> list[str]:
    """Return the running asyncio tasks of agents and of clients of tool servers."""
    coroutines = [task.get_coro() for task in asyncio.all_tasks()]
    files = [each.cr_code.co_filename for each in coroutines if isinstance(each, CoroutineType)]
    return [file for file in files if "fastmcp" in file or "taskplane/agents" in file]


def assert_ends_canceled(turn: Round, logged: Sequence[Json]) -> None:
    """Assert that each stream and the log end with the cancel, and have no other end."""
    assert LATE not in str(logged)
    numbers = [event["generation"] for event in logged]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [event.data for event in turn.streams[2]] == logged
    for events in (*([event.result for event in each] for each in turn.streams[:2]), [e["event"] for e in logged]):
        states = [(each or {}).get("statusUpdate", {}).get("status", {}).get("state") for each in events]
        assert states[-1] == CANCELED and states.count(CANCELED) == 1
        assert "TASK_STATE_COMPLETED" not in states and "TASK_STATE_FAILED" not in states


async def test_a_cancel_at_another_gateway_and_store_closes_everything(tmp_path: Path, cluster: Cluster) -> None:
    """P8, C11: renewals and polls are too rare here to carry the cancel to the executor."""
    slow = {"lease_ttl": 120.0, "renew_every": 60.0, "poll_every": 60.0}
    settings = {"route_timeout": 60.0, "renew_every": 60.0}
    async with (
        open_servers(tmp_path) as servers,
        copied(cluster) as url,
        open_behind(tmp_path, ("llm", servers.agent), database_url=url, tasks=slow, executor=settings) as behind,
        open_stores(tmp_path, database_url=url, **slow) as elsewhere,
        open_front(behind) as near,
        open_front(replace(behind, stores=elsewhere)) as far,
    ):
        for moment in ("routing", "stdio", "forced"):
            async with open_round(near, servers, moment) as turn:
                answer = await far.result("CancelTask", {"id": turn.task_id})
                assert answer["status"]["state"] == CANCELED
                async with asyncio.timeout(30):
                    await asyncio.gather(*turn.readers)
                await until(lambda: all(each.answered or each.closed.is_set() for each in turn.requests))
                await until(lambda: not servers.running() and not behind.executor.runs.active)
            assert_ends_canceled(turn, await log_of(far, turn.task_id))


async def test_a_task_canceled_between_assignment_and_run_sends_no_model_request(
    tmp_path: Path, engine_name: str, dsn: str
) -> None:
    """P8, C8: its executor has claimed it but not read it yet, and the task is still submitted."""
    url = "" if engine_name == "sqlite" else dsn
    settings = {"route_timeout": 60.0, "capacity": 1}
    async with (
        open_servers(tmp_path) as servers,
        open_behind(tmp_path, ("llm", servers.agent), database_url=url, executor=settings) as behind,
        open_front(behind) as plane,
    ):
        async with open_round(plane, servers, "stream") as running:
            queued = await plane.send("tool please", returnImmediately=True)
            assert queued["status"]["state"] == "TASK_STATE_SUBMITTED"
            held = Held(behind.stores, "GetTask")
            await plane.result("CancelTask", {"id": running.task_id})

        def claimed() -> list[Run]:
            return [each for each in behind.executor.runs.active if each.task_id == queued["id"]]

        await until(lambda: bool(claimed()))
        (run,) = claimed()
        asked = len(servers.model.requests)
        canceled = await plane.result("CancelTask", {"id": queued["id"]})
        held.let_go.set()
        await until(lambda: not behind.executor.runs.active)
        assert run.cancelled.is_set() and canceled["status"]["state"] == CANCELED
        kinds = [event["kind"] for event in await log_of(plane, queued["id"])]
        assert (kinds, len(servers.model.requests)) == (["created", "status"], asked)
