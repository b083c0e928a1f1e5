"""Rewinds, undos and pushed histories in sessions with documents of a runtime, with or without events."""

import json
from typing import Any

import pytest
from tests.gateway.conversing import INVOCATION, WAYS, Way, data, flat, name_of, rewind, texts
from tests.gateway.plane import Json, Plane, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

STREAM = Way("0.3", True)


async def new_session(plane: Plane) -> str:
    """Create a session of a runtime, and return its id."""
    found: str = (await plane.http.post("/api/sessions", json={"agent_ref": "a"})).json()["data"]["id"]
    return found


async def event(plane: Plane, context: str, turn: str) -> None:
    body = {"id": fresh(), "data": json.dumps({"invocation_id": turn})}
    assert (await plane.http.post(f"/api/sessions/{context}/events", json=body)).status_code == 201


def turn(name: str, *, names: bool = True) -> list[Json]:
    """Return a question and its answer; as in kagent, only the answer names the turn."""
    marks = {"metadata": {INVOCATION: name}} if names else {}
    return [
        {"kind": "message", "role": "user", "messageId": f"{name}-q", "parts": [{"kind": "text", "text": f"{name}?"}]},
        {
            "kind": "message",
            "role": "agent",
            "messageId": f"{name}-a",
            "parts": [{"kind": "text", "text": f"{name}!"}],
            **marks,
        },
    ]


async def save(plane: Plane, context: str, *turns: str, task_id: str = "", **fields: Any) -> str:
    """Save a document with these turns, as its runtime does, and return its id."""
    task: Json = {"id": task_id or fresh(), "contextId": context, "status": {"state": "completed"}, **fields}
    task["history"] = [message for name in turns for message in turn(name)]
    reply = await plane.http.post("/api/tasks", json=task)
    assert reply.status_code == 201, reply.text
    return str(task["id"])


async def shown(plane: Plane, context: str) -> list[str]:
    """Return the texts that a client shows, and check that `/messages` returns the same."""
    messages = await flat(plane, context)
    assert await data(plane, f"/api/sessions/{context}/messages?limit=1000") == {"messages": messages, "before": None}
    return texts(messages)


def texts_of_turns(*turns: str) -> list[str]:
    return [f"{name}{end}" for name in turns for end in "?!"]


async def post(plane: Plane, context: str, action: str, status: int = 200, **body: Any) -> Any:
    reply = await plane.http.post(f"/api/sessions/{context}/{action}", json=body)
    assert reply.status_code == status, reply.text
    return reply.json()


@pytest.mark.parametrize("way", WAYS, ids=name_of)
@pytest.mark.parametrize("fed_by_events", [True, False])
async def test_a_rewind_shows_the_conversation_before_it(plane: Plane, way: Way, fed_by_events: bool) -> None:
    """R4, R5, R10: the session has a document for each turn, as kagent's runtimes store them. Every route agrees."""
    context = await new_session(plane)
    for name in ("i1", "i2", "i3"):
        if fed_by_events:
            await event(plane, context, f"{context}-{name}")
        await save(plane, context, f"{context}-{name}")
    left = texts_of_turns(f"{context}-i1")
    for again in range(2):
        ((kind, task),) = (await rewind(plane, way, context, f"{context}-i2"))[:1]
        if again:
            assert task["status"]["state"].lower().endswith("failed")
            continue
        assert (kind, task["id"]) == ("task", context)
        assert texts(task["history"]) == left
    assert await shown(plane, context) == left
    assert texts((await data(plane, f"/api/tasks/{context}"))["history"]) == left
    read = await plane.result("tasks/get" if way.version == "0.3" else "GetTask", {"id": context})
    assert texts(read["history"]) == left
    undone = await post(plane, context, "undo_rewind")
    assert texts(undone["data"]["messages"]) == await shown(plane, context)
    assert await shown(plane, context) == texts_of_turns(*(f"{context}-{name}" for name in ("i1", "i2", "i3")))


async def test_a_rewind_with_a_text_shows_the_conversation_before_the_new_turn(plane: Plane) -> None:
    """R4: the events of the new task follow."""
    context = await new_session(plane)
    for name in ("i1", "i2"):
        await save(plane, context, f"{context}-{name}")
    (_, task), *rest = await rewind(plane, STREAM, context, f"{context}-i2", "go on")
    assert texts(task["history"]) == texts_of_turns(f"{context}-i1")
    assert rest[-1][1]["status"]["state"] == "completed"
    assert await shown(plane, context) == [*texts_of_turns(f"{context}-i1"), "go on", "go on"]


async def test_a_document_of_two_turns_keeps_the_turn_before_the_cut(plane: Plane) -> None:
    """R4, R5: storing it again changes nothing. It can continue with a new turn, and an undo restores all of it."""
    context = await new_session(plane)
    one, two, three = (f"{context}-{name}" for name in ("i1", "i2", "i3"))
    made: Json = {"artifacts": [{"artifactId": "a", "parts": [], "metadata": {INVOCATION: two}}]}
    task_id = await save(plane, context, one, two, **made)
    ((_, task),) = await rewind(plane, STREAM, context, two)
    assert texts(task["history"]) == await shown(plane, context) == texts_of_turns(one)
    assert "artifacts" not in await data(plane, f"/api/tasks/{task_id}")
    await save(plane, context, one, two, task_id=task_id, **made)
    assert await shown(plane, context) == texts_of_turns(one)
    await post(plane, context, "undo_rewind")
    assert await shown(plane, context) == texts_of_turns(one, two)
    assert "artifacts" in await data(plane, f"/api/tasks/{task_id}")
    await rewind(plane, STREAM, context, two)
    await save(plane, context, one, two, three, task_id=task_id)
    assert await shown(plane, context) == texts_of_turns(one, three)
    assert (await post(plane, context, "undo_rewind", 409))["code"] == "TOO_LATE_TO_UNDO"


async def test_late_messages_of_a_cut_turn_stay_cut(plane: Plane) -> None:
    """R4, C8: the runtime was working on the turn, but had not stored it in the document yet."""
    context = await new_session(plane)
    one, two = (f"{context}-{name}" for name in ("i1", "i2"))
    for name in (one, two):
        await event(plane, context, name)
    task_id = await save(plane, context, one)
    await rewind(plane, STREAM, context, two)
    await save(plane, context, one, two, task_id=task_id)
    assert await shown(plane, context) == texts_of_turns(one)


async def test_a_document_with_a_cut_first_turn_is_hidden(plane: Plane) -> None:
    """R4: a rewind to the first turn cuts all turns of the document. Stored again it stays hidden; with a new turn only
    that turn is shown."""
    context = await new_session(plane)
    one, two, three = (f"{context}-{name}" for name in ("i1", "i2", "i3"))
    task_id = await save(plane, context, one, two)
    await rewind(plane, STREAM, context, one)
    await save(plane, context, one, two, task_id=task_id)
    assert await shown(plane, context) == []
    listed = await data(plane, f"/api/sessions/{context}/tasks?include=superseded")
    assert [texts(task["history"]) for task in listed if task["id"] == task_id] == [texts_of_turns(one, two)]
    await save(plane, context, one, two, three, task_id=task_id)
    assert await shown(plane, context) == texts_of_turns(three)


async def test_a_pushed_history_replaces_documents(plane: Plane) -> None:
    """R7: this includes documents of turns without an event. A document of a new turn is shown after the history."""
    context = await new_session(plane)
    one, two, three = (f"{context}-{name}" for name in ("i1", "i2", "i3"))
    task_id = await save(plane, context, one, two)
    kept = {"kind": "message", "role": "agent", "messageId": fresh(), "parts": [{"kind": "text", "text": "in short"}]}
    reply = await plane.http.put(f"/api/sessions/{context}/effective_history", json=[kept])
    assert reply.status_code == 200
    assert await shown(plane, context) == ["in short"]
    await save(plane, context, one, two, task_id=task_id)
    await save(plane, context, three)
    assert await shown(plane, context) == ["in short", *texts_of_turns(three)]


async def test_a_pushed_history_keeps_the_documents_of_the_turns_that_it_names(plane: Plane) -> None:
    """R7: the other documents are hidden."""
    context = await new_session(plane)
    one, two = (f"{context}-{name}" for name in ("i1", "i2"))
    for name in (one, two):
        await save(plane, context, name)
    named = [{**message, "metadata": {INVOCATION: one}} for message in turn(one)]
    await plane.http.put(f"/api/sessions/{context}/effective_history", json=named)
    assert await shown(plane, context) == texts_of_turns(one)


async def test_an_imported_document_keeps_its_cut_turns_hidden_and_the_rewind_can_be_undone(plane: Plane) -> None:
    """O4: after an export and an import under another id, the rewind can be undone in the new session."""
    context = await new_session(plane)
    one, two = (f"{context}-{name}" for name in ("i1", "i2"))
    await save(plane, context, one, two)
    await rewind(plane, STREAM, context, two)
    body = (await plane.http.get(f"/api/sessions/{context}/export")).content
    new = fresh()
    headers = {"content-type": "application/x-ndjson"}
    reply = await plane.http.post(f"/api/sessions/import?id={new}", content=body, headers=headers)
    assert reply.status_code == 201, reply.text
    assert await shown(plane, new) == texts_of_turns(one)
    await post(plane, new, "undo_rewind")
    assert await shown(plane, new) == texts_of_turns(one, two)
