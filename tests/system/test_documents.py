"""Tasks that external runtimes write whole: they are stored unchanged, under one id, on either engine."""

from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.support.additions import without_additions
from tests.system.plane import Plane, on_both_engines
from tests.system.stores import task_store
from tests.system.wire import Json, client, data, result, state_of, stream

from taskplane.api.tasks.v1 import tasks_pb2 as pb

pytestmark = [pytest.mark.asyncio(loop_scope="module"), on_both_engines]


def message(role: str, text: str) -> Json:
    parts: list[Json] = [{"kind": "text", "text": text, "metadata": {"lang": "en"}}]
    return {"kind": "message", "messageId": uuid4().hex, "role": role, "parts": parts, "metadata": {"n": 1.5}}


def document(task_id: str, context: str, state: str, text: str) -> Json:
    """A task with something in every place there is."""
    parts: list[Json] = [
        {"kind": "text", "text": text},
        {"kind": "data", "data": {"answer": [42, None, True, {"deep": "x"}]}},
        {"kind": "file", "file": {"name": "a.csv", "mimeType": "text/csv", "bytes": "YSxi"}},
    ]
    artifact = {"artifactId": "a", "name": "A", "description": "All kinds", "parts": parts, "metadata": {"v": text}}
    return {
        "kind": "task",
        "id": task_id,
        "contextId": context,
        "status": {"state": state, "timestamp": "2026-01-02T03:04:05Z"},
        "history": [message("user", f"ask {text}"), message("agent", text)],
        "artifacts": [artifact],
        "metadata": {"version": text},
    }


async def session(http: httpx.AsyncClient) -> str:
    created = await http.post("/api/sessions", json={"agent_ref": "runtime"})
    context: str = created.json()["data"]["id"]
    return context


async def shown(http: httpx.AsyncClient, path: str) -> Any:
    """Returns the stored data of the path."""
    return without_additions(await data(http, path))


async def stored(http: httpx.AsyncClient, task: Json) -> None:
    answer = await http.post("/api/tasks", json=task)
    assert (answer.status_code, without_additions(answer.json()["data"])) == (201, task)


async def test_a_task_document_is_stored_whole_and_replaced_by_the_next_one(plane: Plane) -> None:
    """T2: a task has its id, its session and its data; saving is an upsert by id, and survives a SIGKILL."""
    task_id = uuid4().hex
    async with client(plane.url) as http:
        context, other = await session(http), await session(http)
        first = document(task_id, context, "completed", "first")
        await stored(http, first)
        assert await shown(http, f"/api/tasks/{task_id}") == first
        assert await shown(http, f"/api/sessions/{context}/tasks") == [first]

        second = document(task_id, context, "working", "second")
        del second["metadata"], second["history"][1]
        await stored(http, second)
        assert await shown(http, f"/api/sessions/{context}/tasks") == [second]
        assert (await result(http, "ListTasks", {"contextId": context}))["totalSize"] == 1
    await plane.kill("dev")
    await plane.start("dev")
    async with client(plane.url) as http:
        assert await shown(http, f"/api/tasks/{task_id}") == second
        third = second | {"contextId": other}
        await stored(http, third)
        assert await data(http, f"/api/sessions/{context}/tasks") is None
        assert await shown(http, f"/api/sessions/{other}/tasks") == [third]
    async with task_store(plane) as (store, _):
        record = (await store.GetTask(pb.GetTaskRequest(task_id=task_id))).record
    assert (record.id, record.context_id, record.task.context_id) == (task_id, other, other)
    assert (record.origin, record.owner, record.generation) == (pb.ORIGIN_DOCUMENT, "local", 3)


async def test_a_watch_of_a_document_shows_each_replacement_as_a_generation(plane: Plane) -> None:
    """T4, T3: in any state. A managed task cannot be replaced, and the answer has the reason."""
    task_id = uuid4().hex
    async with client(plane.url) as http:
        context = await session(http)
        await stored(http, document(task_id, context, "failed", "first"))
        await stored(http, document(task_id, context, "working", "second"))
        async with stream(http, "SubscribeToTask", {"id": task_id}) as events:
            told = aiter(events)
            assert (await anext(told)).generation == 2
            for number, state in ((3, "working"), (4, "input-required"), (5, "completed")):
                await stored(http, document(task_id, context, state, f"version {number}"))
                said = [(await anext(told)).result["statusUpdate"]["status"]["message"] for _ in range(2)]
                assert [each["parts"][0]["text"] for each in said] == [f"ask version {number}", f"version {number}"]
                artifact, status = await anext(told), await anext(told)
                update: Any = artifact.result["artifactUpdate"]
                assert update["artifact"]["parts"][0]["text"] == f"version {number}"
                assert (artifact.generation, status.generation) == (number - 1, number)
                assert state_of(status) == "TASK_STATE_" + state.upper().replace("-", "_")
            assert [event async for event in told] == []
        run = (await http.post("/", json=_send(context))).json()["result"]["task"]
        before = await data(http, f"/api/tasks/{run['id']}")
        refused = await http.post("/api/tasks", json=document(run["id"], context, "working", "stolen"))
        assert (refused.status_code, refused.json()["code"]) == (409, "MANAGED")
        assert run["id"] in refused.json()["error"]
        assert await data(http, f"/api/tasks/{run['id']}") == before
        shown = await data(http, f"/api/sessions/{context}/tasks")
        assert [task["id"] for task in shown] == [task_id, run["id"]]


def _send(context: str) -> Json:
    sent = {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": [{"text": "echo hi"}], "contextId": context}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": sent}}
