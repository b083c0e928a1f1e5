"""Readers that refuse what they do not know read every answer of each binding over HTTP."""

from typing import Any, Final

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.compat.v0_3 import types as models
from a2a.types import a2a_pb2 as official
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from pydantic import TypeAdapter
from tests.gateway.bindings import Client, JsonRpc, JsonRpc03, Rest, Rest03
from tests.gateway.plane import Json, Plane, events, said

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANSWERS: Final[dict[str, type[Message]]] = {
    "SendMessage": official.SendMessageResponse,
    "SendStreamingMessage": official.StreamResponse,
    "GetTask": official.Task,
    "ListTasks": official.ListTasksResponse,
    "CancelTask": official.Task,
    "SubscribeToTask": official.StreamResponse,
}
TEXTS: Final = ("hello", "message hi", "artifact", "chunks 3 4", "ask", "auth", "fail", "reject")


async def raw(plane: Plane, binding: Any, operation: str, params: Json) -> list[Any]:
    """Return the results of a call as they are written."""
    framed = binding.frame(operation, params)
    async with plane.http.stream(framed.verb, framed.path, json=framed.body) as reply:
        if reply.headers["content-type"] == "text/event-stream":
            found: list[Any] = []
            async for event in events(reply):
                found.append(event.data)
                if "auth" in str(params) and "AUTH_REQUIRED" in str(event.data).upper().replace("-", "_"):
                    break
            return found
        await reply.aread()
        return [reply.json()]


async def walk(plane: Plane, binding: Any) -> list[tuple[str, Any]]:
    """Return each operation of some conversations with its results as they are written."""
    client, found = Client(plane, binding), list[tuple[str, Any]]()

    async def call(operation: str, params: Json) -> None:
        if operation in binding.operations:
            found.extend((operation, each) for each in await raw(plane, binding, operation, params))

    for text in TEXTS:
        await call("SendMessage", {"message": said(text)})
        await call("SendStreamingMessage", {"message": said(text)})
    task = await client.send("ask")
    await call("GetTask", {"id": task["id"]})
    await call("ListTasks", {"contextId": task["contextId"], "includeArtifacts": True})
    await call("ListTasks", {"contextId": "none"})
    async with client.stream("SubscribeToTask", {"id": task["id"]}) as subscribed:
        await anext(subscribed)
        await call("CancelTask", {"id": task["id"]})
    return found


@pytest.mark.parametrize("binding", [JsonRpc(), Rest()], ids=lambda binding: binding.name)
async def test_answers_of_1_0_have_no_member_that_its_messages_do_not_have(plane: Plane, binding: Any) -> None:
    """a2a B1, B7, B8, E2, K10: and no default but those of a list."""
    for operation, body in await walk(plane, binding):
        result = body["result"] if isinstance(binding, JsonRpc) else body
        read = ParseDict(result, ANSWERS[operation]())
        if operation != "ListTasks":
            assert result == MessageToDict(read)
        else:
            assert set(result) == {"tasks", "nextPageToken", "pageSize", "totalSize"}


async def test_answers_of_0_3_over_json_rpc_are_what_the_models_of_its_library_write(plane: Plane) -> None:
    """a2a B9, B10, B11, K10: without a member that they do not have."""
    element: TypeAdapter[Any] = TypeAdapter(
        models.Task | models.Message | models.TaskStatusUpdateEvent | models.TaskArtifactUpdateEvent
    )
    for _, body in await walk(plane, JsonRpc03()):
        read = element.validate_python(body["result"])
        assert read.model_dump(mode="json", by_alias=True, exclude_unset=True) == body["result"]


async def test_answers_of_0_3_over_rest_are_the_protojson_of_its_messages(plane: Plane) -> None:
    """a2a B15, B18, K10: without a member that they do not have, and no default but `final`."""
    for operation, body in await walk(plane, Rest03()):
        read = ParseDict(body, getattr(old, ANSWERS[operation].DESCRIPTOR.name)())
        written = MessageToDict(read)
        if "statusUpdate" in written:
            written["statusUpdate"].setdefault("final", False)
        assert body == written
