"""Requests about webhooks as clients of each version write them: each is refused, before its task is looked up."""

from typing import Any, Final

import grpc
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.compat.v0_3.a2a_v0_3_pb2_grpc import A2AServiceStub as OldStub
from a2a.types import a2a_pb2 as new
from a2a.types.a2a_pb2_grpc import A2AServiceStub
from tests.gateway.failures import failed
from tests.gateway.plane import Json, Plane, said, said_0_3

pytestmark = pytest.mark.asyncio(loop_scope="module")

URL: Final = "https://example.com/hook"
AUTHENTICATION: Final[Json] = {"schemes": ["Bearer", "Basic"], "credentials": "secret"}
FLAT: Final[Json] = {"taskId": "none", "id": "c", "url": URL, "authentication": {"scheme": "Bearer"}}
OLD: Final[Json] = {"id": "c", "url": URL, "token": "t", "authentication": AUTHENTICATION}
PREFIX: Final = "tasks/pushNotificationConfig"

JSON_RPC: Final[list[tuple[str, Json]]] = [
    ("CreateTaskPushNotificationConfig", FLAT),
    ("GetTaskPushNotificationConfig", {"tenant": "", "taskId": "none", "id": "c"}),
    ("ListTaskPushNotificationConfigs", {"task_id": "none", "page_size": 10, "page_token": ""}),
    ("DeleteTaskPushNotificationConfig", {"taskId": "none", "id": "c"}),
    ("SendMessage", {"message": said("x"), "configuration": {"taskPushNotificationConfig": {"url": URL}}}),
    ("SendStreamingMessage", {"message": said("x"), "configuration": {"taskPushNotificationConfig": FLAT}}),
    (f"{PREFIX}/set", {"taskId": "none", "pushNotificationConfig": OLD}),
    (f"{PREFIX}/get", {"id": "none"}),
    (f"{PREFIX}/get", {"id": "none", "pushNotificationConfigId": "default", "metadata": {}}),
    (f"{PREFIX}/list", {"id": "none"}),
    (f"{PREFIX}/delete", {"id": "none", "pushNotificationConfigId": "c"}),
    ("message/send", {"message": said_0_3("x"), "configuration": {"pushNotificationConfig": OLD}}),
    ("message/send", {"message": said_0_3("x"), "configuration": {"pushNotificationConfig": {"url": URL}}}),
]


@pytest.mark.parametrize(("method", "params"), JSON_RPC, ids=[method for method, _ in JSON_RPC])
async def test_json_rpc_of_either_version_refuses_each_webhook(plane: Plane, method: str, params: Json) -> None:
    """a2a B12, F1."""
    error = await plane.error(method, params)
    assert error["code"] == -32003
    data = error["data"]
    assert (data if isinstance(data, dict) else data[0])["reason"] == "PUSH_NOTIFICATION_NOT_SUPPORTED"


SNAKE: Final[Json] = {
    "parent": "tasks/none",
    "config_id": "c",
    "config": {
        "name": "tasks/none/pushNotificationConfigs/None",
        "push_notification_config": {"url": URL, "authentication": {}},
    },
}
MESSAGE: Final[Json] = {"message_id": "m", "role": "ROLE_USER", "content": [{"text": "x"}]}
CONFIGS: Final = "tasks/none/pushNotificationConfigs"
REST: Final[list[tuple[str, str, Any]]] = [
    ("POST", f"/{CONFIGS}", FLAT),
    ("GET", f"/{CONFIGS}/c", None),
    ("GET", f"/{CONFIGS}?pageSize=10&page_token=x", None),
    ("DELETE", f"/{CONFIGS}/c", None),
    ("POST", f"/v1/{CONFIGS}", SNAKE),
    ("GET", f"/v1/{CONFIGS}/None", None),
    ("GET", f"/v1/{CONFIGS}", None),
    ("DELETE", f"/v1/{CONFIGS}/c", None),
    ("POST", "/v1/message:send", {"request": MESSAGE, "configuration": {"push_notification": OLD}}),
    ("POST", "/v1/message:stream", {"message": MESSAGE, "configuration": {"pushNotificationConfig": {"url": URL}}}),
]


@pytest.mark.parametrize(("verb", "path", "body"), REST, ids=[f"{verb} {path}" for verb, path, _ in REST])
async def test_rest_of_either_version_refuses_each_webhook(plane: Plane, verb: str, path: str, body: Any) -> None:
    """a2a B16, B17, F1, F7."""
    reply = await plane.http.request(verb, path, json=body)
    assert reply.status_code == (501 if path.startswith("/v1") else 400)
    assert reply.json()["error"]["details"][0]["reason"] == "PUSH_NOTIFICATION_NOT_SUPPORTED"


NAME: Final = "tasks/none/pushNotificationConfigs/c"
NEW_CALLS: Final[list[Any]] = [
    ("CreateTaskPushNotificationConfig", new.TaskPushNotificationConfig(task_id="none", url=URL)),
    ("GetTaskPushNotificationConfig", new.GetTaskPushNotificationConfigRequest(task_id="none", id="c")),
    ("ListTaskPushNotificationConfigs", new.ListTaskPushNotificationConfigsRequest(task_id="none", tenant="default")),
    ("DeleteTaskPushNotificationConfig", new.DeleteTaskPushNotificationConfigRequest(task_id="none", id="c")),
]
OLD_CALLS: Final[list[Any]] = [
    ("CreateTaskPushNotificationConfig", old.CreateTaskPushNotificationConfigRequest(parent="tasks/none")),
    ("GetTaskPushNotificationConfig", old.GetTaskPushNotificationConfigRequest(name=NAME)),
    ("ListTaskPushNotificationConfig", old.ListTaskPushNotificationConfigRequest(parent="tasks/none")),
    ("DeleteTaskPushNotificationConfig", old.DeleteTaskPushNotificationConfigRequest(name=NAME)),
]


async def test_grpc_of_either_version_refuses_each_webhook(plane: Plane) -> None:
    """a2a A9, F1, J7."""
    for stub, calls, code in (
        (A2AServiceStub, NEW_CALLS, grpc.StatusCode.FAILED_PRECONDITION),
        (OldStub, OLD_CALLS, grpc.StatusCode.UNIMPLEMENTED),
    ):
        made: Any = stub(plane.channel)
        for name, request in calls:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await getattr(made, name)(request)
            assert caught.value.code() is code, name
            assert failed(caught.value).reason == "PUSH_NOTIFICATION_NOT_SUPPORTED"
