"""Sessions and tasks of agents that are not served: everything except a send works at the path of any agent."""

import asyncio
from typing import Any

import pytest
from tests.gateway.conversing import INVOCATION, REWIND, WAYS, Way, data, name_of, payload, responses, shown, state_of
from tests.gateway.plane import Json, Plane, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATHS = ["/agents/gone", "/agents/kagent__NS__gone", "/api/a2a/kagent/gone", "/"]
READS = {"1.0": ("GetTask", "CancelTask", "SubscribeToTask"), "0.3": ("tasks/get", "tasks/cancel", "tasks/resubscribe")}


async def document(plane: Plane, context: str, name: str, state: str = "completed", task_id: str = "") -> str:
    """Store a task of an external agent with one turn, and return its id."""
    history = [
        {
            "kind": "message",
            "messageId": f"{context}-{name}{end}",
            "role": role,
            "parts": [{"kind": "text", "text": name}],
            "metadata": {INVOCATION: f"{context}-{name}"},
        }
        for role, end in (("user", "?"), ("agent", "!"))
    ]
    task = {"id": task_id or fresh(), "contextId": context, "status": {"state": state}, "history": history}
    reply = await plane.http.post("/api/tasks", json=task, headers={"X-Agent-Name": "kagent/gone"})
    assert reply.status_code == 201, reply.text
    return str(task["id"])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("version", READS)
async def test_a_task_is_read_followed_and_canceled_at_the_path_of_a_gone_agent(
    plane: Plane, version: str, path: str
) -> None:
    """T7, M5: a document of that agent, and a managed task."""
    get, cancel, subscribe = READS[version]
    context = fresh()
    task_id = await document(plane, context, "A", "working")
    assert (await plane.result(get, {"id": task_id}, path=path))["contextId"] == context
    async with asyncio.timeout(20), plane.stream(subscribe, {"id": task_id}, path=path) as events:
        assert payload((await anext(events)).result)[1]["id"] == task_id
        await document(plane, context, "A", "completed", task_id)
        assert [state_of(payload(event.result)[1]) async for event in events][-1] == "completed"
    error = await plane.error(cancel, {"id": task_id}, path=path)
    assert error["code"] == -32002
    if version == "1.0":
        assert (await plane.result("ListTasks", {"contextId": context}, path=path))["tasks"][0]["id"] == task_id
    running = await plane.send("slow 600", returnImmediately=True)
    canceled = await plane.result(cancel, {"id": running["id"]}, path=path)
    assert state_of(canceled) == "canceled"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("way", WAYS, ids=name_of)
async def test_a_session_is_rewound_and_restored_at_the_path_of_a_gone_agent(plane: Plane, way: Way, path: str) -> None:
    """R2, R8: the rewind starts no turn, so it needs no agent. A rewind to an unknown turn fails as usual."""
    context = fresh()
    for name in ("A", "B"):
        await document(plane, context, name)

    async def rewound(before: str) -> Json:
        params = way.params(context, "", {REWIND: before})
        if way.streams:
            return payload((await plane.streamed(way.method, params, path=path))[0].result)[1]
        return payload(await plane.result(way.method, params, path=path))[1]

    task = await rewound(f"{context}-B")
    assert (task["id"], len(task["history"])) == (context, 2)
    assert await shown(plane, context) == ["A", "A"]
    assert state_of(await rewound(f"{context}-none")) == "failed"
    reply = await plane.http.post(f"/api/sessions/{context}/undo_rewind", json={})
    assert reply.status_code == 200, reply.text
    assert await shown(plane, context) == ["A", "A", "B", "B"]


@pytest.mark.parametrize("way", WAYS, ids=name_of)
@pytest.mark.parametrize("path", PATHS[:-1])
async def test_a_send_to_a_gone_agent_is_refused_with_404(plane: Plane, way: Way, path: str) -> None:
    """T7: the error names the known agents. A rewind with a text is refused, too, and changes nothing."""
    context = fresh()
    for name in ("A", "B"):
        await document(plane, context, name)
    marks: list[Json | None] = [None, {REWIND: None}, {REWIND: ""}, {REWIND: f"{context}-B"}]
    for metadata in marks:
        body = {"jsonrpc": "2.0", "id": "r", "method": way.method, "params": way.params(context, "go on", metadata)}
        reply = await plane.http.post(path, json=body)
        assert reply.status_code == 404, reply.text
        error: Any = reply.json()["error"]
        assert error["code"] == -32601
        assert "there is no agent" in error["message"] and "demo" in reply.text
    assert await shown(plane, context) == ["A", "A", "B", "B"]
    assert (await data(plane, f"/api/sessions/{context}"))["session"]["agent"] == "kagent/gone"


async def test_a_session_of_a_gone_agent_continues_with_a_served_agent(plane: Plane) -> None:
    """S7, I2: the session was created by an external agent."""
    context = fresh()
    await document(plane, context, "A")
    answer = await responses(plane, Way("1.0", False), Way("1.0", False).params(context, "B"))
    assert state_of(answer[-1][1]) == "completed"
    assert await shown(plane, context) == ["A", "A", "B", "B"]
