"""Sends and the operations on single tasks, with a real plane and over each binding."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.executor.scripted import Scripted
from tests.gateway.bindings import Binding, Client, HttpBinding
from tests.gateway.plane import Plane, fresh, open_all, said, said_0_3

from taskplane.agents.agent import Change, Complete, Turn

WAITING = 'taskplane_rpc_open_streams{method="/taskplane.api.tasks.v1.TaskStore/WatchTask"}'
pytestmark = pytest.mark.asyncio(loop_scope="module")


async def listed(plane: Plane, context: str = "") -> list[Any]:
    """Return the tasks of a session, or all tasks, by JSON-RPC."""
    found: list[Any] = (await plane.result("ListTasks", {"contextId": context} if context else {}))["tasks"]
    return found


async def test_a_send_is_answered_with_the_finished_task(client: Client) -> None:
    """P1, a2a C1, C2: the unary send returns the finished task."""
    task = await client.send("hello world")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["status"]["message"]["parts"] == [{"text": "hello world"}]
    assert [message["role"] for message in task["history"]] == ["ROLE_USER"]
    assert task == await client.result("GetTask", {"id": task["id"]})


async def test_a_direct_answer_is_a_message_without_a_task(client: Client) -> None:
    """P2, a2a C5: the agent answers directly, and no task exists."""
    result = await client.result("SendMessage", {"message": said("message hi")})
    assert list(result) == ["message"]
    assert result["message"]["parts"] == [{"text": "hi"}]
    assert result["message"]["role"] == "ROLE_AGENT"
    assert "taskId" not in result["message"]


async def test_return_immediately_is_answered_as_soon_as_the_task_exists(client: Client) -> None:
    """a2a C1, C2."""
    task = await client.send("slow 200", returnImmediately=True)
    assert task["status"]["state"] in {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}
    await client.result("CancelTask", {"id": task["id"]})


async def test_a_blocking_send_returns_at_input_required_and_auth_required(client: Client) -> None:
    """a2a C1, C2."""
    assert (await client.send("ask"))["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert (await client.send("auth"))["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"


async def test_a_blocking_send_returns_when_its_task_is_canceled(client: Client) -> None:
    """a2a E7."""
    context = fresh()
    params = {"message": said("slow 200", contextId=context)}
    sending = asyncio.create_task(client.result("SendMessage", params))
    while not (tasks := await listed(client.plane, context)):
        pass
    canceled = await client.result("CancelTask", {"id": tasks[0]["id"]})
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert (await sending)["task"]["status"]["state"] == "TASK_STATE_CANCELED"


async def test_a_0_3_send_without_blocking_returns_once_the_task_is_working(plane: Plane) -> None:
    """P1, a2a C2, C3: with blocking true it returns the finished task, with false the new one."""
    assert (await plane.send_0_3("hello", blocking=True))["status"]["state"] == "completed"
    at_once = await plane.send_0_3("slow 200", blocking=False)
    assert at_once["status"]["state"] in {"submitted", "working"}
    began = time.monotonic()
    begun = await plane.send_0_3("slow 200")
    assert begun["status"]["state"] == "working"
    assert time.monotonic() - began < 20
    for task in (at_once, begun):
        await plane.result("tasks/cancel", {"id": task["id"]})


@pytest.mark.parametrize("length", [None, 0, 1, 2**31 - 1])
async def test_history_length_limits_the_history_of_sends_and_reads(client: Client, length: int | None) -> None:
    """a2a C6, C7, D7."""
    asked = await client.send("ask")
    params: dict[str, Any] = {"message": said("Ann", taskId=asked["id"])}
    if length is not None:
        params["configuration"] = {"historyLength": length}
    done = (await client.result("SendMessage", params))["task"]
    # The question has moved into the history, with both messages of the user.
    whole = length is None or (length == 0 and not client.binding.explicit)
    assert len(done.get("history", [])) == (3 if whole else min(3, length or 0))
    query = {"id": asked["id"]} if length is None else {"id": asked["id"], "historyLength": length}
    assert (await client.result("GetTask", query)).get("history", []) == done.get("history", [])
    assert ("history" in done) == (whole or length != 0)


async def test_an_answer_with_the_task_id_alone_continues_the_task(client: Client) -> None:
    """I1, I2, I5, a2a D3, D7, D8: a later message makes a new task in the same context."""
    asked = await client.send("ask")
    answered = await client.send("Ann", message={"taskId": asked["id"]})
    assert (answered["id"], answered["contextId"]) == (asked["id"], asked["contextId"])
    assert answered["status"]["state"] == "TASK_STATE_COMPLETED"
    more = {"contextId": asked["contextId"], "referenceTaskIds": [asked["id"]]}
    shorter = await client.send("make it shorter", message=more)
    assert shorter["contextId"] == asked["contextId"]
    assert shorter["id"] != asked["id"]
    kept = await client.plane.result("GetTask", {"id": shorter["id"]})
    sent = client.binding.name != "grpc-0.3"
    assert kept["history"][0].get("referenceTaskIds", []) == ([asked["id"]] if sent else [])
    # The protobuf of 0.3 has no place for them.
    assert ("referenceTaskIds" in shorter["history"][0]) == client.binding.explicit


async def test_a_send_to_an_ended_or_unknown_task_is_refused(client: Client) -> None:
    """I1, a2a D1, D4, D5: terminal is UnsupportedOperation, unknown is TaskNotFound; I2: another context is
    InvalidParams."""
    done = await client.send("hello")
    refused = await client.error("SendMessage", {"message": said("more", taskId=done["id"])})
    assert (refused.code, refused.reason) == (-32004, "TERMINAL")
    unknown = await client.error("SendMessage", {"message": said("more", taskId="none")})
    assert (unknown.code, unknown.reason) == (-32001, "TASK_NOT_FOUND")
    asked = await client.send("ask")
    elsewhere = said("Ann", taskId=asked["id"], contextId="another")
    assert (await client.error("SendMessage", {"message": elsewhere})).code == -32602


async def test_a_0_3_client_may_choose_task_ids_if_so_configured(binding: Binding, tmp_path: Path) -> None:
    """I1, a2a D2: client_task_ids = create."""
    async with open_all(tmp_path, client_task_ids="create") as plane:
        task = await plane.send_0_3("hello", message={"taskId": "mine"}, blocking=True)
        assert task["id"] == "mine"
        client = Client(plane, binding)
        if binding.version == "0.3":
            assert (await client.send("hello", message={"taskId": "other"}))["id"] == "other"
        else:
            assert (await client.error("SendMessage", {"message": said("hello", taskId="other")})).code == -32001
        # The error does not suggest a setting that is on already.
        foreign = {"message": said_0_3("hello", taskId="mine")}
        refused = await plane.error("message/send", foreign, x_user_id="somebody")
        assert refused["code"] == -32001 and "CLIENT_TASK_IDS" not in str(refused)


async def test_a_repeated_send_under_its_key_returns_the_same_task(client: Client) -> None:
    """C10, a2a D11, D12: another request under the key is refused with KEY_REUSED."""
    message, key = said("hello"), fresh()
    first = await client.result("SendMessage", {"message": message}, idempotency_key=key)
    again = await client.result("SendMessage", {"message": message}, idempotency_key=key)
    assert again == first
    other = await client.error("SendMessage", {"message": said("other")}, idempotency_key=key)
    assert (other.code, other.reason) == (-32602, "KEY_REUSED")
    assert (await client.error("SendMessage", {"message": message}, idempotency_key="k" * 256)).code == -32602


async def test_an_equal_message_id_is_a_new_message_unless_configured_as_a_repeat(
    client: Client, tmp_path: Path
) -> None:
    """a2a D10, D11."""
    params = {"message": said("hello")}
    first = await client.result("SendMessage", params)
    second = await client.result("SendMessage", params)
    assert first["task"]["id"] != second["task"]["id"]
    other = tmp_path / "other"
    other.mkdir()
    async with open_all(other, idempotent_messages=True) as plane:
        keyed = Client(plane, client.binding)
        first = await keyed.result("SendMessage", params)
        assert await keyed.result("SendMessage", params) == first


async def test_tasks_are_listed_newest_first_by_page_and_filter(lister: Client) -> None:
    """a2a A5, E2, E3, E4, E5."""
    context = fresh()
    tasks = [await lister.send("hello", message={"contextId": context}) for _ in range(3)]
    await lister.send("hello")
    page = await lister.result("ListTasks", {"contextId": context, "pageSize": 2})
    assert [task["id"] for task in page["tasks"]] == [tasks[2]["id"], tasks[1]["id"]]
    assert (page["pageSize"], page["totalSize"]) == (2, 3)
    token = page["nextPageToken"]
    rest = await lister.result("ListTasks", {"context_id": context, "page_size": 2, "page_token": token})
    assert [task["id"] for task in rest["tasks"]] == [tasks[0]["id"]]
    assert rest["nextPageToken"] == ""
    none = await lister.result("ListTasks", {"contextId": context, "status": "TASK_STATE_WORKING"})
    assert none == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
    since = {"contextId": context, "statusTimestampAfter": tasks[1]["status"]["timestamp"]}
    assert len((await lister.result("ListTasks", since))["tasks"]) == 2
    assert (await lister.error("ListTasks", {"pageToken": "bad"})).code == -32602


async def test_a_list_has_artifacts_and_history_on_request(lister: Client) -> None:
    """a2a C6, E6."""
    context = fresh()
    await lister.send("artifact", message={"contextId": context})
    bare = (await lister.result("ListTasks", {"contextId": context, "historyLength": 0}))["tasks"][0]
    assert not {"artifacts", "history"} & set(bare)
    whole = (await lister.result("ListTasks", {"contextId": context, "includeArtifacts": True}))["tasks"][0]
    assert len(whole["artifacts"]) == 3
    assert whole["history"]


async def test_a_cancel_of_an_ended_or_unknown_task_is_refused(client: Client) -> None:
    """C11, a2a E7: a paused task can be canceled."""
    done = await client.send("hello")
    assert (await client.error("CancelTask", {"id": done["id"]})).code == -32002
    assert (await client.error("CancelTask", {"id": "none"})).code == -32001
    asked = await client.send("ask")
    canceled = await client.result("CancelTask", {"id": asked["id"], "metadata": {"why": "changed my mind"}})
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"


async def test_a_foreign_task_is_answered_like_an_unknown_one(client: Client) -> None:
    """a2a D1, E1, E5."""
    task = await client.send("ask")
    missing = [
        ("GetTask", {"id": task["id"]}),
        ("CancelTask", {"id": task["id"]}),
        ("SubscribeToTask", {"id": task["id"]}),
        ("SendMessage", {"message": said("Ann", taskId=task["id"])}),
    ]
    for operation, params in missing:
        foreign = await client.error(operation, params, x_user_id="mallory")
        assert foreign.code == -32001, operation
    assert (await client.plane.result("ListTasks", {}, x_user_id="mallory"))["tasks"] == []


async def test_an_invalid_request_is_refused_with_each_wrong_field_and_creates_no_task(client: Client) -> None:
    """a2a B5, I10."""
    context = fresh()
    message = {**said("hello", contextId=context), "messageId": "m" * 256, "taskId": "a\n"}
    refused = await client.error("SendMessage", {"message": message, "configuration": {"historyLength": -1}})
    assert refused.code == -32602
    assert set(refused.fields) == {"message.messageId", "message.taskId", "configuration.historyLength"}
    streamed = await client.error("SendStreamingMessage", {"message": message})
    assert (streamed.code, set(streamed.fields)) == (-32602, {"message.messageId", "message.taskId"})
    assert list((await client.error("GetTask", {"id": "t", "historyLength": -1})).fields) == ["historyLength"]
    assert list((await client.error("CancelTask", {"id": "t" * 256})).fields) == ["id"]
    assert await listed(client.plane, context) == []


async def test_operations_that_the_card_does_not_announce_are_refused(client: Client) -> None:
    """a2a F1."""
    push = {"url": "https://example.com"}
    params: Any = {"message": said("hello"), "configuration": {"taskPushNotificationConfig": push}}
    assert (await client.error("SendMessage", params)).code == -32003
    assert (await client.error("SendStreamingMessage", params)).code == -32003
    for operation in ("Create{}", "Get{}", "List{}s", "Delete{}"):
        config = {"taskId": "none", "id": "none", "url": "https://example.com"}
        name = operation.format("TaskPushNotificationConfig")
        assert (await client.error(name, config)).code == -32003
    assert (await client.error("GetExtendedAgentCard", {})).code in (-32004, -32007)


async def test_a_disconnect_of_the_client_cancels_nothing(binding: Binding, tmp_path: Path) -> None:
    """a2a C4: the task of a blocking send whose client leaves continues, and completes later."""
    gone = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        await gone.wait()
        yield Complete("Done.")

    async with open_all(tmp_path, ("a", Scripted(script))) as plane:
        client = Client(plane, binding)
        sending = asyncio.create_task(client.result("SendMessage", {"message": said("go")}))
        async with asyncio.timeout(20):
            tasks: list[Any] = []
            while not tasks or tasks[0]["status"]["state"] != "TASK_STATE_WORKING":
                tasks = await listed(plane)
            sending.cancel()
            await asyncio.wait([sending])
            # The gateway does not wait for the task any more.
            await plane.at_zero(WAITING)
            async with client.stream("SubscribeToTask", {"id": tasks[0]["id"]}) as events:
                assert (await anext(events)).result["task"]["status"]["state"] == "TASK_STATE_WORKING"
                gone.set()
                states = [event.result["statusUpdate"]["status"]["state"] async for event in events]
    assert states[-1] == "TASK_STATE_COMPLETED"


async def test_a_message_is_processed_if_its_client_disconnects_at_once(
    plane: Plane, http_binding: HttpBinding
) -> None:
    """a2a C4: the connection is closed before the gateway reads the request."""
    context = fresh()
    framed = http_binding.frame("SendMessage", {"message": said("hello", contextId=context)})
    body = orjson.dumps(framed.body)
    head = f"{framed.verb} {framed.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    for _ in range(5):
        _, writer = await asyncio.open_connection("127.0.0.1", plane.gateway.port)
        writer.write(head.encode())
        writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()
    async with asyncio.timeout(10):
        tasks: list[Any] = []
        while len(tasks) < 5 or tasks[-1]["status"]["state"] != "TASK_STATE_COMPLETED":
            tasks = await listed(plane, context)
