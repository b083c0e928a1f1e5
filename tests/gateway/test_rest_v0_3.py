"""REST of A2A 0.3: paths, versions, statuses and error bodies; the official client in its 0.3 mode reads it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.client.client import Client as OfficialClient
from a2a.client.client import ClientCallContext
from a2a.types import (
    AgentCard,
    AgentInterface,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import InvalidParamsError, TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError
from google.protobuf.json_format import MessageToDict
from tests.executor.scripted import Stepped
from tests.gateway.plane import JSON_TYPE, Json, Plane, events, fresh, open_all

from taskplane.api import growing_text
from taskplane.gateway.errors import a2a_error, error_rest_0_3, name_0_3, rest_status_0_3
from taskplane.runtime.errors import Exhausted, Internal, Invalid, PermissionDenied, PlaneError, Refused, Unavailable

PLAIN = {"content-type": "text/plain"}
pytestmark = pytest.mark.asyncio(loop_scope="module")


def said(text: str, **fields: Any) -> Json:
    """A message of the user, as ProtoJSON of 0.3 has it."""
    return {"messageId": fresh(), "role": "ROLE_USER", "content": [{"text": text}], **fields}


async def sent(plane: Plane, text: str, **configuration: Any) -> Json:
    body = {"message": said(text), "configuration": configuration}
    reply = await plane.http.post("/v1/message:send", json=body)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    found: Json = reply.json()
    return found


async def test_a_send_is_answered_in_protojson_with_a_wrapper(plane: Plane) -> None:
    """a2a B15, H9."""
    task = (await sent(plane, "hello", blocking=True))["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["status"]["message"]["content"] == [{"text": "hello"}]
    assert [message["role"] for message in task["history"]] == ["ROLE_USER"]
    assert list(await sent(plane, "message hi")) == ["message"]


async def test_a_send_that_does_not_block_is_answered_once_its_task_has_begun(plane: Plane) -> None:
    """a2a C3, K17: false cannot be told from a flag that is missing."""
    for configuration in ({}, {"blocking": False}):
        task = (await sent(plane, "slow 200", **configuration))["task"]
        assert task["status"]["state"] == "TASK_STATE_WORKING"
        canceled = await plane.http.post(f"/v1/tasks/{task['id']}:cancel", json={"name": "tasks/other"})
        assert (canceled.status_code, canceled.json()["status"]["state"]) == (200, "TASK_STATE_CANCELLED")


async def test_a_stream_is_the_task_without_history_and_updates_the_last_of_which_is_final(plane: Plane) -> None:
    """a2a C20, C21, C24."""
    async with plane.http.stream("POST", "/v1/message:stream", json={"request": said("hello")}) as reply:
        found = [event.data async for event in events(reply)]
    assert (list(found[0]), "history" in found[0]["task"]) == (["task"], False)
    finals = [one["statusUpdate"]["final"] for one in found if "statusUpdate" in one]
    assert finals == [False] * (len(finals) - 1) + [True]
    assert [name for one in found[1:] for name in one].count("task") == 0


async def test_a_subscription_is_made_by_get_and_by_post_and_a_body_may_be_missing(tmp_path: Path) -> None:
    """a2a A4, H11, K9."""
    agent = Stepped()
    async with open_all(tmp_path, ("a", agent)) as plane:
        task = (await sent(plane, "go"))["task"]
        path = f"/v1/tasks/{task['id']}:subscribe"
        async with plane.http.stream("GET", path) as got, plane.http.stream("POST", path) as posted:
            agent.end()
            for reply in (got, posted):
                found = [event.data async for event in events(reply)]
                assert [list(each) for each in (found[0], found[-1])] == [["task"], ["statusUpdate"]]
                assert found[-1]["statusUpdate"]["final"] is True


@pytest.mark.parametrize(
    ("method", "path", "request_", "status", "name", "code"),
    [
        ("POST", "message:send", {"content": b"{", "headers": JSON_TYPE}, 400, "JSONParseError", -32700),
        ("POST", "message:send", {"json": []}, 400, "InvalidRequestError", -32600),
        ("POST", "message:send", {}, 422, "InvalidParamsError", -32602),
        ("POST", "message:send", {"content": b"{}", "headers": PLAIN}, 415, "ContentTypeNotSupportedError", -32005),
        (
            "POST",
            "message:send",
            {"content": b"x" * 8_388_609, "headers": JSON_TYPE},
            413,
            "InvalidParamsError",
            -32602,
        ),
        ("POST", "message:send", {"json": {"message": said("x", taskId="none")}}, 404, "TaskNotFoundError", -32001),
        ("GET", "tasks/none", {}, 404, "TaskNotFoundError", -32001),
        ("GET", "tasks/none?history_length=-1", {}, 422, "InvalidParamsError", -32602),
        ("POST", "tasks/none:cancel", {}, 404, "TaskNotFoundError", -32001),
        ("GET", "tasks/none:subscribe", {}, 404, "TaskNotFoundError", -32001),
        ("GET", "tasks", {}, 501, "UnsupportedOperationError", -32004),
        ("GET", "tasks?pageSize=x", {}, 501, "UnsupportedOperationError", -32004),
        ("POST", "tasks/t/pushNotificationConfigs", {"json": {}}, 501, "PushNotificationNotSupportedError", -32003),
        ("GET", "tasks/t/pushNotificationConfigs", {}, 501, "PushNotificationNotSupportedError", -32003),
        ("GET", "tasks/t/pushNotificationConfigs/None", {}, 501, "PushNotificationNotSupportedError", -32003),
        ("DELETE", "tasks/t/pushNotificationConfigs/c", {}, 501, "PushNotificationNotSupportedError", -32003),
        ("GET", "card", {}, 404, "AuthenticatedExtendedCardNotConfiguredError", -32007),
        ("GET", "tasks/none", {"headers": {"a2a-version": "1.1"}}, 400, "VersionNotSupportedError", -32009),
        ("GET", "tasks/none?A2A-Version=99.0", {}, 400, "VersionNotSupportedError", -32009),
        ("PUT", "message:send", {}, 405, "MethodNotFoundError", -32601),
    ],
)
async def test_each_mistake_has_its_status_its_name_and_its_code(
    plane: Plane, method: str, path: str, request_: dict[str, Any], status: int, name: str, code: int
) -> None:
    """a2a A7, H9, H10, I6, I7."""
    reply = await plane.http.request(method, f"/v1/{path}", **request_)
    assert (reply.status_code, reply.headers["content-type"]) == (status, "application/json")
    body = reply.json()
    assert (body["type"], body["code"], body["error"]["code"]) == (name, code, status)
    assert body["message"] == body["error"]["message"]
    assert body["error"]["details"][0]["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"message": {"role": "user", "messageId": "m", "content": []}}, ["message.content"]),
        ({"message": {"role": "user", "messageId": "m", "parts": []}}, ["message.parts"]),
        ({"request": {"role": 9, "content": [{}, {"text": "a"}]}}, ["request.role", "request.content[0]"]),
        ({"request": None, "message": None}, ["message"]),
        (
            {"request": {**said(""), "content": [{"file": {"fileWithBytes": "!"}}, {"file": {"bytes": "!"}}]}},
            ["request.content[0].file.fileWithBytes", "request.content[1].file.bytes"],
        ),
        ({"message": said("x"), "configuration": {"push_notification": 1}}, ["configuration.push_notification"]),
    ],
)
async def test_errors_call_a_field_by_the_name_that_the_client_used(
    plane: Plane, body: Json, fields: list[str]
) -> None:
    """a2a B16."""
    reply = await plane.http.post("/v1/message:send", json=body)
    found = [one["field"] for one in reply.json()["error"]["details"][1]["fieldViolations"]]
    assert (reply.status_code, found[: len(fields)]) == (422, fields)


async def test_tasks_that_have_ended_and_agents_that_do_not_exist_are_told(plane: Plane) -> None:
    task = (await sent(plane, "hello", blocking=True))["task"]
    told = [
        await plane.http.post(f"/v1/tasks/{task['id']}:cancel"),
        await plane.http.post(f"/v1/tasks/{task['id']}:subscribe"),
        await plane.http.post("/v1/message:send", json={"message": said("more", taskId=task["id"])}),
        await plane.http.post("/agents/none/v1/message:send", json={"message": said("x")}),
    ]
    assert [(reply.status_code, reply.json()["type"]) for reply in told] == [
        (409, "TaskNotCancelableError"),
        (501, "UnsupportedOperationError"),
        (501, "UnsupportedOperationError"),
        (404, "MethodNotFoundError"),
    ]


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (Invalid("m"), 422, "INVALID_ARGUMENT"),
        (Refused("m", reason="KEY_REUSED"), 409, "INVALID_ARGUMENT"),
        (Refused("m", reason="EXTENSION_SUPPORT_REQUIRED"), 400, "FAILED_PRECONDITION"),
        (PlaneError("m", reason="INVALID_AGENT_RESPONSE"), 502, "INTERNAL"),
        (Internal("m"), 500, "INTERNAL"),
        (Unavailable("m"), 503, "UNAVAILABLE"),
        (Exhausted("m", reason="SEND_RATE"), 429, "RESOURCE_EXHAUSTED"),
        (PermissionDenied("m"), 403, "PERMISSION_DENIED"),
    ],
)
async def test_other_errors_have_the_statuses_of_0_3_or_of_http(error: PlaneError, status: int, name: str) -> None:
    assert rest_status_0_3(error) == (status, name)
    body = error_rest_0_3(error, "r")
    assert (body["type"], body["code"]) == (name_0_3(error), a2a_error(error).code)


@pytest.mark.parametrize("version", ["", "0.3", "0.3.0", "1.0", "1.0.1"])
async def test_the_path_says_0_3_whichever_version_a_client_names(plane: Plane, version: str) -> None:
    """a2a A10, H3, K2."""
    task = (await sent(plane, "hello", blocking=True))["task"]
    reply = await plane.http.get(f"/v1/tasks/{task['id']}", headers={"a2a-version": version})
    assert (reply.status_code, "content" in reply.json()["history"][0]) == (200, True)


async def test_a_query_has_either_spelling_and_0_is_the_whole_history(plane: Plane) -> None:
    """a2a B17, C7, J11."""
    context = fresh()
    asked = await plane.http.post(
        "/v1/message:send", json={"message": said("ask", contextId=context), "configuration": {"blocking": True}}
    )
    task = asked.json()["task"]
    more = {"message": said("Ann", task_id=task["id"]), "configuration": {"blocking": True}}
    assert (await plane.http.post("/v1/message:send", json=more)).is_success
    for query, length in (("historyLength=1", 1), ("history_length=2", 2), ("history_length=0", 3), ("", 3)):
        reply = await plane.http.get(f"/v1/tasks/{task['id']}?{query}")
        assert len(reply.json()["history"]) == length


async def test_extensions_are_named_in_either_header_and_echoed_in_that_of_0_3(plane: Plane) -> None:
    """a2a H5."""
    for header in ("A2A-Extensions", "X-A2A-Extensions"):
        headers = {header: growing_text.EXTENSION}
        reply = await plane.http.post("/v1/message:send", json={"message": said("message hi")}, headers=headers)
        assert reply.headers["x-a2a-extensions"] == growing_text.EXTENSION
        assert "a2a-extensions" not in reply.headers


async def test_each_agent_has_the_paths_below_its_own(plane: Plane) -> None:
    for base in ("", "/agents/demo"):
        reply = await plane.http.post(f"{base}/v1/message:send", json={"message": said("message hello")})
        assert reply.json()["message"]["content"] == [{"text": "hello"}]


def official(plane: Plane) -> OfficialClient:
    """The official client in its 0.3 mode."""
    card = AgentCard(name="demo", version="1", capabilities={"streaming": True})
    card.supported_interfaces.append(
        AgentInterface(url=plane.gateway.url, protocol_binding="HTTP+JSON", protocol_version="0.3")
    )
    factory = ClientFactory(ClientConfig(httpx_client=plane.http, supported_protocol_bindings=["HTTP+JSON"]))
    return factory.create(card)


def question(text: str, **fields: Any) -> SendMessageRequest:
    return SendMessageRequest(
        message=Message(message_id=fresh(), role=Role.ROLE_USER, parts=[Part(text=text)], **fields)
    )


async def test_the_official_client_sends_streams_gets_and_cancels(plane: Plane) -> None:
    """a2a K7, K10, K13."""
    client = official(plane)
    async with asyncio.timeout(20):
        found = [MessageToDict(one) async for one in client.send_message(question("chunks 3 4"))]
    assert list(found[0]) == ["task"]
    assert sum("artifactUpdate" in one for one in found) == 3
    assert found[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    task = found[0]["task"]
    assert (await client.get_task(GetTaskRequest(id=task["id"]))).status.state == TaskState.TASK_STATE_COMPLETED
    asked = (await sent(plane, "ask", blocking=True))["task"]
    canceled = await client.cancel_task(CancelTaskRequest(id=asked["id"]))
    assert canceled.status.state == TaskState.TASK_STATE_CANCELED
    (direct,) = [one async for one in client.send_message(question("message hi"))]
    assert direct.message.parts[0].text == "hi"


async def test_the_official_client_reads_errors_by_their_type(plane: Plane) -> None:
    """a2a I7, K11."""
    client = official(plane)
    task = (await sent(plane, "hello", blocking=True))["task"]
    with pytest.raises(TaskNotCancelableError):
        await client.cancel_task(CancelTaskRequest(id=task["id"]))
    with pytest.raises(TaskNotFoundError):
        await client.get_task(GetTaskRequest(id="none"))
    with pytest.raises(InvalidParamsError):
        await client.get_task(GetTaskRequest(id="none", history_length=-1))
    with pytest.raises(UnsupportedOperationError):
        _ = [one async for one in client.subscribe(SubscribeToTaskRequest(id=task["id"]))]


async def test_the_official_client_resumes_by_the_header_of_its_call(plane: Plane) -> None:
    """a2a K15."""
    client = official(plane)
    found = [one async for one in client.send_message(question("chunks 5 4"))]
    task = found[0].task
    context = ClientCallContext(service_parameters={"Last-Event-ID": str(task.metadata["taskplane.dev/cursor"])})
    rest = [one async for one in client.subscribe(SubscribeToTaskRequest(id=task.id), context=context)]
    assert [MessageToDict(one) for one in rest] == [MessageToDict(one) for one in found[1:]]
