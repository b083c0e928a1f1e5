"""Task states in the spellings of external runtimes, and as every client reads them."""

import asyncio
from typing import Any

import pytest
from tests.gateway.plane import Plane, fresh

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.kagent.states import info_state

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Synonyms of each state of A2A 0.3.
SPELLINGS = {
    "submitted": ["pending", "submitted"],
    "working": ["working", "running"],
    "input-required": ["input-required", "input_required"],
    "auth-required": ["auth-required", "auth_required"],
    "completed": ["completed", "success"],
    "failed": ["failed", "error"],
    "rejected": ["rejected"],
    "canceled": ["canceled", "cancelled"],
}


def spelled(word: str) -> list[str]:
    """Return a word in the usual cases and with the usual prefix."""
    upper = word.upper()
    return [word, upper, word.capitalize(), f"TASK_STATE_{upper.replace('-', '_')}", f"task-state-{word}"]


@pytest.mark.parametrize("state", SPELLINGS)
async def test_every_spelling_of_a_state_is_read_as_the_same_state(plane: Plane, state: str) -> None:
    """M2: in any case, as in 0.3, as in 1.0 and as a plain word. A list can be filtered by it."""
    context = fresh()
    await plane.http.post("/api/sessions", json={"id": context, "agent_ref": "demo"})
    words = sorted({spelling for word in SPELLINGS[state] for spelling in spelled(word)})

    async def put(word: str) -> None:
        task = {"id": f"{context}-{word}", "contextId": context, "status": {"state": word}}
        stored = await plane.http.post("/api/tasks", json=task)
        assert (stored.status_code, stored.json()["data"]["status"]["state"]) == (201, state), word

    await asyncio.gather(*map(put, words))
    listed = (await plane.http.get(f"/api/sessions/{context}/tasks")).json()["data"]
    assert {task["id"].removeprefix(f"{context}-") for task in listed} == set(words)
    assert {task["status"]["state"] for task in listed} == {state}
    new = "TASK_STATE_" + state.upper().replace("-", "_")
    found: Any = await plane.result("ListTasks", {"contextId": context, "status": new, "pageSize": 100})
    assert found["totalSize"] == len(words)
    assert {task["status"]["state"] for task in found["tasks"]} == {new}
    old = await plane.result("tasks/get", {"id": listed[0]["id"]})
    assert old["status"]["state"] == state


# The state in the list of a session's turns, and whether the turn is paused.
INFO = {
    "submitted": ("pending", False),
    "working": ("working", False),
    "input-required": ("working", True),
    "auth-required": ("working", True),
    "completed": ("completed", False),
    "failed": ("failed", False),
    "rejected": ("failed", False),
    "canceled": ("cancelled", False),
}


@pytest.mark.parametrize("state", SPELLINGS)
async def test_a_list_of_turns_has_one_of_five_states(plane: Plane, state: str) -> None:
    """M2: for every spelling, in the function and over HTTP. An interrupted task is working and paused."""
    for word in SPELLINGS[state]:
        for spelling in spelled(word):
            assert info_state(spelling) == INFO[state], spelling
    assert info_state(a2a.TaskState.Value("TASK_STATE_" + state.upper().replace("-", "_"))) == INFO[state]
    context = fresh()
    await plane.http.post("/api/sessions", json={"id": context, "agent_ref": "demo"})
    await plane.http.post("/api/tasks", json={"contextId": context, "status": {"state": state}})
    (info,) = (await plane.http.get(f"/api/sessions/{context}/task-infos")).json()["data"]
    assert (info["state"], info.get("paused", False)) == INFO[state]
    assert ("rejected" in info, "rejected" in info["changes"][-1]) == ((state == "rejected",) * 2)


@pytest.mark.parametrize("unknown", ["", "strange", 0, 99])
async def test_an_unknown_state_is_pending_in_a_list_of_turns(unknown: str | int) -> None:
    """M2."""
    assert info_state(unknown) == ("pending", False)


@pytest.mark.parametrize("word", ["unknown", "UNKNOWN", "unspecified", "TASK_STATE_UNSPECIFIED"])
async def test_an_unknown_state_of_a_document_stays_unknown(plane: Plane, word: str) -> None:
    """T3, M2, M3: it is unchanged in both versions, on streams and after an export and import. It is not terminal, and
    pending in lists of turns."""
    context = fresh()
    task = {"id": fresh(), "contextId": context, "status": {"state": word}}
    stored = (await plane.http.post("/api/tasks", json=task)).json()["data"]
    assert stored["status"]["state"] == "unknown"
    assert (await plane.http.get(f"/api/tasks/{task['id']}")).json()["data"] == stored
    assert (await plane.http.get(f"/api/sessions/{context}/tasks")).json()["data"] == [stored]
    assert (await plane.result("tasks/get", {"id": task["id"]}))["status"]["state"] == "unknown"
    assert (await plane.result("GetTask", {"id": task["id"]}))["status"]["state"] == "TASK_STATE_UNSPECIFIED"
    (listed,) = (await plane.result("ListTasks", {"contextId": context}))["tasks"]
    assert listed["status"]["state"] == "TASK_STATE_UNSPECIFIED"
    infos = f"/api/sessions/{context}/task-infos"
    for path in (f"{infos}?latest=incomplete", f"{infos}?latest=any"):
        info = (await plane.http.get(path)).json()["data"]
        assert (info["taskId"], info["state"], info["changes"][-1]["state"]) == (task["id"], "pending", "pending")
    assert (await plane.http.get(f"/api/sessions/{context}/stats")).json()["data"]["byState"] == {"pending": 1}
    found = (await plane.http.get("/api/ops/tasks?state=pending&owner=local&limit=1000")).json()["data"]
    assert task["id"] in [one["taskId"] for one in found]
    async with asyncio.timeout(20), plane.stream("SubscribeToTask", {"id": task["id"]}) as events:
        assert (await anext(events)).result["task"]["status"]["state"] == "TASK_STATE_UNSPECIFIED"
        await plane.http.post("/api/tasks", json={**task, "status": {"state": "completed"}})
        assert (await anext(events)).result["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    await plane.http.post("/api/tasks", json=task)
    body = (await plane.http.get(f"/api/sessions/{context}/export")).content
    headers = {"content-type": "application/x-ndjson"}
    new = fresh()
    reply = await plane.http.post(f"/api/sessions/import?id={new}", content=body, headers=headers)
    assert reply.status_code == 201, reply.text
    (imported,) = (await plane.http.get(f"/api/sessions/{new}/tasks")).json()["data"]
    assert imported["status"]["state"] == "unknown"
