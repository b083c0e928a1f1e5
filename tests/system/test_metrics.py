"""The metrics of each process of a plane at `/metrics`."""

from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.conftest import ENGINES
from tests.support.databases import take
from tests.support.ports import free_port
from tests.support.postgres import Cluster
from tests.system.plane import running
from tests.system.wire import call, client, send, until

SEND = "/taskplane.api.executor.v1.AgentExecutor/Submit"
APPEND = "/taskplane.api.tasks.v1.TaskStore/AppendEvents"
WATCH = "/taskplane.api.tasks.v1.TaskStore/WatchTask"
ENTRIES = "/taskplane.api.sessions.v1.SessionHistory/AppendEntries"


async def measured(url: str) -> Mapping[tuple[str, ...], float]:
    """Return every sample by its name and the values of its labels, in the order of their names."""
    async with httpx.AsyncClient(verify=False) as http:
        text = (await http.get(f"{url}/metrics")).text
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("engine", ENGINES)
async def test_each_process_measures_its_part_of_a_task_once(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """While a task runs, and after one completed and one was canceled."""
    rooms = {room: f"127.0.0.1:{free_port()}" for room in ("tasks", "sessions", "executor")}
    extra = {f"TASKPLANE_{room.upper()}_OPS_LISTEN": address for room, address in rooms.items()}
    if engine == "postgres":
        cluster: Cluster = request.getfixturevalue("cluster")
        url = cluster.url(await take(cluster))
        extra |= {f"TASKPLANE_{store}_DATABASE_URL": url for store in ("TASKS", "SESSIONS")}
    async with running("four", tmp_path, extra) as plane, client(plane.url) as http:
        tasks, sessions, executor = (f"http://{address}" for address in rooms.values())
        await send(http, "hello")
        task = (await send(http, "slow 4000", configuration={"returnImmediately": True}))["task"]["id"]

        async def at_work() -> bool:
            return (await measured(executor)).get(("taskplane_runs", "demo")) == 1

        await until(at_work)
        await call(http, "CancelTask", {"id": task})

        async def ended() -> bool:
            return (await measured(executor))["taskplane_runs", "demo"] == 0

        await until(ended)

        of_executor = await measured(executor)
        assert of_executor["taskplane_runs_started_total", "demo"] == 2
        assert of_executor["taskplane_runs_stopped_total", "demo"] == 1
        assert of_executor["taskplane_rpc_calls_total", "OK", SEND] == 2

        of_tasks = await measured(tasks)
        assert of_tasks["taskplane_tasks_created_total", "demo"] == 2
        assert of_tasks["taskplane_tasks_ended_total", "completed"] == 1
        assert of_tasks["taskplane_tasks_ended_total", "canceled"] == 1
        assert of_tasks["taskplane_rpc_calls_total", "OK", APPEND] >= 2
        assert (
            of_tasks["taskplane_commit_operations_sum", "tasks"]
            >= of_tasks["taskplane_commit_operations_count", "tasks"]
        )
        assert (
            of_tasks["taskplane_commit_seconds_count", "tasks"]
            == of_tasks["taskplane_commit_operations_count", "tasks"]
        )

        async def idle() -> bool:
            return (await measured(tasks))["taskplane_operations_waiting", "tasks"] == 0

        await until(idle)
        assert of_tasks["taskplane_rpc_open_streams", WATCH] == 0 == of_tasks["taskplane_watchers", "task"]
        assert of_tasks["taskplane_leases_lost_total",] == 0
        assert of_tasks["taskplane_executors",] >= 0
        for state in ("queued", "running", "input-required", "auth-required"):
            assert ("taskplane_tasks", state) in of_tasks
        assert ("taskplane_tasks_uncopied",) in of_tasks
        if engine == "postgres":
            assert of_tasks["taskplane_notifications_connected", "tasks"] == 1

        of_sessions = await measured(sessions)
        assert of_sessions["taskplane_rpc_calls_total", "OK", ENTRIES] >= 2
        assert of_sessions["taskplane_commit_seconds_count", "sessions"] >= 2

        of_gateway = await measured(plane.url)
        assert of_gateway["taskplane_http_requests_total", "SendMessage", "ok"] == 2
        assert of_gateway["taskplane_http_open_streams",] == 0
