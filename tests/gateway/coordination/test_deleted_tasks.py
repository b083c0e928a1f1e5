"""Contents of a deleted task: removed from every route at once and for good, for tasks of every origin. C16, T3, R5,
R7."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.gateway.conversing import INVOCATION
from tests.gateway.plane import Json, Plane, fresh
from tests.gateway.sessions.test_watch import through, watching

from taskplane.runtime import failpoints

pytestmark = pytest.mark.asyncio(loop_scope="module")
# Words that occur nowhere else.
Z, Q = "zanzibar", "quagga"


@pytest.fixture(autouse=True)
def _no_failpoints() -> Any:
    yield
    failpoints.configure("")


async def data(plane: Plane, path: str) -> Any:
    reply = await plane.http.get(path)
    assert reply.status_code == 200, reply.text
    return reply.json().get("data")


async def turn(plane: Plane, context: str, text: str, **message: Any) -> Json:
    """Run a turn of the demo agent, which answers `hello` directly."""
    return await plane.send(text, message={"contextId": context, **message})


def document(context: str, *texts: str, named: str = "", **fields: Any) -> Json:
    """Return a document; with `named`, its messages name that turn."""
    metadata: Json = {INVOCATION: named} if named else {}
    history = [
        {
            "kind": "message",
            "messageId": fresh(),
            "role": "agent" if at % 2 else "user",
            "parts": [{"kind": "text", "text": text}],
            "metadata": metadata,
        }
        for at, text in enumerate(texts)
    ]
    return {"id": fresh(), "contextId": context, "status": {"state": "completed"}, "history": history, **fields}


async def post(plane: Plane, task: Json) -> httpx.Response:
    return await plane.http.post("/api/tasks", json=task)


async def delete(plane: Plane, task_id: str) -> None:
    reply = await plane.http.delete(f"/api/tasks/{task_id}")
    assert reply.status_code == 204, reply.text


ROUTES = (
    "",
    "/messages",
    "/tasks",
    "/tasks?include=superseded",
    "/task-infos",
    "/effective_history",
    "/effective_history?limit=50",
    "/state",
    "/stats",
    "/export",
    "/export?format=json",
    "/export?format=markdown",
)


async def nowhere(plane: Plane, context: str, *words: str) -> None:
    """Check that the words are absent from all routes of the session, the list of sessions and the session task."""
    paths = [f"/api/sessions/{context}{route}" for route in ROUTES]
    for path in (*paths, "/api/sessions", f"/api/sessions?title={words[0]}", f"/api/tasks/{context}"):
        reply = await plane.http.get(path)
        assert reply.status_code == 200, (path, reply.text)
        for word in words:
            assert word not in reply.text, (path, word)


async def texts(plane: Plane, context: str) -> list[str]:
    found = (await data(plane, f"/api/sessions/{context}/messages"))["messages"]
    return [part["text"] for message in found for part in message["parts"]]


async def test_a_deleted_turn_is_absent_also_after_a_later_direct_answer(plane: Plane) -> None:
    """C16: it is removed from messages, history and prompt, and the later session task does not contain it."""
    context = fresh()
    gone = await turn(plane, context, f"echo {Z}")
    await turn(plane, context, "echo two")
    await delete(plane, gone["id"])
    assert await texts(plane, context) == ["echo two", "two"]
    await turn(plane, context, "message hello")
    await nowhere(plane, context, Z)
    assert (await texts(plane, context))[:2] == ["echo two", "two"]
    assert (await data(plane, f"/api/sessions/{context}"))["session"]["name"] == "echo two"


@pytest.mark.parametrize("named", [True, False], ids=["names its turn", "names none"])
async def test_a_deleted_document_is_removed_and_cannot_be_saved_again(plane: Plane, named: bool) -> None:
    """C16, T3: neither under its id, nor in a pushed history, nor by events of its turn."""
    context, name = fresh(), fresh()
    kept = document(context, "kept", "well", named=fresh())
    gone = document(context, Z, Q, named=name if named else "")
    for each in (gone, kept):
        assert (await post(plane, each)).status_code == 201
    if named:
        event = {"id": fresh(), "data": {"invocation_id": name, "content": Q}}
        assert (await plane.http.post(f"/api/sessions/{context}/events", json=event)).status_code == 201
    shown = (await data(plane, f"/api/sessions/{context}/messages"))["messages"]
    await delete(plane, gone["id"])
    await nowhere(plane, context, Z, Q)
    again = await post(plane, gone)
    assert (again.status_code, again.json()["code"]) == (409, "TASK_DELETED")
    await nowhere(plane, context, Z, Q)
    if named:
        late = {"id": fresh(), "data": {"invocation_id": name, "content": Q}}
        reply = await plane.http.post(f"/api/sessions/{context}/events", json=late)
        assert (reply.status_code, reply.json()["code"]) == (409, "TASK_DELETED")
    pushed = await plane.http.put(f"/api/sessions/{context}/effective_history", json={"messages": shown})
    assert pushed.status_code == 200, pushed.text
    await nowhere(plane, context, Z, Q)
    assert "kept" in await texts(plane, context)


async def test_a_document_that_repeats_a_deleted_turn_is_stored_without_it(plane: Plane) -> None:
    """C16, T3: new turns of the document stay. A turn that another document shares is not deleted."""
    context, one, two = fresh(), fresh(), fresh()
    gone = document(context, Z, named=one)
    await post(plane, gone)
    await delete(plane, gone["id"])
    whole = document(context)
    whole["history"] = [*gone["history"], *document(context, "new", named=two)["history"]]
    assert (await post(plane, whole)).status_code == 201
    await nowhere(plane, context, Z)
    assert await texts(plane, context) == ["new"]
    shares = document(context, "the same turn", named=two)
    await post(plane, shares)
    await delete(plane, shares["id"])
    assert await texts(plane, context) == ["new"]
    assert (await post(plane, whole)).status_code == 201


@pytest.mark.parametrize("place", ["delete.after_void", "delete.after_task"])
async def test_a_repeat_completes_a_deletion_that_a_crash_of_the_gateway_interrupted(plane: Plane, place: str) -> None:
    """C16: the session has removed the document before."""
    context = fresh()
    gone = document(context, Z, named=fresh())
    await post(plane, gone)
    failpoints.configure(f"{place}=raise(UNAVAILABLE)@1")
    assert (await plane.http.delete(f"/api/tasks/{gone['id']}")).status_code == 503
    failpoints.configure("")
    history = (await data(plane, f"/api/sessions/{context}/effective_history"))["messages"]
    assert place == "delete.after_void" or history == []
    again = await plane.http.delete(f"/api/tasks/{gone['id']}")
    assert again.status_code == (204 if place == "delete.after_void" else 404)
    await nowhere(plane, context, Z)


async def test_a_document_saved_during_its_deletion_is_refused_and_removed(plane: Plane) -> None:
    """C16, T4: the save finds the deletion in the session, and is undone."""
    context = fresh()
    gone = document(context, Z, named=fresh())
    await post(plane, gone)
    failpoints.configure("delete.after_void=raise(UNAVAILABLE)@1")
    assert (await plane.http.delete(f"/api/tasks/{gone['id']}")).status_code == 503
    failpoints.configure("")
    again = await post(plane, gone)
    assert (again.status_code, again.json()["code"]) == (409, "TASK_DELETED")
    assert (await plane.http.get(f"/api/tasks/{gone['id']}")).status_code == 404
    await nowhere(plane, context, Z)


async def test_a_turn_saved_during_the_deletion_of_its_document_is_deleted_too(plane: Plane, tmp_path: Path) -> None:
    """C16, T4: the document is saved between the void and the deletion, which voids the new turn as well."""
    context, go = fresh(), tmp_path / "go"
    gone = document(context, Z, named=fresh())
    await post(plane, gone)
    failpoints.configure(f"delete.after_void=pause({go})")
    deleting = asyncio.create_task(plane.http.delete(f"/api/tasks/{gone['id']}"))
    async with asyncio.timeout(20):
        while not (tmp_path / "go.reached").exists():
            await asyncio.sleep(0.01)
    failpoints.configure("")
    whole = {**gone, "history": [*gone["history"], *document(context, Q, named=fresh())["history"]]}
    assert (await post(plane, whole)).status_code == 201
    go.touch()
    assert (await deleting).status_code == 204
    await nowhere(plane, context, Z, Q)
    again = await post(plane, whole)
    assert (again.status_code, again.json()["code"]) == (409, "TASK_DELETED")
    await nowhere(plane, context, Z, Q)


async def test_a_session_watcher_gets_the_cut_turns_and_the_removed_task(plane: Plane) -> None:
    """M5, C16: an open page then removes the messages."""
    context = fresh()
    gone = await turn(plane, context, f"echo {Z}")
    name = gone["history"][0]["metadata"][INVOCATION]
    async with watching(plane, context) as stream:
        await anext(stream)
        await delete(plane, gone["id"])
        found = {event.name: event.data for event in await through(stream, "rewound", "task-removed")}
    assert name in found["rewound"]["cut"] and found["task-removed"] == {"taskId": gone["id"]}
    assert Z not in str(found)


async def test_an_export_after_a_deletion_contains_nothing_of_the_task(plane: Plane) -> None:
    """C16: the imported session refuses the deleted turn, too."""
    context, other = fresh(), fresh()
    gone = await turn(plane, context, f"echo {Z}")
    await turn(plane, context, "echo two")
    await delete(plane, gone["id"])
    exported = await plane.http.get(f"/api/sessions/{context}/export")
    for under in (other, fresh()):
        reply = await plane.http.post(
            f"/api/sessions/import?id={under}",
            content=exported.content,
            headers={"Content-Type": "application/x-ndjson"},
        )
        assert reply.status_code == 201, reply.text
        await nowhere(plane, under, Z)
        assert await texts(plane, under) == ["echo two", "two"]
        await turn(plane, under, "message hello")
        assert (await texts(plane, under))[:2] == ["echo two", "two"]


async def test_a_repeat_under_the_key_of_a_deleted_turn_is_refused(plane: Plane) -> None:
    """C10, C16: with the error TASK_DELETED, on each repeat."""
    context, key = fresh(), fresh()
    message = {"messageId": fresh(), "contextId": context, "role": "ROLE_USER", "parts": [{"text": f"echo {Z}"}]}
    params = {"message": message}
    task = (await plane.result("SendMessage", params, **{"Idempotency-Key": key}))["task"]
    await delete(plane, task["id"])
    for _ in range(2):
        error = await plane.error("SendMessage", params, **{"Idempotency-Key": key})
        assert "TASK_DELETED" in str(error) or "deleted" in error["message"], error
    assert (await data(plane, f"/api/sessions/{context}/tasks")) is None
