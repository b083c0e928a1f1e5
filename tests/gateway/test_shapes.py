"""The elements of a stream: four shapes that are distinguished on the wire, and growing texts."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.executor.scripted import Scripted
from tests.gateway.bindings import Binding, Client, Event
from tests.gateway.plane import GROWING, Json, Plane, open_all, said, said_0_3
from tests.gateway.plane import Event as WireEvent

from taskplane.agents.agent import AskInput, Change, Complete, Fail, Say, Text, Turn, Working
from taskplane.api import growing_text

pytestmark = pytest.mark.asyncio(loop_scope="module")

# The `kind` of 0.3 for each wrapper key of 1.0.
KINDS = {"task": "task", "statusUpdate": "status-update", "artifactUpdate": "artifact-update", "message": "message"}


async def streamed(plane: Plane, version: str, text: str) -> list[WireEvent]:
    """Return the whole stream of one message."""
    if version == "1.0":
        return await plane.streamed("SendStreamingMessage", {"message": said(text)})
    return await plane.streamed("message/stream", {"message": said_0_3(text)})


def opened(event: WireEvent) -> tuple[str, Json]:
    """Return the shape of an event, as its wrapper key in 1.0, and its content. Assert that exactly one shape fits."""
    assert set(event.data) == {"jsonrpc", "id", "result"}
    if "kind" in event.result:
        assert not KINDS.keys() & event.result.keys() - {"message"}
        (key,) = (key for key, kind in KINDS.items() if kind == event.result["kind"])
        return key, event.result
    ((key, held),) = event.result.items()
    assert key in KINDS
    assert "kind" not in held
    return key, held


def message_of(event: WireEvent | Event) -> Json | None:
    """Return the message of a status update."""
    message: Json | None = event.result.get("statusUpdate", {}).get("status", {}).get("message")
    return message


def is_partial(message: Json) -> bool:
    return message["metadata"].get("kagent_adk_partial") is True


def words(message: Json) -> str:
    return "".join(part.get("text", "") for part in message["parts"])


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_each_event_has_exactly_one_of_four_shapes(plane: Plane, version: str) -> None:
    """T1: 1.0 has exactly one wrapper key and no `kind`, 0.3 always has `kind`; both are results of JSON-RPC."""
    texts = ("tool", "artifact", "message hi")
    found = [opened(event) for text in texts for event in await streamed(plane, version, text)]
    assert {key for key, _ in found} == set(KINDS)
    artifacts = [held["artifact"]["artifactId"] for key, held in found if key == "artifactUpdate"]
    assert artifacts == ["text", "data", "file"]
    assert all("kind" in held for _, held in found) == (version == "0.3")


async def test_tool_calls_and_results_are_status_updates_with_data_parts(client: Client) -> None:
    """T1: `function_call` with id, name and args, then `function_response` with id, name and response."""
    events = await client.streamed("SendStreamingMessage", {"message": said("tool")})
    messages = [message for event in events if (message := message_of(event))]
    tools = [
        (part["metadata"]["kagent_type"], part["data"])
        for message in messages
        for part in message["parts"]
        if "data" in part
    ]
    assert tools == [
        ("function_call", {"id": "call-1", "name": "lookup", "args": {"question": "the answer"}}),
        ("function_response", {"id": "call-1", "name": "lookup", "response": {"answer": 42}}),
    ]


async def test_a_growing_text_is_streamed_in_order_and_only_stored_whole(tmp_path: Path, binding: Binding) -> None:
    """T5: partial messages are in no history, neither before the end nor after it."""
    received, go_on = asyncio.Event(), asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        for piece in ("Half ", "a ", "sen"):
            yield Text(piece)
        await received.wait()
        yield Text("ten")
        await go_on.wait()
        yield Text("ce.")
        yield Complete()

    async with open_all(tmp_path, ("a", Scripted(script))) as plane:
        client = Client(plane, binding)
        sent = {"message": said("go")}
        async with asyncio.timeout(20), client.stream("SendStreamingMessage", sent, **GROWING) as events:
            task = (await anext(events)).result["task"]
            grown = ""
            last: Json = {}
            async for event in events:
                message = message_of(event)
                if message is None:
                    continue
                if not is_partial(message):
                    last = message
                    continue
                grown += words(message)
                assert "Half a sentence.".startswith(grown)
                if grown == "Half a sen":
                    received.set()
                if grown == "Half a senten":
                    assert await histories(plane, task) == [["go"]] * 4
                    now = (await plane.result("GetTask", {"id": task["id"]}))["status"]["message"]
                    assert (words(now), is_partial(now)) == (grown, True)
                    go_on.set()
        assert grown == words(last) == "Half a sentence."
        assert await histories(plane, task) == [["go"], ["go"], ["go", grown], ["go", grown]]


async def test_a_client_without_the_text_extension_gets_each_text_once(tmp_path: Path, binding: Binding) -> None:
    """T1: as a whole, for every way in which the agent sends it. At the path of kagent texts grow for every client."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Working("Thinking")
        yield Text("Half ")
        yield Text("a sentence.")
        match turn.text:
            case "open":
                return
            case "whole":
                yield Complete("Half a sentence.")
            case "other":
                yield Complete("Something else.")
            case "say":
                yield Say("Half a sentence.")
            case "ask":
                yield AskInput("Who?")
            case _:
                yield Fail("No idea.")

    async with open_all(tmp_path, ("a", Scripted(script))) as plane:
        client = Client(plane, binding)
        for text, last in (
            ("open", []),
            ("whole", []),
            ("other", ["Something else."]),
            ("say", []),
            ("ask", ["Who?"]),
            ("fail", ["No idea."]),
        ):
            events = await client.streamed("SendStreamingMessage", {"message": said(text)})
            shown = [words(message) for event in events if (message := message_of(event))]
            assert shown == ["Thinking", "Half a sentence.", *last], text
        declared = (await plane.http.get("/.well-known/agent-card.json")).json()["capabilities"]["extensions"]
        (agent,) = (one for one in declared if one["uri"] == growing_text.EXTENSION)
        assert not agent.get("required")
        grown = await plane.streamed("SendStreamingMessage", {"message": said("whole")}, path="/api/a2a/any/a")
        messages = [message for event in grown if (message := message_of(event))]
        assert any(map(is_partial, messages))


async def test_a_stream_without_partial_messages_is_resumed_after_every_event(client: Client) -> None:
    """T6: without a gap or a repetition."""
    whole = await client.streamed("SendStreamingMessage", {"message": said("echo one two")})
    task = whole[0].result["task"]["id"]
    for index, event in enumerate(whole[:-1]):
        rest = await client.streamed("SubscribeToTask", {"id": task}, Last_Event_ID=event.id)
        assert rest == whole[index + 1 :]


async def histories(plane: Plane, task: Json) -> list[list[str]]:
    """Return the stored conversation by each route. Those of A2A omit the message of the status."""
    under_api = [f"/api/tasks/{task['id']}", f"/api/sessions/{task['contextId']}/messages"]
    read = [(await plane.http.get(path)).json()["data"] for path in under_api]
    lists = [
        (await plane.result("GetTask", {"id": task["id"]}))["history"],
        (await plane.result("tasks/get", {"id": task["id"]}))["history"],
        read[0]["history"],
        read[1]["messages"],
    ]
    assert not any(is_partial(message) for messages in lists for message in messages)
    return [[words(message) for message in messages] for messages in lists]
