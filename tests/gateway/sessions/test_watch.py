"""Watches of a session by several clients at once."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.executor.plane import until
from tests.gateway.conversing import REWIND, Way, data, invocation, rewind, say, texts, version
from tests.gateway.plane import Event, Json, Plane, events, fresh, open_all, open_behind, open_front

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEND = Way("1.0", False)


@asynccontextmanager
async def watching(plane: Plane, context: str) -> AsyncGenerator[AsyncIterator[Event]]:
    """Yield the events of a watch."""
    async with asyncio.timeout(20), plane.http.stream("GET", f"/api/sessions/{context}/watch") as reply:
        assert reply.status_code == 200
        assert reply.headers["content-type"] == "text/event-stream"
        yield events(reply)


async def through(stream: AsyncIterator[Event], *last: str) -> list[Event]:
    """Return the events up to the last of these names; a repeated name is waited for as often."""
    wanted = list(last)
    found: list[Event] = []
    while wanted:
        event = await anext(stream)
        found.append(event)
        if event.name in wanted:
            wanted.remove(event.name)
    return found


def named(found: list[Event], name: str) -> list[Any]:
    return [event.data for event in found if event.name == name]


async def ended(stream: AsyncIterator[Event], task_id: str, messages: int = 0) -> list[Event]:
    """Return the events up to the completion of a task and this number of messages, which come from two stores."""
    found: list[Event] = []
    states: list[str] = []
    said = 0
    while "completed" not in states or said < messages:
        found.append(await anext(stream))
        # A slow watcher may get only the latest state of a task.
        infos = [*named(found, "task-received"), *named(found, "task-state-changed")]
        states = [info["state"] for info in infos if info["taskId"] == task_id]
        said = sum("message" in entry for entry in named(found, "entry-added"))
    return found


async def test_every_watcher_gets_the_turn_of_any_client(plane: Plane) -> None:
    """M5: a snapshot, then tasks, their states and the entries, in order and without cursors."""
    context = fresh()
    await say(plane, SEND, context, "A")
    async with watching(plane, context) as one, watching(plane, context) as two:
        for stream in (one, two):
            snapshot = await anext(stream)
            assert (snapshot.name, snapshot.id) == ("snapshot", "")
            assert snapshot.data == {
                "version": await version(plane, context),
                "tasks": await data(plane, f"/api/sessions/{context}/task-infos"),
            }
        task = await plane.send("B", message={"contextId": context})
        for stream in (one, two):
            found = await ended(stream, task["id"], 2)
            (received,) = named(found, "task-received")
            assert received["taskId"] == task["id"]
            assert received["state"] in ("pending", "working", "completed")
            added = named(found, "entry-added")
            said = [entry["message"] for entry in added if "message" in entry]
            assert texts(said) == ["B", "B"]
            assert {entry["kind"] for entry in added} <= {"message", "outcome"}
            turn = said[0]["metadata"]["kagent_invocation_id"]
            assert {entry["invocationId"] for entry in added} == {turn}
            assert added[-1]["taskId"] == task["id"]
            assert all(event.id == "" for event in found)
    assert added[-1]["version"] == await version(plane, context)


async def of_task(stream: AsyncIterator[Event]) -> Event:
    """Return the next event about a task, without the entries of its turn."""
    event = await anext(stream)
    while event.name == "entry-added":
        event = await anext(stream)
    return event


async def test_watchers_get_every_change_of_a_document(plane: Plane) -> None:
    """M5, T4: it grows, ends, moves to another session and back, and is deleted."""
    here, there = fresh(), fresh()
    for context in (here, there):
        await say(plane, SEND, context, "A")
    message = {"kind": "message", "messageId": fresh(), "role": "agent", "parts": [{"kind": "text", "text": "so far"}]}
    document: Json = {"id": fresh(), "contextId": here, "status": {"state": "working"}}
    steps: list[tuple[Json, str, str]] = [
        ({}, "task-received", ""),
        ({"history": [message]}, "task-updated", ""),
        ({"status": {"state": "completed"}}, "task-state-changed", ""),
        ({"contextId": there}, "task-removed", "task-received"),
        ({"contextId": here}, "task-received", "task-removed"),
    ]
    async with watching(plane, here) as stream, watching(plane, there) as elsewhere:
        await anext(stream)
        await anext(elsewhere)
        for change, name, other in steps:
            document |= change
            assert (await plane.http.post("/api/tasks", json=document)).status_code == 201
            event = await of_task(stream)
            assert (event.name, event.data["taskId"]) == (name, document["id"]), name
            assert not other or (await of_task(elsewhere)).name == other
        assert (await plane.http.delete(f"/api/tasks/{document['id']}")).status_code == 204
        found = await through(stream, "entry-added", "rewound", "task-removed")
        assert named(found, "task-removed") == [{"taskId": document["id"]}]


async def test_watchers_get_the_turns_and_tasks_of_a_rewind_and_its_undo(plane: Plane) -> None:
    """M5, R4, R8: the cut turns, and the tasks that are hidden or shown again."""
    context = fresh()
    for word in "ABC":
        await say(plane, SEND, context, word)
    turns = [await invocation(plane, context, word) for word in "BC"]
    async with watching(plane, context) as stream:
        await anext(stream)
        await rewind(plane, SEND, context, turns[0])
        found = await through(stream, "rewound", "task-state-changed", "task-state-changed")
        (rewound,) = named(found, "rewound")
        assert rewound == {"version": await version(plane, context), "cut": turns}
        assert [info["superseded"] for info in named(found, "task-state-changed")] == [True, True]
        assert named(found, "entry-added")[0]["kind"] == "rewind"
        await plane.http.post(f"/api/sessions/{context}/undo_rewind")
        found = await through(stream, "rewound", "task-state-changed", "task-state-changed")
        assert named(found, "rewound")[0]["cut"] == []
        assert [info.get("superseded", False) for info in named(found, "task-state-changed")] == [False, False]


async def test_watchers_get_a_pushed_history_as_a_rewind(plane: Plane) -> None:
    """M5, R7, R10."""
    context = fresh()
    await say(plane, SEND, context, "A")
    turn = await invocation(plane, context, "A")
    async with watching(plane, context) as stream:
        await anext(stream)
        await plane.http.put(f"/api/sessions/{context}/effective_history", json={"messages": []})
        (rewound,) = named(await through(stream, "rewound"), "rewound")
        assert turn in rewound["cut"]


async def test_watchers_get_a_failed_rewind_as_an_entry_only(plane: Plane) -> None:
    """M5, R9."""
    context = fresh()
    await say(plane, SEND, context, "A")
    async with watching(plane, context) as stream:
        await anext(stream)
        await rewind(plane, SEND, context, "none")
        await say(plane, SEND, context, "B")
        # They come from two stores, in any order.
        found = await through(stream, "task-received", "entry-added")
        assert named(found, "rewound") == []
        assert named(found, "entry-added")[0]["kind"] == "rewind"


async def test_all_watches_of_a_deleted_session_end(plane: Plane) -> None:
    """M5: without an error. A new watch is 404."""
    context = fresh()
    await say(plane, SEND, context, "A")
    async with watching(plane, context) as one, watching(plane, context) as two:
        for stream in (one, two):
            await anext(stream)
        assert (await plane.http.delete(f"/api/sessions/{context}")).status_code == 200
        for stream in (one, two):
            assert "error" not in [event.name async for event in stream]
    assert (await plane.http.get(f"/api/sessions/{context}/watch")).status_code == 404


async def test_a_closed_watch_does_not_count_for_the_limit_of_streams(tmp_path: Path) -> None:
    """M5: an open one does."""
    async with open_all(tmp_path, max_streams_per_principal=2) as plane:
        context = fresh()
        await say(plane, SEND, context, "A")
        path = f"/api/sessions/{context}/watch"
        for _ in range(3):
            async with watching(plane, context) as one, watching(plane, context) as two:
                await anext(one)
                await anext(two)
                reply = await plane.http.get(path)
                assert (reply.status_code, reply.json()["code"]) == (429, "TOO_MANY_STREAMS")
            await plane.at_zero()


async def test_a_watch_has_keep_alives_and_ends_with_a_retry_time_on_a_drain(tmp_path: Path) -> None:
    """M5: after a restart the watch begins with a snapshot."""
    async with open_behind(tmp_path) as behind:
        context = fresh()
        lines: list[str] = []
        async with open_front(behind, keep_alive=0.05) as plane:
            await say(plane, SEND, context, "A")
            watched = asyncio.create_task(_lines(plane.gateway.url, context, lines))
            await until(lambda: ": ping" in lines)
        async with asyncio.timeout(10):
            await watched
        assert lines[-1].startswith("retry: ")
        async with open_front(behind) as plane, watching(plane, context) as stream:
            assert (await anext(stream)).name == "snapshot"


async def _lines(url: str, context: str, lines: list[str]) -> None:
    async with (
        httpx.AsyncClient(base_url=url, timeout=20.0) as http,
        http.stream("GET", f"/api/sessions/{context}/watch") as reply,
    ):
        async for line in reply.aiter_lines():
            lines.append(line)


@pytest.mark.parametrize("version_of", ["0.3", "1.0"])
async def test_watchers_get_a_rewind_before_its_new_turn(plane: Plane, version_of: str) -> None:
    """M5, R6: in the same order for all watchers."""
    way = Way(version_of, False)
    context = fresh()
    await say(plane, way, context, "A")
    await say(plane, way, context, "B")
    async with watching(plane, context) as stream:
        await anext(stream)
        await rewind(plane, way, context, await invocation(plane, context, "B"), "C")
        found = await through(stream, "rewound")
        found += await through(stream, "entry-added", "entry-added")
        kinds = [(event.name, event.data.get("kind")) for event in found if event.name in ("rewound", "entry-added")]
        assert kinds[:2] == [("entry-added", "rewind"), ("rewound", None)]
        assert REWIND not in str(found[-1].data.get("message", {}))
