"""Every message of a turn carries its invocation, live and in every later read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.support.postgres import Cluster
from tests.system.plane import BOUND, Plane, on_both_engines, running
from tests.system.wire import (
    Json,
    client,
    data,
    result,
    send,
    sse_log,
    stream,
    text_message,
    text_message_0_3,
    until,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

MARK = "kagent_invocation_id"


def messages(found: Any) -> Iterator[Json]:
    """Returns every message in some JSON, at any depth."""
    if isinstance(found, dict):
        if "messageId" in found:
            yield found
        for value in found.values():  # pyright: ignore[reportUnknownVariableType]
            yield from messages(value)
    elif isinstance(found, list):
        for value in found:  # pyright: ignore[reportUnknownVariableType]
            yield from messages(value)


def turns(found: Any) -> dict[str, str]:
    """Returns the invocation of each message, by its id. AssertionError: a message has none, or two."""
    marks: dict[str, str] = {}
    for message in messages(found):
        mark = message.get("metadata", {}).get(MARK)
        assert mark, message
        assert marks.setdefault(message["messageId"], mark) == mark, message
    return marks


async def said(http: httpx.AsyncClient, text: str, *, version: str = "1.0", **fields: Any) -> list[Json]:
    """Returns the content of the stream of a send."""
    old = version == "0.3"
    message = (text_message_0_3 if old else text_message)(text, **fields)
    # The first Task of a 0.3 stream has its history only on request.
    params: Json = {"message": message, "configuration": {"historyLength": 100} if old else {}}
    headers = {"A2A-Version": version}
    async with stream(http, "message/stream" if old else "SendStreamingMessage", params, **headers) as events:
        return [event.result async for event in events]


@on_both_engines
@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize(
    "text", ["some words to echo", "tool", "artifact", "ask", "flood 3", "fail", "reject", "message hi"]
)
async def test_all_messages_of_a_turn_carry_its_invocation(plane: Plane, version: str, text: str) -> None:
    """R1: the user's message, growing texts, tool calls, status texts, questions, ends and direct answers."""
    context = uuid4().hex
    async with client(plane.url) as http:
        live = await said(http, text, version=version, contextId=context)
        shown = (await data(http, f"/api/sessions/{context}/messages"))["messages"]
        (mark,) = set(turns([live, shown]).values())
        assert len(shown) >= 2
        assert shown[0]["role"] == "user"
        other = turns(await said(http, text, version=version, contextId=context))
        assert mark not in other.values()


async def views(http: httpx.AsyncClient, context: str) -> dict[str, Any]:
    """Returns a session in every form in which it can be read."""
    listed = await data(http, f"/api/sessions/{context}/tasks")
    found: dict[str, Any] = {
        "flatten": await data(http, f"/api/sessions/{context}/messages"),
        "tasks": listed,
        "session task": await data(http, f"/api/tasks/{context}"),
        "status texts": await data(http, f"/api/sessions/{context}/messages?kind=status-message"),
        "list": await result(http, "ListTasks", {"contextId": context}),
    }
    for task_id in (task["id"] for task in listed if task["id"] != context):
        found[f"{task_id} in 1.0"] = await result(http, "GetTask", {"id": task_id})
        found[f"{task_id} in 0.3"] = await result(http, "tasks/get", {"id": task_id})
        log = await sse_log(http, task_id)
        found[f"{task_id} in the log"] = [event.data for event in log]
        async with stream(http, "SubscribeToTask", {"id": task_id}, **{"Last-Event-ID": log[0].id}) as events:
            found[f"{task_id} resumed"] = [event.result async for event in events]
    return found


def unlike(found: dict[str, Any], told: dict[str, str]) -> dict[str, dict[str, str]]:
    """Returns, by view, the messages with another turn than in `told`, or missing there."""
    marks = {name: turns(view) for name, view in found.items()}
    assert set(marks["flatten"].values()) >= set(told.values())
    return {
        name: wrong
        for name, each in marks.items()
        if (wrong := {id: mark for id, mark in each.items() if mark not in told.values() or told.get(id, mark) != mark})
    }


async def crashed(http: httpx.AsyncClient, context: str) -> str:
    """Returns the stream of a turn that was interrupted by a crash."""
    seen = ""
    with pytest.raises(httpx.TransportError):
        async with stream(http, "SendStreamingMessage", {"message": text_message("crash", contextId=context)}) as told:
            async for event in told:
                seen += str(event.result)
    return seen


async def test_invocations_survive_storage_flattening_replay_and_reload(server: Cluster | None, tmp_path: Path) -> None:
    """R1: in every form in which a session can be read, before and after its process dies in the middle of a
    sentence."""
    async with running("one", tmp_path, server=server) as plane:
        await _survive(plane, uuid4().hex)


async def _survive(plane: Plane, context: str) -> None:
    async with client(plane.url) as http:
        live = [await said(http, text, contextId=context) for text in ("tool", "artifact", "message hi", "flood 3")]
        asked = (await send(http, "ask", contextId=context))["task"]
        live += [[asked], await said(http, "Ann", taskId=asked["id"])]
        told = turns(live)
        assert len(set(told.values())) == 6
        assert unlike(await views(http, context), told) == {}
        seen = await crashed(http, context)
    await plane.death("dev")
    await plane.start("dev")
    async with client(plane.url) as http:

        async def lost_task() -> Json | None:
            last = (await data(http, f"/api/sessions/{context}/tasks"))[-1]
            return last if last["status"]["state"] == "failed" else None

        lost = await until(lost_task, BOUND)
        # Where the machine was slow, its process died before the half sentence was stored.
        texts = [message["parts"][0]["text"] for message in lost["history"]]
        assert texts[:2] == ["crash", "About to "] or (texts[0] == "crash" and "About to " not in seen)
        (cut,) = set(turns(lost).values())
        new = unlike(await views(http, context), told)
        assert {mark for marks in new.values() for mark in marks.values()} == {cut}
        assert set(new) >= {"flatten", "tasks", "list", f"{lost['id']} in the log"}
