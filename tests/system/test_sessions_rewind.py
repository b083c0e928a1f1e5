"""Rewound sessions outlive the processes that rewound them, in both versions and both ways."""

from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from tests.support.postgres import Cluster
from tests.system.plane import running
from tests.system.wire import Json, client, data, result, stream, text_message, text_message_0_3

REWIND = "kagent_rewind_before_invocation_id"
WAYS = ["message/send", "message/stream", "SendMessage", "SendStreamingMessage"]


async def sent(http: httpx.AsyncClient, method: str, context: str, text: str, **metadata: str) -> list[Json]:
    """The tasks that a send is answered with."""
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
    """The flatten of the session's tasks, which is also what the other routes show."""
    found: dict[str, Json] = {}
    for task in await data(http, f"/api/sessions/{context}/tasks") or []:
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
async def test_a_rewound_session_is_what_it_was_after_a_restart(
    mode: str, server: Cluster | None, tmp_path: Path
) -> None:
    """R3, R4, R5, R8 (ABCA): cut before B, killed, started: A; D; cut before A, killed: nothing; undone: A, D."""
    names = ("dev",) if mode == "one" else ("tasks", "sessions", "executor", "gateway")

    async with running(mode, tmp_path, server=server) as plane:

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
async def test_a_watch_lives_through_a_restart_of_the_stores(server: Cluster | None, tmp_path: Path) -> None:
    """M5: it is told everything that comes after, beginning with a new snapshot of the tasks."""
    async with running("four", tmp_path, server=server) as plane, client(plane.url) as http:
        context = uuid4().hex
        await sent(http, "SendMessage", context, "A")
        names: list[str] = []
        said: list[str] = []
        async with http.stream("GET", f"/api/sessions/{context}/watch") as reply:
            lines = reply.aiter_lines()
            while "event: snapshot" not in names:
                names.append(await anext(lines))
            for name in ("tasks", "sessions"):
                await plane.kill(name)
            await plane.start("tasks", "sessions")
            await sent(http, "SendMessage", context, "B")
            names.clear()
            async for line in lines:
                names.append(line)
                if line.startswith("data: ") and '"state":"completed"' in line and "event: task-state-changed" in names:
                    break
                said.append(line)
        assert "event: snapshot" in names
        assert any('"text":"B"' in line for line in said)
