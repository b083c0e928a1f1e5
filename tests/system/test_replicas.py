"""Several of each process: a request at one of them reaches a run behind another."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from tests.conftest import ENGINES
from tests.support.additions import without_additions
from tests.support.databases import take
from tests.support.ports import free_port
from tests.support.postgres import Cluster
from tests.system.file_agents import Hold
from tests.system.plane import STEADY, running
from tests.system.wire import Json, Sse, call, client, result, state_of, stream, task_of, text_message, until

pytestmark = pytest.mark.more

AGENT = {"TASKPLANE_EXECUTOR_AGENTS": "tests.system.file_agents:Holding"}


@asynccontextmanager
async def replicas(data: Path, database_url: str) -> AsyncGenerator[tuple[str, str]]:
    """Two of each process, except for stores on SQLite; the URLs of the two gateways."""
    extra = {**AGENT, **STEADY}
    if database_url:
        extra |= {f"TASKPLANE_{store}_DATABASE_URL": database_url for store in ("TASKS", "SESSIONS")}
    async with running("four", data, extra) as plane:
        tasks, executor, gateway = free_port(), free_port(), free_port()
        first = plane.url
        plane.environment = plane.environment | {
            "TASKPLANE_EXECUTOR_LISTEN": f"127.0.0.1:{executor}",
            "TASKPLANE_GATEWAY_EXECUTOR": f"127.0.0.1:{executor}",
            "TASKPLANE_GATEWAY_PORT": str(gateway),
            "TASKPLANE_GATEWAY_GRPC_PORT": "0",
        }
        plane.commands |= {"executor2": ["serve", "executor"], "gateway2": ["serve", "gateway"]}
        if database_url:
            plane.environment |= {
                "TASKPLANE_TASKS_LISTEN": f"127.0.0.1:{tasks}",
                "TASKPLANE_EXECUTOR_TASKS": f"127.0.0.1:{tasks}",
                "TASKPLANE_GATEWAY_TASKS": f"127.0.0.1:{tasks}",
            }
            plane.commands["tasks2"] = ["serve", "tasks"]
        plane.url = f"http://127.0.0.1:{gateway}"
        await plane.start(*(name for name in plane.commands if name.endswith("2")))
        yield first, plane.url


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_cancel_and_a_resumed_stream_work_at_another_replica(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """P8, C11, W6: the run is aborted in its own process and releases its resources; no completion overwrites the end.
    P12, C3, C4: at the other replica a stream continues after each of its events, during the task and after its end."""
    database_url = ""
    if engine == "postgres":
        cluster: Cluster = request.getfixturevalue("cluster")
        database_url = cluster.url(await take(cluster))
    async with replicas(tmp_path, database_url) as (here, there), client(here) as near, client(there) as far:
        for name in ("docile", "stubborn"):
            seen, canceled = await _cancel_from_afar(near, far, tmp_path / name)
            await _stays_canceled(near, far, tmp_path / name, canceled)
            for index, (cursor, _) in enumerate(seen):
                async with _resumed(far, canceled["id"], cursor) as events:
                    assert _pairs([event async for event in events]) == seen[index + 1 :]


Seen = list[tuple[str, Json]]


async def _cancel_from_afar(near: httpx.AsyncClient, far: httpx.AsyncClient, file: Path) -> tuple[Seen, Json]:
    """Returns the whole stream of the task, and the canceled task."""
    async with stream(near, "SendStreamingMessage", {"message": text_message(str(file))}) as events:
        told = aiter(events)
        seen = [await anext(told)]
        while "artifactUpdate" not in seen[-1].result:
            seen.append(await anext(told))
        task_id = task_of(seen)["id"]
        assert Hold(file).holder == task_id
        async with _resumed(far, task_id, seen[0].id) as elsewhere:
            rest = [await anext(elsewhere) for _ in seen[1:]]
            canceled = await result(far, "CancelTask", {"id": task_id})
            seen += [event async for event in told]
            rest += [event async for event in elsewhere]
    assert [event.generation for event in seen] == list(range(1, len(seen) + 1))
    assert [state_of(event) for event in seen[3:]] == ["TASK_STATE_CANCELED"]
    assert _pairs(rest) == _pairs(seen)[1:]
    return _pairs(seen), canceled


@asynccontextmanager
async def _resumed(http: httpx.AsyncClient, task_id: str, cursor: str) -> AsyncGenerator[AsyncIterator[Sse]]:
    async with stream(http, "SubscribeToTask", {"id": task_id}, **{"Last-Event-ID": cursor}) as events:
        yield aiter(events)


def _pairs(events: list[Sse]) -> Seen:
    return [(event.id, event.result) for event in events]


async def _stays_canceled(near: httpx.AsyncClient, far: httpx.AsyncClient, file: Path, canceled: Json) -> None:
    async def released() -> str:
        return Hold(file).released

    assert await until(released) == "cancelled"
    # A last change of the run would be in the log once its process has begun another run.
    after = {"message": text_message(f"{file}-after"), "configuration": {"returnImmediately": True}}
    await result(near, "SendMessage", after)
    for http in (near, far):
        assert without_additions(await result(http, "GetTask", {"id": canceled["id"]})) == without_additions(canceled)
        assert (await call(http, "CancelTask", {"id": canceled["id"]}))["error"]["code"] == -32002
