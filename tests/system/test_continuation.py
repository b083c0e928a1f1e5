"""The destination of a message: the task that it names, a new task of its session, or a refusal."""

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.system.plane import Plane, on_both_engines
from tests.system.wire import (
    Json,
    call,
    client,
    data,
    raw_log,
    result,
    send,
    state_of,
    stream,
    text_message,
    text_message_0_3,
    texts_of,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), on_both_engines]

both_versions = pytest.mark.parametrize("method", ["SendMessage", "message/send"])


def message(method: str, text: str, **fields: Any) -> Json:
    return (text_message_0_3 if "/" in method else text_message)(text, **fields)


async def refusal(http: httpx.AsyncClient, method: str, text: str, **fields: Any) -> int:
    """The code that a send is refused with."""
    answer = await call(http, method, {"message": message(method, text, **fields)})
    assert "error" in answer, answer
    return int(answer["error"]["code"])


async def conversation(http: httpx.AsyncClient, context: str) -> list[str]:
    """Returns the conversation of a session."""
    shown = (await data(http, f"/api/sessions/{context}/messages"))["messages"]
    return ["".join(part["text"] for part in each["parts"]) for each in shown]


@pytest.mark.parametrize("state", ["INPUT", "AUTH"])
async def test_the_answer_to_a_pause_continues_the_same_task(plane: Plane, state: str) -> None:
    """I1, I2: it is appended to the history, and the task is `submitted` and runs again under its id and context. P2: a
    message that the agent would answer directly is an answer to the task here."""
    async with client(plane.url) as http:
        asked = (await send(http, "ask Your name?" if state == "INPUT" else "auth Sign in!"))["task"]
        assert asked["status"]["state"] == f"TASK_STATE_{state}_REQUIRED"
        async with stream(http, "SubscribeToTask", {"id": asked["id"]}) as events:
            told = aiter(events)
            await anext(told)
            answered = (await send(http, "message Ann", taskId=asked["id"]))["task"]
            states = [state_of(event) async for event in told]
        assert [*dict.fromkeys(states)] == [f"TASK_STATE_{name}" for name in ("SUBMITTED", "WORKING", "COMPLETED")]
        assert (answered["id"], answered["contextId"]) == (asked["id"], asked["contextId"])
        assert texts_of(answered)[2:] == ["message Ann", 'You said: "message Ann"']
        assert {each["contextId"] for each in answered["history"]} == {asked["contextId"]}
        assert await conversation(http, asked["contextId"]) == texts_of(answered)
        assert (await result(http, "ListTasks", {"contextId": asked["contextId"]}))["totalSize"] == 1


async def test_a_message_to_a_running_task_gets_a_separate_turn(plane: Plane) -> None:
    """I1, a2a D9: it is accepted, appended, and answered by a further turn before the task completes."""
    async with client(plane.url) as http:
        for text in ("slow 4", "slow 16", "slow 64"):
            async with stream(http, "SendStreamingMessage", {"message": text_message(text)}) as events:
                told = aiter(events)
                task = (await anext(told)).result["task"]
                while state_of(await anext(told)) != "TASK_STATE_WORKING":
                    pass
                said = {"message": text_message("and you?", taskId=task["id"])}
                more = asyncio.create_task(call(http, "SendMessage", said))
                rest = [event async for event in told]
            answer = await more
            if "result" in answer:
                break
            # The message came too late, on a busy machine.
            assert answer["error"]["code"] == -32004
        done = answer["result"]["task"]
        assert (done["id"], done["status"]["state"]) == (task["id"], "TASK_STATE_COMPLETED")
        assert texts_of(done) == [text, "and you?", 'You said: "and you?"']
        assert [state_of(event) for event in rest].count("TASK_STATE_COMPLETED") == 1
        kinds = [event["kind"] for event in await raw_log(http, task["id"])]
        assert kinds.count("message") == 1


@both_versions
@pytest.mark.parametrize("end", ["echo done", "fail", "reject", "cancel"])
async def test_a_message_to_an_ended_task_is_refused_and_not_stored(plane: Plane, method: str, end: str) -> None:
    """I1: UnsupportedOperation in both versions; task and session do not change."""
    async with client(plane.url) as http:
        task = (await send(http, "ask" if end == "cancel" else end))["task"]
        if end == "cancel":
            await result(http, "CancelTask", {"id": task["id"]})
        before = await result(http, "GetTask", {"id": task["id"]}), await conversation(http, task["contextId"])
        named = {"taskId": task["id"], "contextId": task["contextId"]}
        assert await refusal(http, method, "more", **named) == -32004
        assert await refusal(http, method, "more", taskId=task["id"]) == -32004
        after = await result(http, "GetTask", {"id": task["id"]}), await conversation(http, task["contextId"])
        assert after == before


@both_versions
async def test_a_message_to_an_unknown_task_or_to_a_task_elsewhere_is_refused(plane: Plane, method: str) -> None:
    """I1, I2: TaskNotFound, and no session begins; a context that is not that of the task is InvalidParams."""
    async with client(plane.url) as http:
        nowhere = uuid4().hex
        assert await refusal(http, method, "hello", taskId="unknown", contextId=nowhere) == -32001
        assert (await http.get(f"/api/sessions/{nowhere}")).status_code == 404
        asked = (await send(http, "ask"))["task"]
        assert await refusal(http, method, "Ann", taskId=asked["id"], contextId=nowhere) == -32602
        assert await result(http, "GetTask", {"id": asked["id"]}) == asked
        assert (await http.get(f"/api/sessions/{nowhere}")).status_code == 404
        both = message(method, "Ann", taskId=asked["id"], contextId=asked["contextId"])
        answered = await result(http, method, {"message": both, "configuration": {"blocking": True}})
        assert answered.get("task", answered)["contextId"] == asked["contextId"]


@both_versions
async def test_references_are_stored_without_foreign_and_unknown_ones(plane: Plane, method: str) -> None:
    """I3, I5, a2a D7: a message after a terminal task is a new task; the other references are dropped silently."""
    async with client(plane.url) as http, client(plane.url, **{"X-User-Id": uuid4().hex}) as stranger:
        first, second = (await send(http, "ask"))["task"], (await send(http, "echo other"))["task"]
        first = (await send(http, "Ann", taskId=first["id"]))["task"]
        foreign = (await send(stranger, "echo secret"))["task"]
        named = [second["id"], foreign["id"], first["id"], "unknown"]
        shorter = message(method, "make it shorter", contextId=first["contextId"], referenceTaskIds=named)
        answer = await result(http, method, {"message": shorter, "configuration": {"blocking": True}})
        third = answer.get("task", answer)
        assert third["id"] not in named
        assert third["contextId"] == first["contextId"]
        kept = [second["id"], first["id"]]
        shown = [
            third["history"],
            (await result(http, "GetTask", {"id": third["id"]}))["history"],
            (await result(http, "tasks/get", {"id": third["id"]}))["history"],
            (await data(http, f"/api/tasks/{third['id']}"))["history"],
            (await data(http, f"/api/sessions/{first['contextId']}/messages"))["messages"][4:],
            (await raw_log(http, third["id"]))[0]["event"]["task"]["history"],
        ]
        assert [messages[0]["referenceTaskIds"] for messages in shown] == [kept] * len(shown)
        assert await result(http, "GetTask", {"id": first["id"]}) == first
