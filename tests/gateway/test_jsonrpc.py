"""The JSON-RPC envelope, versions, and errors."""

from typing import Any

import httpx
import pytest
from tests.gateway.plane import JSON_TYPE, Plane, request, said, said_0_3

pytestmark = pytest.mark.asyncio(loop_scope="module")

A2A_DOMAIN = "a2a-protocol.org"


async def posted(plane: Plane, body: bytes | str, path: str = "/", **headers: str) -> httpx.Response:
    return await plane.http.post(path, content=body, headers={**JSON_TYPE, **headers})


@pytest.mark.parametrize(
    ("body", "code", "rpc_id"),
    [
        ("{", -32700, None),
        ("", -32700, None),
        ("NaN", -32700, None),
        ('"\\ud800"', -32700, None),
        ("[]", -32600, None),
        ("7", -32600, None),
        ('[{"jsonrpc":"2.0","id":1,"method":"GetTask"}]', -32600, None),
        ('{"jsonrpc":"1.0","id":"a","method":"GetTask"}', -32600, "a"),
        ('{"id":7,"method":"GetTask"}', -32600, 7),
        ('{"jsonrpc":"2.0","id":7}', -32600, 7),
        ('{"jsonrpc":"2.0","id":7,"method":5}', -32600, 7),
        ('{"jsonrpc":"2.0","id":{},"method":"GetTask"}', -32600, None),
        ('{"jsonrpc":"2.0","id":[1],"method":"GetTask"}', -32600, None),
        ('{"jsonrpc":"2.0","id":true,"method":"GetTask"}', -32600, None),
        ('{"jsonrpc":"2.0","id":1.5,"method":"Nothing"}', -32601, 1.5),
        ('{"jsonrpc":"2.0","id":1,"method":"tasks/list"}', -32601, 1),
        ('{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}', -32602, 1),
        ('{"jsonrpc":"2.0","id":1,"method":"GetTask"}', -32602, 1),
        ('{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":7}', -32602, 1),
        ('{"jsonrpc":"2.0","id":1,"method":"GetTask","params":' + "[" * 65 + "]" * 65 + "}", -32602, 1),
    ],
)
async def test_an_invalid_envelope_is_answered_with_its_code_and_its_valid_id(
    plane: Plane, body: str, code: int, rpc_id: Any
) -> None:
    """a2a A7, I2, I9."""
    reply = await posted(plane, body)
    found = reply.json()
    assert reply.status_code == 200
    assert (found["jsonrpc"], found["id"], found["error"]["code"]) == ("2.0", rpc_id, code)


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "multipart/form-data; boundary=x"])
async def test_another_content_type_is_refused_before_the_body_is_read(plane: Plane, content_type: str) -> None:
    """a2a H6, H10."""
    reply = await plane.http.post("/", content=b"{", headers={"content-type": content_type})
    assert reply.status_code == 200
    assert (reply.json()["id"], reply.json()["error"]["code"]) == (None, -32005)


async def test_a_missing_content_type_is_refused_and_its_parameters_are_ignored(plane: Plane) -> None:
    """a2a H6, H12."""
    assert (await plane.http.post("/", content=b"{}")).json()["error"]["code"] == -32005
    reply = await plane.http.post("/", content=b"{", headers={"content-type": "application/JSON; charset=latin-1"})
    assert reply.json()["error"]["code"] == -32700


async def test_a_request_without_a_body_is_a_parse_error(plane: Plane) -> None:
    assert (await plane.http.post("/")).json()["error"]["code"] == -32700


@pytest.mark.parametrize(
    ("method", "version", "code"),
    [
        ("GetTask", "", -32001),
        ("GetTask", "1.0", -32001),
        ("GetTask", "1.0.7", -32001),
        ("GetTask", "0.3", -32009),
        ("GetTask", "1.1", -32009),
        ("GetTask", "99.0", -32009),
        ("tasks/get", "", -32001),
        ("tasks/get", "0.3.1", -32001),
        ("tasks/get", "1.0", -32601),
        ("tasks/get", "2.0", -32009),
    ],
)
async def test_the_version_is_checked_against_the_method_name(
    plane: Plane, method: str, version: str, code: int
) -> None:
    """a2a A10, H1, H2, H3, K1."""
    assert (await plane.error(method, {"id": "none"}, a2a_version=version))["code"] == code
    assert (await plane.error(method, {"id": "none"}, path=f"/?A2A-Version={version}"))["code"] == code


async def test_the_version_header_precedes_the_query_and_is_checked_before_the_params(plane: Plane) -> None:
    """a2a H1, H2."""
    error = await plane.error("GetTask", {"id": "none"}, path="/?A2A-Version=9.9", a2a_version="1.0")
    assert error["code"] == -32001
    assert (await plane.error("GetTask", [], a2a_version="9.9"))["code"] == -32009


async def test_errors_of_1_0_are_a_list_of_typed_details(plane: Plane) -> None:
    """a2a I2, I3."""
    error = await plane.error("GetTask", {"id": "none"}, a2a_version="1.0")
    info = error["data"][0]
    assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert (info["reason"], info["domain"]) == ("TASK_NOT_FOUND", A2A_DOMAIN)
    assert all(isinstance(value, str) for value in info["metadata"].values())
    wrong = await plane.error("SendMessage", {"message": {"role": "ROLE_USER"}})
    assert wrong["data"][1] == {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [
            {"field": "message.messageId", "description": "is required"},
            {"field": "message.parts", "description": "must not be empty"},
        ],
    }


async def test_errors_of_0_3_have_the_code_and_the_wrong_fields(plane: Plane) -> None:
    error = await plane.error("message/send", {"message": {}})
    assert error["code"] == -32602
    assert set(error["data"]["fields"]) == {"message.messageId", "message.role", "message.parts"}


@pytest.mark.parametrize(
    ("method", "code"),
    [
        ("CreateTaskPushNotificationConfig", -32003),
        ("GetTaskPushNotificationConfig", -32003),
        ("ListTaskPushNotificationConfigs", -32003),
        ("DeleteTaskPushNotificationConfig", -32003),
        ("tasks/pushNotificationConfig/set", -32003),
        ("tasks/pushNotificationConfig/list", -32003),
        ("GetExtendedAgentCard", -32004),
        ("agent/getAuthenticatedExtendedCard", -32007),
    ],
)
async def test_methods_that_the_card_does_not_announce_are_refused(plane: Plane, method: str, code: int) -> None:
    assert (await plane.error(method, {"taskId": "none"}))["code"] == code


async def test_a_webhook_in_a_send_is_refused(plane: Plane) -> None:
    push = {"url": "https://example.com"}
    params: Any = {"message": said("hello"), "configuration": {"taskPushNotificationConfig": push}}
    assert (await plane.error("SendMessage", params))["code"] == -32003
    params = {"message": said_0_3("hello"), "configuration": {"pushNotificationConfig": push}}
    assert (await plane.error("message/send", params))["code"] == -32003


@pytest.mark.parametrize(
    "path", ["/", "/agents/demo", "/agents/demo/", "/api/a2a/kagent/demo", "/api/a2a/kagent/demo/"]
)
async def test_each_agent_is_served_with_and_without_a_trailing_slash(plane: Plane, path: str) -> None:
    """a2a A3."""
    reply = await plane.http.post(path, json=request("SendMessage", {"message": said("message hello")}))
    assert reply.status_code == 200
    assert reply.json()["result"]["message"]["parts"] == [{"text": "hello"}]


async def test_an_unknown_agent_is_404_with_a_json_rpc_error(plane: Plane) -> None:
    for name in ("none", "demo%2f", "demo%2Fx", "%2fdemo"):
        reply = await plane.http.post(f"/agents/{name}", json=request("SendMessage", {"message": said("hello")}))
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, -32601), name
        assert reply.json()["error"]["data"][0]["metadata"]["suggestion"] == "the agents are demo"


async def test_a_body_over_the_limit_is_refused_unread(plane: Plane) -> None:
    reply = await posted(plane, b"x" * (8 * 1024 * 1024 + 1))
    assert reply.status_code == 413
    assert reply.json()["error"]["code"] == -32600


async def test_a_message_too_large_for_the_services_is_refused(plane: Plane) -> None:
    error = await plane.error("SendMessage", {"message": said("x" * (4 * 1024 * 1024))})
    assert error["code"] == -32602
    assert error["data"][0]["metadata"]["reason"] == "REQUEST_TOO_LARGE"


async def test_a_large_message_below_the_limit_is_accepted(plane: Plane) -> None:
    text = "message " + "x" * (18 * 100 * 1024)
    assert (await plane.send(text))["parts"][0]["text"] == text[8:]
