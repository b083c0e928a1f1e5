"""Errors of a stream before its first event, and what else decides whether there is a stream at all."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
from tests.executor.scripted import Scripted
from tests.gateway.bindings import STREAMS, Binding, Client, HttpBinding
from tests.gateway.plane import Json, Plane, open_all, said

from taskplane.agents.agent import AgentCard, Change, Complete, Turn
from taskplane.agents.demo import Demo
from taskplane.api.a2a.v1.a2a_pb2 import AgentCapabilities, AgentExtension

pytestmark = pytest.mark.asyncio(loop_scope="module")

MISSING: Final[dict[str, Json]] = {
    "SendStreamingMessage": {"message": said("hi", taskId="none")},
    "SubscribeToTask": {"id": "none"},
}

WRONG: Final[dict[str, Json]] = {
    "SendStreamingMessage": {"message": said("hi", parts=[])},
    "SubscribeToTask": {"id": "t" * 256},
}


@pytest.mark.parametrize("operation", STREAMS)
async def test_an_error_before_the_first_event_is_an_ordinary_response(
    plane: Plane, http_binding: HttpBinding, operation: str
) -> None:
    """a2a C16, C23, I2, K11: over JSON-RPC of 0.3 it is an event, since its official client reads nothing else there;
    errors of the params are none."""
    framed = http_binding.frame(operation, MISSING[operation])
    wrong = http_binding.frame(operation, WRONG[operation])
    for sent, code, status in ((framed, -32001, 404), (wrong, -32602, 422 if http_binding.version == "0.3" else 400)):
        reply = await plane.http.request(sent.verb, sent.path, json=sent.body, headers={"accept": "text/event-stream"})
        streamed = http_binding.name == "jsonrpc-0.3" and code == -32001
        assert reply.headers["content-type"].startswith("text/event-stream") is streamed
        assert reply.status_code == (200 if http_binding.name.startswith("jsonrpc") else status)
        if streamed:
            assert reply.text.startswith("data: ") and reply.text.count("\n\n") == 1
        else:
            assert "json" in reply.headers["content-type"]
            assert getattr(http_binding.read(operation, reply.json()), "code", 0) == code


async def ended(turn: Turn) -> AsyncIterator[Change]:
    yield Complete("Done.")


def agent(**capabilities: object) -> Scripted:
    """An agent with these capabilities that ends each task at once."""
    made = Scripted(ended)
    made.card = AgentCard(name="scripted", version="1", capabilities=AgentCapabilities(**capabilities))  # type: ignore[arg-type]
    return made


async def test_an_agent_whose_card_denies_streaming_refuses_streams_and_answers_sends(
    binding: Binding, tmp_path: Path
) -> None:
    """a2a C13: before the task is looked up."""
    async with open_all(tmp_path, ("plain", agent(streaming=False))) as plane:
        client = Client(plane, binding)
        task = await client.send("hello")
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        for operation, params in MISSING.items():
            refused = await client.error(operation, params)
            assert (refused.code, refused.reason) == (-32004, "UNSUPPORTED_OPERATION"), operation


async def test_a_message_to_a_task_names_the_extensions_that_the_agent_of_the_task_requires(
    binding: Binding, tmp_path: Path
) -> None:
    """a2a H4: whatever agent the path names, and after the params."""
    demanding = Demo()
    demanding.card.capabilities.extensions.append(AgentExtension(uri="urn:needed", required=True))
    async with open_all(tmp_path, ("plain", Demo()), ("demanding", demanding)) as plane:
        reply = await plane.http.post(
            "/agents/demanding/message:send", json={"message": said("ask")}, headers={"a2a-extensions": "urn:needed"}
        )
        client, task = Client(plane, binding), reply.json()["task"]["id"]
        for operation in ("SendMessage", "SendStreamingMessage"):
            refused = await client.error(operation, {"message": said("blue", taskId=task)})
            assert refused.reason == "EXTENSION_SUPPORT_REQUIRED"
            refused = await client.error(operation, {"message": said("blue", taskId="none")})
            assert refused.code == -32001
            refused = await client.error(operation, {"message": said("blue", taskId=task, parts=[])})
            assert refused.code == -32602
        assert (await client.send("hello"))["status"]["state"] == "TASK_STATE_COMPLETED"
        named = {"A2A_Extensions": "urn:needed"}
        answer = await client.result("SendMessage", {"message": said("blue", taskId=task)}, **named)
        assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_an_extension_that_the_card_requires_must_be_named(binding: Binding, tmp_path: Path) -> None:
    """a2a H4, H5: by the header of either version, beside others that nobody knows, and before the params count."""
    needed = AgentExtension(uri="urn:needed", required=True)
    async with open_all(tmp_path, ("demanding", agent(extensions=[needed]))) as plane:
        client = Client(plane, binding)
        sends = ({"message": said("hello")}, WRONG["SendStreamingMessage"])
        for operation, params in (*(("SendMessage", each) for each in sends), ("GetTask", {"id": "none"})):
            refused = await client.error(operation, params)
            assert refused.reason == "EXTENSION_SUPPORT_REQUIRED"
            assert refused.suggestion == "name it in A2A-Extensions"
        for header in ("A2A_Extensions", "X_A2A_Extensions"):
            answer = await client.result("SendMessage", {"message": said("hi")}, **{header: "urn:other, urn:needed"})
            assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
