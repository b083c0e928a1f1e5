"""Order of the list of sessions: by the last change of any kind."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.executor.plane import eventually
from tests.executor.scripted import Scripted
from tests.gateway.conversing import Way, data, invocation, rewind, say
from tests.gateway.plane import Json, Plane, fresh, open_all

from taskplane.agents.agent import ArtifactChunk, Change, Complete, Turn

SEND = Way("1.0", False)


@pytest.fixture
async def plane(database_url: str, tmp_path: Path) -> AsyncGenerator[Plane, None]:
    """A plane on each engine."""
    async with open_all(tmp_path, database_url=database_url) as plane:
        yield plane


async def test_a_changed_session_is_listed_first(plane: Plane) -> None:
    """T9: messages, entries, documents that are stored, moved and deleted, cancels, rewinds and renames."""
    sessions = [fresh() for _ in range(3)]
    for context in sessions:
        await say(plane, SEND, context, "A")
    document: Json = {"id": fresh(), "status": {"state": "working"}}

    async def put(context: str, **fields: Any) -> None:
        document.update(contextId=context, **fields)
        assert (await plane.http.post("/api/tasks", json=document)).status_code == 201

    async def delete(context: str) -> None:
        assert (await plane.http.delete(f"/api/tasks/{document['id']}")).status_code == 204

    async def event(context: str) -> None:
        body = {"id": fresh(), "data": "{}"}
        assert (await plane.http.post(f"/api/sessions/{context}/events", json=body)).status_code == 201

    async def rename(context: str) -> None:
        assert (await plane.http.patch(f"/api/sessions/{context}", json={"name": "new"})).status_code == 200

    running: dict[str, str] = {}

    async def begin(context: str) -> None:
        task = await plane.send("slow 400", message={"contextId": context}, returnImmediately=True)
        running[context] = task["id"]

    async def cancel(context: str) -> None:
        await plane.result("CancelTask", {"id": running[context]})

    async def operate(context: str) -> None:
        assert (await plane.http.post(f"/api/ops/tasks/{running[context]}/cancel")).status_code == 200

    async def cut(context: str) -> None:
        await rewind(plane, SEND, context, await invocation(plane, context, "A"))

    first, second, third = sessions
    steps: list[tuple[Callable[[str], Awaitable[None]], str]] = [
        (put, first),
        (event, third),
        (put, first),
        (put, second),
        (delete, second),
        # Between these two steps nothing else changes.
        (begin, first),
        (cancel, first),
        (rename, third),
        (cut, second),
        (begin, third),
        (rename, second),
        (operate, third),
    ]
    for number, (change, context) in enumerate(steps):
        await change(context)
        for query in ("", "?limit=2"):
            listed = await data(plane, f"/api/sessions{query}")
            assert listed[0]["id"] == context, (number, query)
            times = [session["updatedAt"] for session in listed]
            assert times == sorted(times, reverse=True)


async def test_the_end_of_a_task_without_a_message_is_a_change(database_url: str, tmp_path: Path) -> None:
    """T9."""
    released = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        if turn.text == "wait":
            await released.wait()
            yield ArtifactChunk("a", text="made")
        yield Complete()

    async with open_all(tmp_path, ("a", Scripted(script)), database_url=database_url) as plane:
        older, newer = fresh(), fresh()
        await plane.send("wait", message={"contextId": older}, returnImmediately=True)
        await plane.send("A", message={"contextId": newer})

        async def first() -> str:
            listed: list[Json] = await data(plane, "/api/sessions?limit=1")
            found: str = listed[0]["id"]
            return found

        assert await first() == newer
        released.set()
        assert await eventually(first, lambda found: found == older)
