"""Several of each process: what comes in at one of them reaches what goes on behind another."""

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
from tests.system.plane import STEADY, running
from tests.system.steered import Hold
from tests.system.wire import Json, Sse, call, client, result, state_of, stream, task_of, text_message, until

pytestmark = pytest.mark.more

AGENT = {"TASKPLANE_EXECUTOR_AGENTS": "tests.system.steered:Holding"}


@asynccontextmanager
async def replicas(data: Path, database_url: str) -> AsyncGenerator[tuple[str, str]]:
    """Two of each process but of those that SQLite has one of; the URLs of the two gateways."""
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
async def test_a_cancel_and_a_resumed_stream_do_not_care_where_they_come_in(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """P8, C11: the run is aborted in its own process and lets go of what it holds; no completion overwrites the end.

    P12, C3, C4: at the other replica a stream goes on after each of its events, while the task runs and when it ended.
    """
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
                    assert _told([event async for event in events]) == seen[index + 1 :]


Told = list[tuple[str, Json]]


async def _cancel_from_afar(near: httpx.AsyncClient, far: httpx.AsyncClient, file: Path) -> tuple[Told, Json]:
    """What a stream of the task told from its beginning to its end, and the canceled task."""
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
    assert _told(rest) == _told(seen)[1:]
    return _told(seen), canceled


@asynccontextmanager
async def _resumed(http: httpx.AsyncClient, task_id: str, cursor: str) -> AsyncGenerator[AsyncIterator[Sse]]:
    async with stream(http, "SubscribeToTask", {"id": task_id}, **{"Last-Event-ID": cursor}) as events:
        yield aiter(events)


def _told(events: list[Sse]) -> Told:
    return [(event.id, event.result) for event in events]


async def _stays_canceled(near: httpx.AsyncClient, far: httpx.AsyncClient, file: Path, canceled: Json) -> None:
    async def released() -> str:
        return Hold(file).released

    assert await until(released) == "told"
    # What the run said last would be in the log by the time that its process has begun another one.
    after = {"message": text_message(f"{file}-after"), "configuration": {"returnImmediately": True}}
    await result(near, "SendMessage", after)
    for http in (near, far):
        assert without_additions(await result(http, "GetTask", {"id": canceled["id"]})) == without_additions(canceled)
        assert (await call(http, "CancelTask", {"id": canceled["id"]}))["error"]["code"] == -32002
