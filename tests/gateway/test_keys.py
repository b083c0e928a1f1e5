"""A send under an idempotency key is one request, however a binding writes it (a2a D12)."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as official
from a2a.compat.v0_3.a2a_v0_3_pb2_grpc import A2AServiceStub
from google.protobuf.json_format import ParseDict
from tests.gateway.bindings import Client, Grpc, JsonRpc, Rest
from tests.gateway.plane import Json, Plane, fresh, said

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def over_jsonrpc(plane: Plane, message: Json, configuration: Json | None, key: str) -> str:
    """Send as JSON-RPC of 0.3, and return the id of the task."""
    sent = {**message, "kind": "message", "parts": [{"kind": "text", **part} for part in message["parts"]]}
    params: Json = {"message": sent, **({} if configuration is None else {"configuration": configuration})}
    return str((await plane.result("message/send", params, Idempotency_Key=key))["id"])


async def over_rest(plane: Plane, message: Json, configuration: Json | None, key: str) -> str:
    """Send as REST of 0.3."""
    sent = {**message, "content": message["parts"]}
    del sent["parts"]
    body: Json = {"request": sent, **({} if configuration is None else {"configuration": configuration})}
    reply = await plane.http.post("/v1/message:send", json=body, headers={"idempotency-key": key})
    assert reply.status_code == 200, reply.text
    return str(reply.json()["task"]["id"])


async def over_grpc(plane: Plane, message: Json, configuration: Json | None, key: str) -> str:
    """Send as gRPC of 0.3."""
    sent = {**message, "content": message["parts"]}
    del sent["parts"]
    request = ParseDict({"message": sent, "configuration": configuration or {}}, official.SendMessageRequest())
    stub: Any = A2AServiceStub(plane.channel)  # type: ignore[no-untyped-call]
    reply = await stub.SendMessage(request, metadata=[("idempotency-key", key)], timeout=20.0)
    return str(reply.task.id)


@pytest.mark.parametrize(
    "configuration",
    [None, {}, {"blocking": False}, {"blocking": True}, {"historyLength": 3}, {"acceptedOutputModes": ["text/plain"]}],
    ids=str,
)
async def test_a_key_used_over_another_binding_of_0_3_names_the_same_task(
    plane: Plane, configuration: Json | None
) -> None:
    """a2a D12: none of them says anything else than the others."""
    message, key = {**said("hello"), "role": "ROLE_USER"}, fresh()
    found = {await each(plane, message, configuration, key) for each in (over_jsonrpc, over_rest, over_grpc)}
    assert len(found) == 1


async def test_a_key_used_over_another_binding_of_1_0_names_the_same_task(plane: Plane) -> None:
    """a2a D12: a configuration without content is none."""
    key, message = fresh(), said("hello")
    forms: list[Json] = [
        {},
        {"configuration": {}},
        {"configuration": {"returnImmediately": False}},
        {"metadata": {}},
    ]
    found = {
        (await Client(plane, each).result("SendMessage", {"message": message, **more}, Idempotency_Key=key))["task"][
            "id"
        ]
        for each in (JsonRpc(), Rest(), Grpc())
        for more in forms
    }
    assert len(found) == 1


async def test_a_key_used_in_both_versions_names_the_same_task_however_long_its_sends_wait(plane: Plane) -> None:
    """a2a D12: both versions are one model, and the time of the answer is no part of the request."""
    key, message = fresh(), {**said("hello"), "role": "ROLE_USER"}
    found = {await over_stream(plane, path, message, key, asked) for path, asked in _STREAMED}
    for waits in (False, True):
        for each in (over_jsonrpc, over_rest, over_grpc):
            found.add(await each(plane, message, {"blocking": waits}, key))
        for client in (Client(plane, JsonRpc()), Client(plane, Rest()), Client(plane, Grpc())):
            params: Json = {"message": message, "configuration": {"returnImmediately": not waits}}
            found.add((await client.result("SendMessage", params, Idempotency_Key=key))["task"]["id"])
    assert len(found) == 1


_STREAMED: Sequence[tuple[str, Json]] = (
    ("/v1/message:stream", {}),
    ("/v1/message:stream", {"blocking": True}),
    ("/message:stream", {}),
    ("/message:stream", {"returnImmediately": True}),
)


async def over_stream(plane: Plane, path: str, message: Json, key: str, configuration: Json) -> str:
    """Send over REST with a stream, and return the id of the task in its first event."""
    body = {"message": message, "configuration": configuration}
    async with plane.http.stream("POST", path, json=body, headers={"idempotency-key": key}) as reply:
        async for line in reply.aiter_lines():
            if line.startswith("data:"):
                return str(json.loads(line[5:])["task"]["id"])
    raise AssertionError(reply.status_code)
