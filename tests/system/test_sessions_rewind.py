"""Rewound sessions outlive the processes that rewound them, in both versions and both ways."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from tests.support.postgres import Cluster
from tests.system.plane import STEADY, running
from tests.system.wire import Json, client, data, result, stream, text_message, text_message_0_3

REWIND = "kagent_rewind_before_invocation_id"
WAYS = ["message/send", "message/stream", "SendMessage", "SendStreamingMessage"]


async def sent(http: httpx.AsyncClient, method: str, context: str, text: str, **metadata: str) -> list[Json]:
    """Returns the tasks in the answer to a send."""
    old = "/" in method
    message = (text_message_0_3 if old else text_message)(text, contextId=context, metadata=metadata)
    params: Json = {"message": message, "configuration": {"blocking": True} if old else {}}
    if method in ("message/send", "SendMessage"):
        results = [await result(http, method, params)]
    else:
        async with stream(http, method, params, **{"A2A-Version": "0.3" if old else "1.0"}) as events:
            results = [event.result async for event in events]
    if old:
        return [found for found in results if found["kind"] == "task"]
    return [found["task"] for found in results if "task" in found]


def texts(messages: list[Json]) -> list[str]:
    return ["".join(part.get("text", "") for part in message["parts"]) for message in messages]


async def flat(http: httpx.AsyncClient, context: str) -> list[Json]:
    """Returns the flattened tasks of the session, and checks the other routes against them."""
    found: dict[str, Json] = {}
    tasks: list[Json] = await data(http, f"/api/sessions/{context}/tasks") or []
    for task in tasks:
        for message in task.get("history", []):
            found.setdefault(message["messageId"], message)
    messages = list(found.values())
    assert (await data(http, f"/api/sessions/{context}/messages"))["messages"] == messages
    assert (await data(http, f"/api/sessions/{context}/effective_history"))["messages"] == messages
    return messages


async def turn(http: httpx.AsyncClient, context: str, text: str) -> str:
    messages = await flat(http, context)
    found: str = next(one for one in messages if texts([one]) == [text])["metadata"]["kagent_invocation_id"]
    return found


@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", ["one", "four"])
async def test_a_rewound_session_is_unchanged_after_a_restart(
    mode: str, server: Cluster | None, tmp_path: Path
) -> None:
    """R3, R4, R5, R8 (ABCA): cut before B, killed, started: A; D; cut before A, killed: nothing; undone: A, D."""
    names = ("dev",) if mode == "one" else ("tasks", "sessions", "executor", "gateway")

    async with running(mode, tmp_path, STEADY, server=server) as plane:

        async def restart() -> None:
            for name in names:
                await plane.kill(name)
            await plane.start(*names)

        contexts = {method: uuid4().hex for method in WAYS}
        async with client(plane.url) as http:
            for method, context in contexts.items():
                for word in "ABC":
                    await sent(http, method, context, word)
                (task,) = await sent(http, method, context, "", **{REWIND: await turn(http, context, "B")})
                assert (task["id"], texts(task["history"])) == (context, ["A", "A"]), method
        await restart()
        async with client(plane.url) as http:
            for method, context in contexts.items():
                assert texts(await flat(http, context)) == ["A", "A"], method
                await sent(http, method, context, "D")
                assert texts(await flat(http, context)) == ["A", "A", "D", "D"], method
                (task,) = await sent(http, method, context, "", **{REWIND: await turn(http, context, "A")})
                assert (task["id"], task.get("history", [])) == (context, []), method
        await restart()
        async with client(plane.url) as http:
            for method, context in contexts.items():
                assert await flat(http, context) == [], method
                undone = await http.post(f"/api/sessions/{context}/undo_rewind")
                assert texts(undone.json()["data"]["messages"]) == ["A", "A", "D", "D"], method
                assert texts(await flat(http, context)) == ["A", "A", "D", "D"], method
                infos = await data(http, f"/api/sessions/{context}/task-infos?include=superseded")
                assert [info.get("superseded", False) for info in infos] == [False, True, True, False]


@pytest.mark.timeout(120)
async def test_a_watch_continues_across_a_restart_of_the_stores(server: Cluster | None, tmp_path: Path) -> None:
    """M5: it begins again with the existing tasks, and misses no entry; each of them comes once."""
    async with running("four", tmp_path, STEADY, server=server) as plane, client(plane.url) as http:
        context = uuid4().hex
        await sent(http, "SendMessage", context, "A")
        async with asyncio.timeout(60), http.stream("GET", f"/api/sessions/{context}/watch") as reply:
            events = named(reply)
            assert (await anext(events))[0] == "snapshot"
            for name in ("tasks", "sessions"):
                await plane.kill(name)
            await plane.start("tasks", "sessions")
            (task,) = await sent(http, "SendMessage", context, "B")
            names: list[str] = []
            entries: list[Json] = []
            completed: set[str] = set()
            while task["id"] not in completed or len(entries) < 3:
                name, told = await anext(events)
                names.append(name)
                entries += [told] if name == "entry-added" else []
                infos = [told] if name.startswith("task-") else told.get("tasks", [])
                completed |= {info["taskId"] for info in infos if info["state"] == "completed"}
        assert "snapshot" in names
        assert len({entry["entryId"] for entry in entries}) == len(entries)
        assert texts([entry["message"] for entry in entries if "message" in entry]) == ["B", "B"]


async def named(reply: httpx.Response) -> AsyncIterator[tuple[str, Json]]:
    """The named events of a stream."""
    name = ""
    async for line in reply.aiter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)
