"""The elements of a stream: four things that can be told apart on the wire, and texts that grow."""

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

# By the wrapper key of 1.0, the `kind` of 0.3.
KINDS = {"task": "task", "statusUpdate": "status-update", "artifactUpdate": "artifact-update", "message": "message"}


async def streamed(plane: Plane, version: str, text: str) -> list[WireEvent]:
    """All that one message makes travel."""
    if version == "1.0":
        return await plane.streamed("SendStreamingMessage", {"message": said(text)})
    return await plane.streamed("message/stream", {"message": said_0_3(text)})


def opened(event: WireEvent) -> tuple[str, Json]:
    """What an event is, in the words of 1.0, and what it holds. AssertionError: it cannot be told, or not at once."""
    assert set(event.data) == {"jsonrpc", "id", "result"}
    if "kind" in event.result:
        assert not KINDS.keys() & event.result.keys() - {"message"}
        (key,) = (key for key, kind in KINDS.items() if kind == event.result["kind"])
        return key, event.result
    ((key, held),) = event.result.items()
    assert key in KINDS
    assert "kind" not in held
    return key, held


def said_in(event: WireEvent | Event) -> Json | None:
    """The message of a status update."""
    message: Json | None = event.result.get("statusUpdate", {}).get("status", {}).get("message")
    return message


def is_partial(message: Json) -> bool:
    return message["metadata"].get("kagent_adk_partial") is True


def words(message: Json) -> str:
    return "".join(part.get("text", "") for part in message["parts"])


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_each_event_is_one_of_four_things_that_can_be_told_apart(plane: Plane, version: str) -> None:
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
    messages = [message for event in events if (message := said_in(event))]
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


async def test_a_text_grows_in_order_while_it_is_said_and_is_kept_only_when_it_is_whole(
    tmp_path: Path, binding: Binding
) -> None:
    """T5: partial messages are delivered live and in order, and stand in no history, before the end and after."""
    heard, go_on = asyncio.Event(), asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        for piece in ("Half ", "a ", "sen"):
            yield Text(piece)
        await heard.wait()
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
                message = said_in(event)
                if message is None:
                    continue
                if not is_partial(message):
                    last = message
                    continue
                grown += words(message)
                assert "Half a sentence.".startswith(grown)
                if grown == "Half a sen":
                    heard.set()
                if grown == "Half a senten":
                    assert await histories(plane, task) == [["go"]] * 4
                    now = (await plane.result("GetTask", {"id": task["id"]}))["status"]["message"]
                    assert (words(now), is_partial(now)) == (grown, True)
                    go_on.set()
        assert grown == words(last) == "Half a sentence."
        assert await histories(plane, task) == [["go"], ["go"], ["go", grown], ["go", grown]]


async def test_a_client_that_knows_no_growing_text_is_told_each_text_once(tmp_path: Path, binding: Binding) -> None:
    """T1: whole, whichever way the agent says it; by the path of kagent it grows as ever."""

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
            told = [words(message) for event in events if (message := said_in(event))]
            assert told == ["Thinking", "Half a sentence.", *last], text
        (agent,) = (await plane.http.get("/.well-known/agent-card.json")).json()["capabilities"]["extensions"]
        assert agent["uri"] == growing_text.EXTENSION and not agent.get("required")
        grown = await plane.streamed("SendStreamingMessage", {"message": said("whole")}, path="/api/a2a/any/a")
        messages = [message for event in grown if (message := said_in(event))]
        assert any(map(is_partial, messages))


async def test_a_plain_stream_goes_on_where_it_was_cut_without_a_gap(client: Client) -> None:
    """T6: after each of its events, what follows is what followed."""
    whole = await client.streamed("SendStreamingMessage", {"message": said("echo one two")})
    task = whole[0].result["task"]["id"]
    for index, event in enumerate(whole[:-1]):
        rest = await client.streamed("SubscribeToTask", {"id": task}, Last_Event_ID=event.id)
        assert rest == whole[index + 1 :]


async def histories(plane: Plane, task: Json) -> list[list[str]]:
    """What is kept of a conversation, by each way of reading it: the two of A2A leave out the message of the status."""
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
