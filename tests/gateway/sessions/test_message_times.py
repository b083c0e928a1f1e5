"""Ids and commit times of messages: every message has both, and they are the same on every route."""

import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conversing import Way, data, flat, invocation, rewind, say, shown, texts
from tests.gateway.plane import GROWING, Json, Plane, fresh, open_all, said_0_3

pytestmark = pytest.mark.one_engine

TIME = "taskplane.dev/time"
SEND = Way("1.0", False)


@pytest.fixture
async def plane(database_url: str, tmp_path: Path) -> AsyncGenerator[Plane, None]:
    """A plane on each engine."""
    async with open_all(tmp_path, database_url=database_url) as plane:
        yield plane


def time_of(message: Json) -> datetime:
    text: str = message["metadata"][TIME]
    assert text.endswith("Z")
    return datetime.fromisoformat(text)


def document(context: str, *history: Json, **fields: Any) -> Json:
    return {"id": fresh(), "contextId": context, "status": {"state": "working"}, "history": list(history), **fields}


def said(text: str, role: str = "user", **fields: Any) -> Json:
    return {"kind": "message", "role": role, "parts": [{"kind": "text", "text": text}], **fields}


async def session(plane: Plane) -> str:
    reply = await plane.http.post("/api/sessions", json={"agent_ref": "runtime"})
    context: str = reply.json()["data"]["id"]
    return context


async def put(plane: Plane, task: Json) -> list[Json]:
    """Store a document, and return the messages of the answer."""
    reply = await plane.http.post("/api/tasks", json=task)
    assert reply.status_code == 201, reply.text
    history: list[Json] = reply.json()["data"]["history"]
    return history


async def test_every_message_has_the_time_of_its_commit(plane: Plane) -> None:
    """T11: messages of tasks, direct answers, questions and their answers, ends, failures, rewinds and pushed
    histories."""
    context, begin = fresh(), datetime.now(UTC) - timedelta(seconds=1)
    for text in ("A", "message direct", "tool", "fail", "ask Which?"):
        await plane.send(text, message={"contextId": context})
    asked = (await data(plane, f"/api/sessions/{context}/tasks"))[-1]
    await plane.send("That one", message={"taskId": asked["id"], "contextId": context})
    messages: list[Json] = []
    times: list[datetime] = []
    for _ in range(2):
        await say(plane, SEND, context, "B")
        assert "direct" in await shown(plane, context)
        messages = await flat(plane, context)
        times = [time_of(message) for message in messages]
        assert times == sorted(times) and begin < times[0] and times[-1] < datetime.now(UTC) + timedelta(seconds=1)
        await rewind(plane, SEND, context, await invocation(plane, context, "B"))
    pushed = [*messages[:2], said("Pushed", messageId=fresh())]
    reply = await plane.http.put(f"/api/sessions/{context}/effective_history", json={"messages": pushed})
    stored: list[Json] = reply.json()["data"]["messages"]
    assert stored[:2] == messages[:2]
    assert time_of(stored[2]) >= times[-1]
    assert (await shown(plane, context))[-1] == "Pushed"


async def test_an_unchanged_pushed_message_keeps_its_time(plane: Plane) -> None:
    """T11: after any number of pushes, also if it was cut meanwhile. A message with other content gets a new time."""
    context = fresh()
    for text in ("A", "message direct", "tool", "B"):
        await plane.send(text, message={"contextId": context})
    messages = await flat(plane, context)
    await rewind(plane, SEND, context, await invocation(plane, context, "B"))
    path = f"/api/sessions/{context}/effective_history"
    for added in range(3):
        reply = await plane.http.put(path, json=messages)
        assert reply.json()["data"]["messages"] == messages == await flat(plane, context)
        messages.append(said(f"summary {added}", messageId=fresh()))
        messages = (await plane.http.put(path, json=messages)).json()["data"]["messages"]
    other = {**messages[-1], "parts": [{"kind": "text", "text": "other"}]}
    stored = (await plane.http.put(path, json=[*messages[:-1], other])).json()["data"]["messages"]
    assert stored[:-1] == messages[:-1]
    assert time_of(stored[-1]) > time_of(messages[-1])


async def test_streamed_messages_have_times_and_partial_ones_have_none(plane: Plane) -> None:
    """T11: the times are equal to those of the log."""
    context = fresh()
    streamed = await plane.streamed(
        "message/stream", {"message": said_0_3("echo one two three", contextId=context)}, **GROWING
    )
    log = [event.result for event in streamed]
    messages = [event["status"]["message"] for event in log if "message" in event.get("status", {})]
    assert len(messages) > 2
    for message in messages:
        assert (TIME in message["metadata"]) != bool(message["metadata"].get("kagent_adk_partial"))
    (last,) = [message for message in await flat(plane, context) if message["role"] == "agent"]
    assert last["metadata"][TIME] == messages[-1]["metadata"][TIME]


async def test_document_messages_keep_the_time_of_their_first_save(plane: Plane) -> None:
    """T11: times in the document are ignored."""
    context = await session(plane)
    one, two = said("one", messageId=fresh()), said("two", "agent", messageId=fresh())
    task = document(context, one)
    (first,) = await put(plane, task)
    forged = {**first, "metadata": {TIME: "2001-01-01T00:00:00Z", "own": 1}}
    again = await put(plane, {**task, "history": [forged], "status": {"state": "working", "message": two}})
    assert [time_of(again[0]), again[0]["metadata"]["own"]] == [time_of(first), 1]
    assert time_of(again[1]) > time_of(first)
    final = await put(plane, {**task, "history": [one, two]})
    assert [time_of(message) for message in final] == [time_of(message) for message in again]
    assert await flat(plane, context) == final == (await data(plane, f"/api/sessions/{context}/messages"))["messages"]


async def test_document_messages_without_an_id_get_unique_ids(plane: Plane) -> None:
    """T11, T6: also equal messages, none of which is lost. Later saves of the document keep the ids."""
    context = await session(plane)
    task = document(context, said("ok"), said("ok"), said("ok", "agent"), said("named", messageId=fresh()))
    task["status"]["message"] = said("last", "agent")
    first = await put(plane, task)
    assert len({message["messageId"] for message in first}) == 5
    assert texts(await flat(plane, context)) == ["ok", "ok", "ok", "named", "last"]
    assert await put(plane, task) == first
    # The runtime moves the message of the status to the history.
    assert await put(plane, {**task, "history": [*task["history"], said("last", "agent")]}) == first
    # The runtime saves the document that it has read.
    (read,) = await data(plane, f"/api/sessions/{context}/tasks")
    assert await put(plane, read) == first
    other = document(context, said("ok"))
    (own,) = await put(plane, other)
    assert own["messageId"] not in {message["messageId"] for message in first}


async def test_exported_and_imported_messages_keep_their_times(plane: Plane) -> None:
    """T11."""
    context = fresh()
    for text in ("A", "message direct", "B"):
        await plane.send(text, message={"contextId": context})
    before = await flat(plane, context)
    lines = (await plane.http.get(f"/api/sessions/{context}/export")).content
    entries = [json.loads(line)["entry"] for line in lines.splitlines() if b'"type":"entry"' in line]
    messages = [entry["message"] for entry in entries if "message" in entry]
    assert messages and all(TIME in message["metadata"] for message in messages)
    headers = {"content-type": "application/x-ndjson"}
    new = fresh()
    reply = await plane.http.post(f"/api/sessions/import?id={new}", content=lines, headers=headers)
    assert reply.status_code == 201, reply.text
    assert [time_of(message) for message in await flat(plane, new)] == [time_of(message) for message in before]
