"""Texts that no store can hold, over each binding."""

from typing import Any, Final

import pytest
from a2a.types import a2a_pb2 as sdk
from tests.gateway.bindings import Client
from tests.gateway.plane import Json, Plane, fresh, said
from tests.gateway.test_grpc import refused, saying, stub

pytestmark = pytest.mark.asyncio(loop_scope="module")
NO_NUL: Final = "must not contain U+0000"


def sent(**fields: Any) -> Json:
    return {"message": said("hello", **fields)}


@pytest.mark.parametrize(
    ("operation", "params", "field"),
    [
        ("SendMessage", sent(messageId="a\0"), "messageId"),
        ("SendMessage", sent(contextId="a\0"), "contextId"),
        ("SendMessage", sent(parts=[{"text": "a\0"}]), "text"),
        ("SendMessage", sent(extensions=["a", "b\0"]), "extensions[1]"),
        (
            "SendStreamingMessage",
            {**sent(), "configuration": {"acceptedOutputModes": ["text/\0"], "returnImmediately": False}},
            "acceptedOutputModes[0]",
        ),
    ],
)
async def test_nul_in_a_text_is_invalid_params_that_name_it(
    client: Client, operation: str, params: Json, field: str
) -> None:
    """S7: a text that PostgreSQL cannot hold is refused before anything is stored."""
    context = fresh()
    found = await client.error(operation, {**params, "message": {"contextId": context, **params["message"]}})
    assert found.code == -32602
    assert [(path.rpartition(".")[2], rule) for path, rule in found.fields.items()] == [(field, NO_NUL)]
    assert (await client.plane.result("ListTasks", {"contextId": context}))["tasks"] == []


async def test_nul_in_a_page_token_is_invalid_params_that_name_it(lister: Client) -> None:
    found = await lister.error("ListTasks", {"pageToken": "a\0"})
    assert (found.code, found.fields) == (-32602, {"pageToken": NO_NUL})


async def test_nul_in_any_text_over_grpc_is_named_by_its_path(plane: Plane) -> None:
    request = saying("hello", extensions=["\0"], reference_task_ids=["t", "\0"], task_id="\0")
    request.message.parts.add(url="\0", filename="\0", media_type="\0")
    request.configuration.accepted_output_modes.append("\0")
    request.configuration.task_push_notification_config.token = "\0"
    _, error = await refused(stub(plane).SendMessage(request))
    assert set(error.fields.values()) == {NO_NUL}
    assert set(error.fields) <= {
        "message.taskId",
        "message.parts[1].url",
        "message.parts[1].filename",
        "message.parts[1].mediaType",
        "message.extensions[0]",
        "message.referenceTaskIds[1]",
        "configuration.acceptedOutputModes[0]",
        "configuration.taskPushNotificationConfig.token",
    }
    # A status names eight wrong fields at most.
    assert len(error.fields) == 8
    for listing in (sdk.ListTasksRequest(page_token="\0"), sdk.ListTasksRequest(context_id="\0")):
        _, error = await refused(stub(plane).ListTasks(listing))
        assert set(error.fields.values()) == {NO_NUL}
