"""Sends and the operations on single tasks, in both versions, over a real plane."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from tests.executor.scripted import Scripted
from tests.gateway.plane import Plane, fresh, open_all, request, said, said_0_3

from taskplane.agents.agent import Change, Complete, Turn

WAITING = 'taskplane_rpc_open_streams{method="/taskplane.api.tasks.v1.TaskStore/WatchTask"}'
pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_send_is_answered_with_the_finished_task(plane: Plane) -> None:
    """P1: the unary entry point gives the finished task."""
    task = await plane.send("hello world")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["status"]["message"]["parts"] == [{"text": "hello world"}]
    assert [message["role"] for message in task["history"]] == ["ROLE_USER"]
    assert task == await plane.result("GetTask", {"id": task["id"]})


async def test_a_send_may_be_answered_by_a_message_without_a_task(plane: Plane) -> None:
    """P2: the agent answers directly and no task exists."""
    result = await plane.result("SendMessage", {"message": said("message hi")})
    assert list(result) == ["message"]
    assert result["message"]["parts"] == [{"text": "hi"}]
    assert "taskId" not in result["message"]
    message = await plane.send_0_3("message hi")
    assert (message["kind"], message["role"]) == ("message", "agent")


async def test_return_immediately_is_answered_as_soon_as_the_task_exists(plane: Plane) -> None:
    task = await plane.send("slow 200", returnImmediately=True)
    assert task["status"]["state"] in {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}
    await plane.result("CancelTask", {"id": task["id"]})


async def test_a_blocking_send_returns_at_a_question_and_at_a_login(plane: Plane) -> None:
    assert (await plane.send("ask"))["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert (await plane.send("auth"))["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"


async def test_a_blocking_send_returns_when_its_task_is_canceled(plane: Plane) -> None:
    context = fresh()
    params = {"message": said("slow 200", contextId=context)}
    sending = asyncio.create_task(plane.result("SendMessage", params))
    listed: list[Any] = []
    while not listed:
        listed = (await plane.result("ListTasks", {"contextId": context}))["tasks"]
    canceled = await plane.result("CancelTask", {"id": listed[0]["id"]})
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert (await sending)["task"]["status"]["state"] == "TASK_STATE_CANCELED"


async def test_blocking_of_0_3_is_explicit_and_its_absence_answers_once_the_task_has_begun(plane: Plane) -> None:
    """P1: the unary send of 0.3."""
    assert (await plane.send_0_3("hello", blocking=True))["status"]["state"] == "completed"
    at_once = await plane.send_0_3("slow 200", blocking=False)
    assert at_once["status"]["state"] in {"submitted", "working"}
    began = time.monotonic()
    begun = await plane.send_0_3("slow 200")
    assert begun["status"]["state"] == "working"
    assert time.monotonic() - began < 20
    for task in (at_once, begun):
        await plane.result("tasks/cancel", {"id": task["id"]})


@pytest.mark.parametrize("length", [None, 0, 1, 50])
async def test_history_length_bounds_the_history_of_sends_and_reads(plane: Plane, length: int | None) -> None:
    asked = await plane.send("ask")
    params: dict[str, Any] = {"message": said("Ann", taskId=asked["id"])}
    if length is not None:
        params["configuration"] = {"historyLength": length}
    done = (await plane.result("SendMessage", params))["task"]
    # The question has moved into the history, with both messages of the user.
    assert len(done.get("history", [])) == min(3, 3 if length is None else length)
    query = {"id": asked["id"]} if length is None else {"id": asked["id"], "historyLength": length}
    assert (await plane.result("GetTask", query)).get("history", []) == done.get("history", [])
    assert ("history" in done) == (length != 0)


async def test_a_conversation_goes_on_with_the_task_id_alone(plane: Plane) -> None:
    """I1, I2, I5: the answer reopens the same task; a further message makes a new one in the same context."""
    asked = await plane.send("ask")
    answered = await plane.send("Ann", message={"taskId": asked["id"]})
    assert (answered["id"], answered["contextId"]) == (asked["id"], asked["contextId"])
    assert answered["status"]["state"] == "TASK_STATE_COMPLETED"
    more = {"contextId": asked["contextId"], "referenceTaskIds": [asked["id"]]}
    shorter = await plane.send("make it shorter", message=more)
    assert shorter["contextId"] == asked["contextId"]
    assert shorter["id"] != asked["id"]
    assert shorter["history"][0]["referenceTaskIds"] == [asked["id"]]


async def test_a_send_to_a_task_that_does_not_take_it_is_refused_by_its_state(plane: Plane) -> None:
    """I1: terminal is UnsupportedOperation, unknown is TaskNotFound; I2: another context is InvalidParams."""
    done = await plane.send("hello")
    refused = await plane.error("SendMessage", {"message": said("more", taskId=done["id"])})
    assert refused["code"] == -32004
    assert refused["data"][0]["reason"] == "UNSUPPORTED_OPERATION"
    assert (await plane.error("message/send", {"message": said_0_3("more", taskId=done["id"])}))["code"] == -32004
    assert (await plane.error("SendMessage", {"message": said("more", taskId="none")}))["code"] == -32001
    asked = await plane.send("ask")
    elsewhere = said("Ann", taskId=asked["id"], contextId="another")
    assert (await plane.error("SendMessage", {"message": elsewhere}))["code"] == -32602


async def test_a_0_3_client_may_mint_task_ids_where_that_is_allowed(tmp_path: Path) -> None:
    """I1: client_task_ids = create."""
    async with open_all(tmp_path, client_task_ids="create") as plane:
        task = await plane.send_0_3("hello", message={"taskId": "mine"}, blocking=True)
        assert task["id"] == "mine"
        assert (await plane.error("SendMessage", {"message": said("hello", taskId="other")}))["code"] == -32001
        # A setting that is on is no remedy for an id that somebody else has.
        foreign = {"message": said_0_3("hello", taskId="mine")}
        refused = await plane.error("message/send", foreign, x_user_id="somebody")
        assert refused["code"] == -32001 and "CLIENT_TASK_IDS" not in str(refused)


async def test_a_send_repeated_with_its_key_is_answered_with_the_same_task(plane: Plane) -> None:
    """C10: another request under the key is refused as KEY_REUSED."""
    message, key = said("hello"), fresh()
    first = await plane.result("SendMessage", {"message": message}, idempotency_key=key)
    again = await plane.result("SendMessage", {"message": message}, idempotency_key=key)
    assert again == first
    other = await plane.error("SendMessage", {"message": said("other")}, idempotency_key=key)
    assert other["code"] == -32602
    assert other["data"][0]["reason"] == "KEY_REUSED"
    assert (await plane.error("SendMessage", {"message": message}, idempotency_key="k" * 256))["code"] == -32602


async def test_equal_message_ids_are_two_messages_unless_the_setting_says_otherwise(
    plane: Plane, tmp_path: Path
) -> None:
    message = said("hello")
    first = await plane.result("SendMessage", {"message": message})
    second = await plane.result("SendMessage", {"message": message})
    assert first["task"]["id"] != second["task"]["id"]
    other = tmp_path / "other"
    other.mkdir()
    async with open_all(other, idempotent_messages=True) as keyed:
        first = await keyed.result("SendMessage", {"message": message})
        assert await keyed.result("SendMessage", {"message": message}) == first


async def test_tasks_are_listed_newest_first_by_page_and_filter(plane: Plane) -> None:
    context = fresh()
    tasks = [await plane.send("hello", message={"contextId": context}) for _ in range(3)]
    await plane.send("hello")
    page = await plane.result("ListTasks", {"contextId": context, "pageSize": 2})
    assert [task["id"] for task in page["tasks"]] == [tasks[2]["id"], tasks[1]["id"]]
    assert (page["pageSize"], page["totalSize"]) == (2, 3)
    rest = await plane.result("ListTasks", {"context_id": context, "page_size": 2, "page_token": page["nextPageToken"]})
    assert [task["id"] for task in rest["tasks"]] == [tasks[0]["id"]]
    assert rest["nextPageToken"] == ""
    none = await plane.result("ListTasks", {"contextId": context, "status": "TASK_STATE_WORKING"})
    assert none == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
    since = {"contextId": context, "statusTimestampAfter": tasks[1]["status"]["timestamp"]}
    assert len((await plane.result("ListTasks", since))["tasks"]) == 2
    assert (await plane.error("ListTasks", {"pageToken": "bad"}))["code"] == -32602


async def test_a_listing_has_artifacts_and_history_as_asked(plane: Plane) -> None:
    context = fresh()
    await plane.send("artifact", message={"contextId": context})
    bare = (await plane.result("ListTasks", {"contextId": context, "historyLength": 0}))["tasks"][0]
    assert not {"artifacts", "history"} & set(bare)
    whole = (await plane.result("ListTasks", {"contextId": context, "includeArtifacts": True}))["tasks"][0]
    assert len(whole["artifacts"]) == 3
    assert whole["history"]


async def test_what_has_ended_cannot_be_canceled(plane: Plane) -> None:
    """C11: nor what nobody has; a question that waits can."""
    done = await plane.send("hello")
    assert (await plane.error("CancelTask", {"id": done["id"]}))["code"] == -32002
    assert (await plane.error("tasks/cancel", {"id": done["id"]}))["code"] == -32002
    assert (await plane.error("CancelTask", {"id": "none"}))["code"] == -32001
    asked = await plane.send("ask")
    canceled = await plane.result("CancelTask", {"id": asked["id"], "metadata": {"why": "changed my mind"}})
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"


async def test_somebody_elses_task_looks_like_one_that_does_not_exist(plane: Plane) -> None:
    task = await plane.send("ask")
    missing = [
        ("GetTask", {"id": task["id"]}),
        ("CancelTask", {"id": task["id"]}),
        ("SubscribeToTask", {"id": task["id"]}),
        ("SendMessage", {"message": said("Ann", taskId=task["id"])}),
    ]
    for method, params in missing:
        foreign = await plane.error(method, params, x_user_id="mallory")
        assert foreign["code"] == -32001, method
    assert (await plane.result("ListTasks", {}, x_user_id="mallory"))["tasks"] == []


async def test_a_client_that_goes_away_cancels_nothing(tmp_path: Path) -> None:
    """A client whose blocking send times out finds its task running, and finished later."""
    gone = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        await gone.wait()
        yield Complete("Done.")

    body = request("SendMessage", {"message": said("go")})
    async with open_all(tmp_path, ("a", Scripted(script))) as plane:
        with pytest.raises(httpx.ReadTimeout):
            await plane.http.post("/", json=body, timeout=httpx.Timeout(20.0, read=0.5))
        async with asyncio.timeout(20):
            listed: list[Any] = []
            while not listed or listed[0]["status"]["state"] != "TASK_STATE_WORKING":
                listed = (await plane.result("ListTasks", {}))["tasks"]
            # Nor does anybody wait for it any more.
            await plane.at_zero(WAITING)
            async with plane.stream("SubscribeToTask", {"id": listed[0]["id"]}) as events:
                assert (await anext(events)).result["task"]["status"]["state"] == "TASK_STATE_WORKING"
                gone.set()
                states = [event.result["statusUpdate"]["status"]["state"] async for event in events]
    assert states[-1] == "TASK_STATE_COMPLETED"


async def test_what_a_client_sends_that_does_not_wait_at_all_is_sent(plane: Plane) -> None:
    """It has closed the connection before its request is looked at."""
    context = fresh()
    body = orjson.dumps(request("SendMessage", {"message": said("hello", contextId=context)}))
    for _ in range(5):
        _, writer = await asyncio.open_connection("127.0.0.1", plane.gateway.port)
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()
    async with asyncio.timeout(10):
        listed: list[Any] = []
        while len(listed) < 5 or listed[-1]["status"]["state"] != "TASK_STATE_COMPLETED":
            listed = (await plane.result("ListTasks", {"contextId": context}))["tasks"]
