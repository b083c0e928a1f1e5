"""The same requests are refused over each binding, and the same odd ones are taken."""

from typing import Any, Final

import pytest
from tests.gateway.bindings import STREAMS, Client
from tests.gateway.plane import Json, fresh, said

pytestmark = pytest.mark.asyncio(loop_scope="module")

WRONG: Final[list[tuple[Json, str]]] = [
    ({"messageId": ""}, "message.messageId"),
    ({"role": "ROLE_UNSPECIFIED"}, "message.role"),
    ({"parts": []}, "message.parts"),
    ({"parts": [{"text": "a"}, {}]}, "message.parts[1]"),
]


@pytest.mark.parametrize("operation", ["SendMessage", "SendStreamingMessage"])
@pytest.mark.parametrize(("fields", "path"), WRONG, ids=[path for _, path in WRONG])
async def test_a_message_without_a_required_field_is_refused_by_its_path(
    client: Client, operation: str, fields: Json, path: str
) -> None:
    """a2a B5, I10: and makes no task."""
    context = fresh()
    refused = await client.error(operation, {"message": said("hello", contextId=context, **fields)})
    assert refused.code == -32602
    assert [found.startswith(path) for found in refused.fields] == [True]
    assert (await client.plane.result("ListTasks", {"contextId": context}))["tasks"] == []


@pytest.mark.parametrize("operation", ["SendMessage", "SendStreamingMessage"])
async def test_a_send_with_a_negative_history_length_is_refused(client: Client, operation: str) -> None:
    """a2a C6, C7, I10."""
    params = {"message": said("hello"), "configuration": {"historyLength": -1}}
    assert list((await client.error(operation, params)).fields) == ["configuration.historyLength"]


async def test_a_read_with_a_negative_history_length_is_refused(client: Client) -> None:
    """a2a C6, C7, I10: it is checked before the task is looked up."""
    operations = {"GetTask": {"id": "none"}, "ListTasks": {}}
    for operation, params in operations.items():
        if operation in client.binding.operations:
            refused = await client.error(operation, {**params, "historyLength": -1})
            assert (refused.code, list(refused.fields)) == (-32602, ["historyLength"])


@pytest.mark.parametrize("task_id", ["t" * 256, "a\n"])
async def test_a_malformed_task_id_is_invalid_params(client: Client, task_id: str) -> None:
    """a2a B5, I10."""
    for operation in ("GetTask", "CancelTask", "SubscribeToTask"):
        refused = await client.error(operation, {"id": task_id})
        assert (refused.code, list(refused.fields)) == (-32602, ["id"]), operation


ODD: Final = [
    "x" * 500_000,
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u0645\u0631\u062d\u0628\u0627 \u202ertl\u202c e\u0301 \ufeff",
    "\u2028 \u2029 \x85 \x0b \x0c \x1c \x7f \U0010ffff",
    "{}\n\r\n\t\"'\\ <script> %00 &amp;",
]


@pytest.mark.parametrize("text", ODD, ids=["long", "Unicode", "separators", "syntax"])
async def test_a_long_text_and_any_unicode_come_back_unchanged(client: Client, text: str) -> None:
    """a2a I10: answered at once, streamed and read again."""
    direct = await client.send(f"message {text}")
    assert direct["parts"] == [{"text": text}]
    for operation in ("SendMessage", *STREAMS[:1]):
        context = fresh()
        params: Json = {"message": said("ask", contextId=context, parts=[{"text": "ask"}, {"text": text}])}
        if operation == "SendMessage":
            await client.result(operation, params)
        else:
            await client.streamed(operation, params)
        (task,) = (await client.plane.result("ListTasks", {"contextId": context}))["tasks"]
        kept: Any = (await client.result("GetTask", {"id": task["id"]}))["history"][0]["parts"]
        assert kept == [{"text": "ask"}, {"text": text}]
