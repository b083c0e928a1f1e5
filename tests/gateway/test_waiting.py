"""A task of an agent without a running process: every client that reads it gets a mark, until a worker starts."""

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
    """Return the task as each route shows it."""
    one = await plane.result("GetTask", {"id": task_id}, path=FAR)
    three = await plane.result("tasks/get", {"id": task_id}, path=FAR)
    rest: Json = (await plane.http.get(f"/api/tasks/{task_id}")).json()["data"]
    return [one, three, rest]


async def marks(plane: Plane, task_id: str) -> list[Any]:
    operated: Json = (await plane.http.get(f"/api/ops/tasks/{task_id}")).json()["data"]["task"]
    shown = [each.get("metadata", {}).get(WAITING) for each in await reads(plane, task_id)]
    return [*shown, operated.get("waiting")]


async def concerns(plane: Plane) -> list[Json]:
    found: list[Json] = (await plane.http.get("/api/ops/overview")).json()["data"]["concerns"]
    return found


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_a_queued_task_is_marked_as_unserved_until_a_worker_runs_its_agent(
    tmp_path: Path, cluster: Cluster, engine: str
) -> None:
    """V4, T7: in both versions, under /api and for operators, with a suggestion. The worker then runs it."""
    url = cluster.url(cluster.create()) if engine == "postgres" else ""
    card = ("far", Elsewhere(AgentCard(name="far", version="1")))
    async with open_behind(tmp_path, card, database_url=url) as behind, open_front(behind) as plane:
        params = {"message": said("hello"), "configuration": {"returnImmediately": True}}
        task: Json = (await plane.result("SendMessage", params, path=FAR))["task"]
        assert WAITING not in task.get("metadata", {})
        first, *others = await eventually(lambda: marks(plane, task["id"]), all)
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
            assert not any(await marks(plane, task["id"])) and len(done) == 3
            assert await concerns(plane) == []
            stop.set()
            await serve


async def test_the_unserved_mark_is_not_stored_by_a_save(tmp_path: Path) -> None:
    """T2: it is added by the server, for the time of the read only."""
    async with open_behind(tmp_path) as behind, open_front(behind) as plane:
        document = {
            "id": "t1",
            "contextId": "c1",
            "status": {"state": "working"},
            "metadata": {WAITING: {"code": "OLD"}},
        }
        assert (await plane.http.post("/api/tasks", json=document)).status_code == 201
        assert WAITING not in (await plane.http.get("/api/tasks/t1")).json()["data"].get("metadata", {})
