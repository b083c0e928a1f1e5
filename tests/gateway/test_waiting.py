"""A task whose agent no process runs: every client that reads it is told so, until a worker is there."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.executor.plane import eventually
from tests.gateway.plane import Json, Plane, open_behind, open_front, said
from tests.support.postgres import Cluster

from taskplane.agents.agent import AgentCard, Change, Complete, Turn
from taskplane.agents.elsewhere import Elsewhere
from taskplane.runtime.server import serving
from taskplane.worker import Worker

WAITING: Final = "taskplane.dev/waiting"
FAR: Final = "/agents/far"


class Echo:
    card = AgentCard(name="far", version="1")

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        yield Complete(turn.text)


async def reads(plane: Plane, task_id: str) -> list[Json]:
    """The task as each route shows it."""
    one = await plane.result("GetTask", {"id": task_id}, path=FAR)
    three = await plane.result("tasks/get", {"id": task_id}, path=FAR)
    rest: Json = (await plane.http.get(f"/api/tasks/{task_id}")).json()["data"]
    return [one, three, rest]


async def told(plane: Plane, task_id: str) -> list[Any]:
    operated: Json = (await plane.http.get(f"/api/ops/tasks/{task_id}")).json()["data"]["task"]
    shown = [each.get("metadata", {}).get(WAITING) for each in await reads(plane, task_id)]
    return [*shown, operated.get("waiting")]


async def concerns(plane: Plane) -> list[Json]:
    found: list[Json] = (await plane.http.get("/api/ops/overview")).json()["data"]["concerns"]
    return found


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_a_queued_task_tells_that_no_process_runs_its_agent_until_a_worker_does(
    tmp_path: Path, cluster: Cluster, engine: str
) -> None:
    """V4, T7: in both versions, under /api and to operators, with what to do; the worker then runs it."""
    url = cluster.url(cluster.create()) if engine == "postgres" else ""
    card = ("far", Elsewhere(AgentCard(name="far", version="1")))
    async with open_behind(tmp_path, card, database_url=url) as behind, open_front(behind) as plane:
        params = {"message": said("hello"), "configuration": {"returnImmediately": True}}
        task: Json = (await plane.result("SendMessage", params, path=FAR))["task"]
        assert WAITING not in task.get("metadata", {})
        first, *others = await eventually(lambda: told(plane, task["id"]), all)
        assert others == [first] * 3
        assert (first["code"], first["agent"]) == ("AGENT_UNSERVED", "far")
        assert first["message"] == "No living process runs the agent far, so this task waits in the queue."
        assert "taskplane worker --agent far=MODULE:ATTRIBUTE" in first["suggestion"]
        (concern,) = await concerns(plane)
        assert concern["code"] == "AGENT_UNSERVED" and concern["suggestion"]
        assert concern["message"].startswith("1 task of agent far has been waiting for an executor for ")
        assert (await plane.http.get(f"/api/tasks/{task['id']}", headers={"X-User-Id": "bob"})).status_code == 404

        stop = asyncio.Event()
        async with serving(behind.stores.services, f"unix:{tmp_path}/stores", grace=0.1) as server:
            worker = Worker(Echo(), name="far", tasks=server.address, sessions=server.address, ops_listen="")
            serve = asyncio.create_task(worker.serve(stop))
            done = await eventually(
                lambda: reads(plane, task["id"]), lambda found: found[1]["status"]["state"] == "completed"
            )
            assert not any(await told(plane, task["id"])) and len(done) == 3
            assert await concerns(plane) == []
            stop.set()
            await serve


async def test_a_task_that_is_stored_as_it_was_read_does_not_keep_that_it_waited(tmp_path: Path) -> None:
    """T2: the mark is the server's, and true at the time of the read only."""
    async with open_behind(tmp_path) as behind, open_front(behind) as plane:
        document = {
            "id": "t1",
            "contextId": "c1",
            "status": {"state": "working"},
            "metadata": {WAITING: {"code": "OLD"}},
        }
        assert (await plane.http.post("/api/tasks", json=document)).status_code == 201
        assert WAITING not in (await plane.http.get("/api/tasks/t1")).json()["data"].get("metadata", {})
