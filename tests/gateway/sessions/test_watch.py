"""A session followed by several clients at once."""

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
    """The events of a watch, as they come."""
    async with asyncio.timeout(20), plane.http.stream("GET", f"/api/sessions/{context}/watch") as reply:
        assert reply.status_code == 200
        assert reply.headers["content-type"] == "text/event-stream"
        yield events(reply)


async def through(told: AsyncIterator[Event], *last: str) -> list[Event]:
    """The events up to the one with which each of these names has come as often as it is given."""
    wanted = list(last)
    found: list[Event] = []
    while wanted:
        event = await anext(told)
        found.append(event)
        if event.name in wanted:
            wanted.remove(event.name)
    return found


def named(found: list[Event], name: str) -> list[Any]:
    return [event.data for event in found if event.name == name]


async def ended(told: AsyncIterator[Event], task_id: str, messages: int = 0) -> list[Event]:
    """The events up to the completion of a task and to so many messages, which come from two stores."""
    found: list[Event] = []
    states: list[str] = []
    said = 0
    while "completed" not in states or said < messages:
        found.append(await anext(told))
        # A watcher that is slow is told of a task as it is by then.
        infos = [*named(found, "task-received"), *named(found, "task-state-changed")]
        states = [info["state"] for info in infos if info["taskId"] == task_id]
        said = sum("message" in entry for entry in named(found, "entry-added"))
    return found


async def test_every_client_sees_a_turn_of_any_of_them(plane: Plane) -> None:
    """M5: a snapshot, then tasks, their states and the entries, as they come; none of them has a place."""
    context = fresh()
    await say(plane, SEND, context, "A")
    async with watching(plane, context) as one, watching(plane, context) as two:
        for told in (one, two):
            snapshot = await anext(told)
            assert (snapshot.name, snapshot.id) == ("snapshot", "")
            assert snapshot.data == {
                "version": await version(plane, context),
                "tasks": await data(plane, f"/api/sessions/{context}/task-infos"),
            }
        task = await plane.send("B", message={"contextId": context})
        for told in (one, two):
            found = await ended(told, task["id"], 2)
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


async def of_task(told: AsyncIterator[Event]) -> Event:
    """The next event that is about a task; that the session knows a new turn of it is told as well."""
    event = await anext(told)
    while event.name == "entry-added":
        event = await anext(told)
    return event


async def test_what_becomes_of_a_document_is_told(plane: Plane) -> None:
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
    async with watching(plane, here) as told, watching(plane, there) as elsewhere:
        await anext(told)
        await anext(elsewhere)
        for change, name, other in steps:
            document |= change
            assert (await plane.http.post("/api/tasks", json=document)).status_code == 201
            event = await of_task(told)
            assert (event.name, event.data["taskId"]) == (name, document["id"]), name
            assert not other or (await of_task(elsewhere)).name == other
        assert (await plane.http.delete(f"/api/tasks/{document['id']}")).status_code == 204
        found = await through(told, "entry-added", "rewound", "task-removed")
        assert named(found, "task-removed") == [{"taskId": document["id"]}]


async def test_a_rewind_and_its_undo_reach_the_other_tab(plane: Plane) -> None:
    """M5, R4, R8: which turns are cut now, and which tasks are hidden or shown again."""
    context = fresh()
    for word in "ABC":
        await say(plane, SEND, context, word)
    turns = [await invocation(plane, context, word) for word in "BC"]
    async with watching(plane, context) as told:
        await anext(told)
        await rewind(plane, SEND, context, turns[0])
        found = await through(told, "rewound", "task-state-changed", "task-state-changed")
        (rewound,) = named(found, "rewound")
        assert rewound == {"version": await version(plane, context), "cut": turns}
        assert [info["superseded"] for info in named(found, "task-state-changed")] == [True, True]
        assert named(found, "entry-added")[0]["kind"] == "rewind"
        await plane.http.post(f"/api/sessions/{context}/undo_rewind")
        found = await through(told, "rewound", "task-state-changed", "task-state-changed")
        assert named(found, "rewound")[0]["cut"] == []
        assert [info.get("superseded", False) for info in named(found, "task-state-changed")] == [False, False]


async def test_a_pushed_history_and_a_runtimes_rewind_are_told_as_rewinds(plane: Plane) -> None:
    """M5, R7, R10."""
    context = fresh()
    await say(plane, SEND, context, "A")
    turn = await invocation(plane, context, "A")
    async with watching(plane, context) as told:
        await anext(told)
        await plane.http.put(f"/api/sessions/{context}/effective_history", json={"messages": []})
        (rewound,) = named(await through(told, "rewound"), "rewound")
        assert turn in rewound["cut"]


async def test_a_failed_rewind_is_an_entry_and_nothing_else(plane: Plane) -> None:
    """M5, R9."""
    context = fresh()
    await say(plane, SEND, context, "A")
    async with watching(plane, context) as told:
        await anext(told)
        await rewind(plane, SEND, context, "none")
        await say(plane, SEND, context, "B")
        # From two stores, in any order.
        found = await through(told, "task-received", "entry-added")
        assert named(found, "rewound") == []
        assert named(found, "entry-added")[0]["kind"] == "rewind"


async def test_a_watch_ends_with_its_session(plane: Plane) -> None:
    """M5: cleanly, however many there are; and then there is nothing to watch."""
    context = fresh()
    await say(plane, SEND, context, "A")
    async with watching(plane, context) as one, watching(plane, context) as two:
        for told in (one, two):
            await anext(told)
        assert (await plane.http.delete(f"/api/sessions/{context}")).status_code == 200
        for told in (one, two):
            assert "error" not in [event.name async for event in told]
    assert (await plane.http.get(f"/api/sessions/{context}/watch")).status_code == 404


async def test_a_watch_that_is_left_gives_its_place_back(tmp_path: Path) -> None:
    """M5: the limit of streams counts it while it is open, and no longer."""
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


async def test_a_watch_breaks_the_silence_and_ends_with_the_process(tmp_path: Path) -> None:
    """M5: a comment while nothing happens; a drain ends it with the word when to come back, and then it begins anew."""
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
        async with open_front(behind) as plane, watching(plane, context) as told:
            assert (await anext(told)).name == "snapshot"


async def _lines(url: str, context: str, lines: list[str]) -> None:
    async with (
        httpx.AsyncClient(base_url=url, timeout=20.0) as http,
        http.stream("GET", f"/api/sessions/{context}/watch") as reply,
    ):
        async for line in reply.aiter_lines():
            lines.append(line)


@pytest.mark.parametrize("version_of", ["0.3", "1.0"])
async def test_the_turn_after_a_rewind_is_told_after_it(plane: Plane, version_of: str) -> None:
    """M5, R6: one order for all."""
    way = Way(version_of, False)
    context = fresh()
    await say(plane, way, context, "A")
    await say(plane, way, context, "B")
    async with watching(plane, context) as told:
        await anext(told)
        await rewind(plane, way, context, await invocation(plane, context, "B"), "C")
        found = await through(told, "rewound")
        found += await through(told, "entry-added", "entry-added")
        kinds = [(event.name, event.data.get("kind")) for event in found if event.name in ("rewound", "entry-added")]
        assert kinds[:2] == [("entry-added", "rewind"), ("rewound", None)]
        assert REWIND not in str(found[-1].data.get("message", {}))
