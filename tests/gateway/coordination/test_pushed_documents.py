"""Pushed histories of sessions with documents: omitted messages stay hidden, and nothing else is lost."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conversing import INVOCATION, Way, data, echo, flat, say, shown, texts
from tests.gateway.plane import Json, Plane, fresh, open_all

pytestmark = pytest.mark.one_engine

SEND = Way("1.0", False)
ADK = "adk_invocation_id"


@pytest.fixture
async def plane(database_url: str, tmp_path: Path) -> AsyncGenerator[Plane, None]:
    """A plane on each engine."""
    async with open_all(tmp_path, database_url=database_url) as plane:
        yield plane


def said(text: str, role: str = "agent", **metadata: str) -> Json:
    one: Json = {"kind": "message", "role": role, "messageId": fresh(), "parts": [{"kind": "text", "text": text}]}
    return {**one, "metadata": metadata} if metadata else one


async def save(plane: Plane, context: str, *history: Json, task_id: str = "", **fields: Any) -> str:
    task: Json = {"id": task_id or fresh(), "contextId": context, "status": {"state": "completed"}, **fields}
    reply = await plane.http.post("/api/tasks", json={**task, "history": list(history)})
    assert reply.status_code == 201, reply.text
    return str(task["id"])


async def push(plane: Plane, context: str, messages: list[Json]) -> list[Json]:
    reply = await plane.http.put(f"/api/sessions/{context}/effective_history", json={"messages": messages})
    assert reply.status_code == 200, reply.text
    stored: list[Json] = reply.json()["data"]["messages"]
    return stored


async def effective(plane: Plane, context: str) -> Any:
    return await data(plane, f"/api/sessions/{context}/effective_history")


async def pages(plane: Plane, context: str, limit: int) -> list[Json]:
    """Return all pages, the newest first."""
    path = f"/api/sessions/{context}/effective_history?limit={limit}"
    found = [await data(plane, path)]
    while found[-1]["before"]:
        found.append(await data(plane, f"{path}&before={found[-1]['before']}"))
    return found


async def begun(plane: Plane) -> str:
    """Create a session of a runtime, and return its id."""
    found: str = (await plane.http.post("/api/sessions", json={"agent_ref": "a"})).json()["data"]["id"]
    return found


async def event(plane: Plane, context: str, turn: str) -> None:
    body = {"id": fresh(), "data": json.dumps({"invocation_id": turn})}
    assert (await plane.http.post(f"/api/sessions/{context}/events", json=body)).status_code == 201


async def listed(plane: Plane, context: str) -> list[str]:
    return [task["id"] for task in await data(plane, f"/api/sessions/{context}/tasks")]


@pytest.mark.parametrize("key", [INVOCATION, ADK])
async def test_messages_that_a_push_omits_from_a_document_turn_stay_hidden(plane: Plane, key: str) -> None:
    """R7, R5: the turn is closed, as that of a managed task is. This holds whether or not the summary names the turn,
    and for all later saves of the turn. A new turn is shown."""
    for marks in ({}, {key: "i1"}):
        context = await begun(plane)
        history = [said("u1", "user", **{key: "i1"}), said("a1", **{key: "i1"})]
        document = await save(plane, context, *history)
        other = await save(plane, context, said("u2", "user", **{key: "i2"}), said("a2", **{key: "i2"}))
        kept = [history[0], said("sum", **marks)]
        last = (await effective(plane, context))["messages"][2:]
        assert texts(await push(plane, context, [*kept, *last])) == ["u1", "sum", "u2", "a2"]
        assert await shown(plane, context) == ["u1", "sum", "u2", "a2"]
        assert other in await listed(plane, context) and document not in await listed(plane, context)
        history.append(said("late", **{key: "i1"}))
        await save(plane, context, *history, task_id=document)
        assert await shown(plane, context) == ["u1", "sum", "u2", "a2"]
        await save(plane, context, *history, said("new", **{key: "i3"}), task_id=document)
        assert await shown(plane, context) == ["u1", "sum", "u2", "a2", "new"]


async def test_pushing_an_unchanged_history_changes_nothing(plane: Plane) -> None:
    """R7, R5, T11: messages, order, times, pages and tasks stay the same, also after a second push and for every form
    of naming turns. Documents continue in their turns."""
    context = fresh()
    await say(plane, SEND, context, "A")
    history = [said("x1", "user"), said("y1", **{ADK: f"{context}-9"})]
    document = await save(plane, context, *history)
    await say(plane, SEND, context, "B")
    named = [said("x2", "user"), said("y2")]
    other = await save(plane, context, *named, metadata={INVOCATION: f"{context}-10"})
    whole = [*echo("A"), "x1", "y1", *echo("B"), "x2", "y2"]
    before, tasks = await effective(plane, context), await listed(plane, context)
    assert texts(before["messages"]) == whole == await shown(plane, context)
    for _ in range(2):
        assert await push(plane, context, before["messages"]) == before["messages"]
        assert (await effective(plane, context))["messages"] == before["messages"] == await flat(plane, context)
        assert await shown(plane, context) == whole
        assert [one for one in await listed(plane, context) if one != context] == tasks
        for task in await data(plane, f"/api/sessions/{context}/tasks"):
            assert all(one in before["messages"] for one in task["history"])
    history.append(said("z1", **{ADK: f"{context}-9"}))
    await save(plane, context, *history, task_id=document)
    assert sorted(await shown(plane, context)) == sorted([*whole, "z1"])
    left = [one for one in before["messages"] if texts([one]) not in (["x2"], ["y1"])]
    await push(plane, context, left)
    assert await shown(plane, context) == texts(left)
    assert document not in await listed(plane, context) and other not in await listed(plane, context)


async def test_documents_and_events_keep_their_positions_in_pages(plane: Plane) -> None:
    """R7, R10: a page has at most `limit` items. All pages together equal the whole history, as of the first page."""
    context = await begun(plane)
    await say(plane, SEND, context, "A")
    for turn in ("i1", "i2", "i3"):
        for _ in range(2):
            await event(plane, context, f"{context}-{turn}")
        name = {ADK: f"{context}-{turn}"}
        await save(plane, context, said(f"{turn}?", "user", **name), said(f"{turn}!", **name))
        await say(plane, SEND, context, turn)
    whole = await effective(plane, context)
    assert texts(whole["messages"]) == await shown(plane, context)
    assert (len(whole["messages"]), len(whole["events"])) == (14, 6)
    for limit in (1, 2, 5, 100):
        found = await pages(plane, context, limit)
        assert all(len(page["messages"]) + len(page["events"]) == limit for page in found[:-1])
        for kind in ("messages", "events"):
            assert [one for page in reversed(found) for one in page[kind]] == whole[kind]
        assert {page["version"] for page in found} == {whole["version"]}
    first = await data(plane, f"/api/sessions/{context}/effective_history?limit=7")
    await say(plane, SEND, context, "late")
    rest = await data(plane, f"/api/sessions/{context}/effective_history?limit=100&before={first['before']}")
    assert [*rest["messages"], *first["messages"]] == whole["messages"]
    assert (rest["version"], rest["before"]) == (whole["version"], None)
    for wrong in (f"{first['before']}x", first["before"][3:], "no"):
        reply = await plane.http.get(f"/api/sessions/{context}/effective_history?before={wrong}")
        assert reply.status_code == 400, reply.text


async def test_a_push_over_document_turns_survives_an_export_and_import(plane: Plane) -> None:
    """O4, R7: the copy under another id has the kept and the reduced turns, and can be rewound."""
    context = await begun(plane)
    for turn in ("i1", "i2", "i3"):
        name = {ADK: f"{context}-{turn}"}
        await save(plane, context, said(f"{turn}?", "user"), said(f"{turn}!", **name))
    messages = (await effective(plane, context))["messages"]
    await push(plane, context, messages[:-1])
    assert await shown(plane, context) == ["i1?", "i1!", "i2?", "i2!", "i3?"]
    body = (await plane.http.get(f"/api/sessions/{context}/export")).content
    new = fresh()
    headers = {"content-type": "application/x-ndjson"}
    reply = await plane.http.post(f"/api/sessions/import?id={new}", content=body, headers=headers)
    assert reply.status_code == 201, reply.text
    assert await shown(plane, new) == ["i1?", "i1!", "i2?", "i2!", "i3?"]
    turn = next(one for one in await flat(plane, new) if texts([one]) == ["i2!"])["metadata"][ADK]
    for session, before in ((context, f"{context}-i2"), (new, turn)):
        reply = await plane.http.post(f"/api/sessions/{session}/rewind", json={"before": before})
        assert reply.status_code == 200, reply.text
        assert await shown(plane, session) == ["i1?", "i1!"]
