"""The REST binding: paths, queries, media types, statuses and error bodies, also for the official client."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.types import (
    AgentCard,
    AgentInterface,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    TaskState,
)
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError
from google.protobuf.json_format import MessageToDict
from tests.executor.scripted import Stepped
from tests.gateway.plane import JSON_TYPE, Json, Plane, events, fresh, open_all, said

PLAIN = {"content-type": "text/plain"}
pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_missing_body_is_accepted_and_the_id_of_the_path_has_precedence(plane: Plane) -> None:
    """a2a H11, K17."""
    first, second = await plane.send("ask"), await plane.send("ask")
    reply = await plane.http.post(f"/tasks/{first['id']}:cancel")
    assert (reply.status_code, reply.json()["id"]) == (200, first["id"])
    reply = await plane.http.post(f"/tasks/{second['id']}:cancel", json={"id": first["id"], "metadata": {"why": "x"}})
    assert (reply.status_code, reply.json()["id"]) == (200, second["id"])


async def test_query_names_have_either_spelling_and_values_are_parsed_by_type(plane: Plane) -> None:
    """a2a A5, E6."""
    context = fresh()
    task = await plane.send("artifact", message={"contextId": context})
    camel, snake = (
        ("contextId", "includeArtifacts", "historyLength"),
        ("context_id", "include_artifacts", "history_length"),
    )
    for names in (camel, snake):
        query = dict(zip(names, (context, "true", "0"), strict=True))
        (listed,) = (await plane.http.get("/tasks", params=query)).json()["tasks"]
        assert (len(listed["artifacts"]), "history" in listed) == (3, False)
    bare: Json = (await plane.http.get(f"/tasks/{task['id']}?history_length=0&status=")).json()
    assert "history" not in bare
    refused = (await plane.http.get("/tasks?pageSize=x&includeArtifacts=maybe")).json()["error"]
    assert [each["field"] for each in refused["details"][1]["fieldViolations"]] == ["pageSize", "includeArtifacts"]


@pytest.mark.parametrize("context", ["true", "false", "3"])
async def test_a_text_in_a_query_that_looks_like_another_type_stays_a_text(plane: Plane, context: str) -> None:
    task = await plane.send("hello", message={"contextId": context})
    (listed,) = (await plane.http.get("/tasks", params={"contextId": context})).json()["tasks"]
    assert listed["id"] == task["id"]


async def test_a_state_in_a_query_is_a_name_or_a_number(plane: Plane) -> None:
    """a2a E4."""
    context = fresh()
    task = await plane.send("hello", message={"contextId": context})
    for status, ids in (("TASK_STATE_COMPLETED", [task["id"]]), ("3", [task["id"]]), ("4", [])):
        reply = await plane.http.get("/tasks", params={"contextId": context, "status": status})
        assert [one["id"] for one in reply.json()["tasks"]] == ids
    for status in ("99", "9" * 5000, "none"):
        assert (await plane.http.get("/tasks", params={"status": status})).status_code == 400


async def test_a_subscription_is_opened_by_get_and_by_post(tmp_path: Path) -> None:
    """a2a A4, K9."""
    agent = Stepped()
    async with open_all(tmp_path, ("a", agent)) as plane:
        task = await plane.send("go", returnImmediately=True)
        path = f"/tasks/{task['id']}:subscribe"
        async with (
            plane.http.stream("GET", path) as got,
            plane.http.stream("POST", path, headers={"accept": "text/event-stream"}) as posted,
        ):
            agent.end()
            for reply in (got, posted):
                found = [event.data async for event in events(reply)]
                assert [list(each) for each in (found[0], found[-1])] == [["task"], ["statusUpdate"]]
                assert found[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_head_request_of_a_subscription_ends_at_once_without_a_stream(tmp_path: Path) -> None:
    async with open_all(tmp_path, ("a", Stepped()), max_streams=1) as plane, asyncio.timeout(20):
        task = await plane.send("go", returnImmediately=True)
        for _ in range(2):
            reply = await plane.http.head(f"/tasks/{task['id']}:subscribe")
            assert (reply.status_code, reply.content) == (200, b"")
            assert reply.headers["content-type"].startswith("text/event-stream")
        assert (await plane.http.head("/tasks/none:subscribe")).status_code == 404


@pytest.mark.parametrize(
    ("headers", "media_type"),
    [
        ({}, "application/a2a+json"),
        ({"accept": "*/*"}, "application/a2a+json"),
        ({"accept": "application/json"}, "application/json"),
        ({"accept": "text/html, application/json;q=0.9"}, "application/json"),
        ({"content-type": "application/json"}, "application/json"),
        ({"accept": "application/a2a+json", "content-type": "application/json"}, "application/a2a+json"),
        ({"accept": "text/event-stream", "content-type": "application/json; charset=utf-8"}, "application/json"),
        ({"accept": "application/json-seq"}, "application/a2a+json"),
        ({"accept": "application/a2a+json, application/json"}, "application/json"),
        ({"accept": "application/json;q=0.2, Application/A2A+JSON; q=0.7"}, "application/a2a+json"),
        ({"accept": "application/json;q=0", "content-type": "application/a2a+json"}, "application/a2a+json"),
    ],
)
async def test_responses_and_errors_have_the_requested_media_type(
    plane: Plane, headers: dict[str, str], media_type: str
) -> None:
    """a2a H8."""
    for path, status in (("/tasks", 200), ("/tasks/none", 404)):
        reply = await plane.http.get(path, headers={"accept": "", **headers})
        assert (reply.status_code, reply.headers["content-type"]) == (status, media_type)


async def test_an_error_has_a_status_its_name_and_typed_details(plane: Plane) -> None:
    """a2a I4."""
    reply = await plane.http.get("/tasks/none")
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error["status"]) == (404, 404, "NOT_FOUND")
    info = error["details"][0]
    assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert (info["reason"], info["domain"]) == ("TASK_NOT_FOUND", "a2a-protocol.org")


@pytest.mark.parametrize(
    ("method", "path", "sent", "status", "name"),
    [
        ("POST", "/message:send", {"content": b"{", "headers": JSON_TYPE}, 400, "INVALID_ARGUMENT"),
        ("POST", "/message:send", {"json": []}, 400, "INVALID_ARGUMENT"),
        ("POST", "/message:send", {}, 400, "INVALID_ARGUMENT"),
        (
            "POST",
            "/message:send",
            {"content": b"{}", "headers": PLAIN},
            415,
            "INVALID_ARGUMENT",
        ),
        (
            "POST",
            "/message:send",
            {"content": b"x" * (8_388_609), "headers": JSON_TYPE},
            413,
            "INVALID_ARGUMENT",
        ),
        ("POST", "/message:send", {"json": {"message": said("x", taskId="none")}}, 404, "NOT_FOUND"),
        ("POST", "/agents/none/message:send", {"json": {"message": said("x")}}, 404, "UNIMPLEMENTED"),
        ("GET", "/tasks?pageSize=0", {}, 400, "INVALID_ARGUMENT"),
        ("POST", "/tasks/none:cancel", {}, 404, "NOT_FOUND"),
        ("GET", "/tasks", {"headers": {"a2a-version": "0.3"}}, 400, "FAILED_PRECONDITION"),
        ("GET", "/tasks?A2A-Version=1.1", {}, 400, "FAILED_PRECONDITION"),
        ("GET", "/extendedAgentCard", {}, 400, "FAILED_PRECONDITION"),
        ("DELETE", "/tasks/none/pushNotificationConfigs/none", {}, 400, "FAILED_PRECONDITION"),
    ],
)
async def test_each_error_has_its_status(
    plane: Plane, method: str, path: str, sent: dict[str, Any], status: int, name: str
) -> None:
    """a2a H10, I1."""
    reply = await plane.http.request(method, path, **sent)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error["status"]) == (status, status, name)


async def test_the_error_suggests_a_version_of_this_binding(plane: Plane) -> None:
    reply = await plane.http.get("/tasks", headers={"a2a-version": "0.3"})
    assert reply.json()["error"]["details"][0]["metadata"]["suggestion"] == "use A2A-Version 1.0"


async def test_a_key_used_for_another_message_is_a_conflict(plane: Plane) -> None:
    """C10, a2a D12."""
    headers = {"idempotency-key": fresh()}
    assert (await plane.http.post("/message:send", json={"message": said("message a")}, headers=headers)).is_success
    reply = await plane.http.post("/message:send", json={"message": said("message b")}, headers=headers)
    assert (reply.status_code, reply.json()["error"]["status"]) == (409, "INVALID_ARGUMENT")


async def test_each_agent_has_the_rest_paths_below_its_address(plane: Plane) -> None:
    """a2a A3."""
    for base in ("", "/agents/demo"):
        reply = await plane.http.post(f"{base}/message:send", json={"message": said("message hello")})
        assert reply.json()["message"]["parts"] == [{"text": "hello"}]


async def test_the_official_client_streams_gets_lists_cancels_and_reads_errors(plane: Plane) -> None:
    """a2a K7, K16."""
    card = AgentCard(name="demo", version="1", capabilities={"streaming": True})
    card.supported_interfaces.append(
        AgentInterface(url=plane.gateway.url, protocol_binding="HTTP+JSON", protocol_version="1.0")
    )
    factory = ClientFactory(ClientConfig(httpx_client=plane.http, supported_protocol_bindings=["HTTP+JSON"]))
    client = factory.create(card)
    message = Message(message_id=fresh(), role=Role.ROLE_USER, parts=[Part(text="chunks 3 4")])
    async with asyncio.timeout(20):
        found = [MessageToDict(one) async for one in client.send_message(SendMessageRequest(message=message))]
    assert list(found[0]) == ["task"]
    assert sum("artifactUpdate" in one for one in found) == 3
    assert found[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    task = found[0]["task"]
    assert (await client.get_task(GetTaskRequest(id=task["id"]))).status.state == TaskState.TASK_STATE_COMPLETED
    (listed,) = (await client.list_tasks(ListTasksRequest(context_id=task["contextId"]))).tasks
    assert listed.id == task["id"]
    with pytest.raises(TaskNotCancelableError):
        await client.cancel_task(CancelTaskRequest(id=task["id"]))
    with pytest.raises(TaskNotFoundError):
        await client.get_task(GetTaskRequest(id="none"))
    paused = await plane.send("ask")
    canceled = await client.cancel_task(CancelTaskRequest(id=paused["id"]))
    assert canceled.status.state == TaskState.TASK_STATE_CANCELED
