"""Messages and artifacts of agents without parts, and parts without content: faults that are named at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.types import a2a_pb2 as sdk
from tests.executor.plane import Stores, holds, open_plane, text
from tests.executor.scripted import Scripted
from tests.support.sdk_server import sdk_server

from taskplane.agents.adapters import adapt
from taskplane.agents.adapters.remote import RemoteAgent
from taskplane.agents.agent import (
    AgentCard,
    ArtifactChunk,
    AskAuth,
    AskInput,
    Change,
    Complete,
    Fail,
    Message,
    Part,
    Reject,
    Say,
    Text,
    Turn,
)
from taskplane.api.a2a.v1 import a2a_pb2 as a2a

NO_PARTS = "The agent gave a message without parts; at least one is required."
NO_CONTENT = "The agent gave a message; its part 2 has no text, data, raw bytes or URL."
HALF = Message(parts=[Part(text="x"), Part(filename="f")])

FAULTS: dict[str, tuple[Callable[[], Change], str]] = {
    "say": (lambda: Say(Message()), NO_PARTS),
    "say with a text open": (lambda: Say(Message(message_id="m")), NO_PARTS),
    "complete": (lambda: Complete(Message()), NO_PARTS),
    "ask": (lambda: AskInput(Message()), NO_PARTS),
    "auth": (lambda: AskAuth(Message()), NO_PARTS),
    "part": (lambda: Say(HALF), NO_CONTENT),
    "complete with a part": (lambda: Complete(HALF), NO_CONTENT),
    "ask with a part": (lambda: AskInput(HALF), NO_CONTENT),
    "fail with a part": (lambda: Fail(HALF), NO_CONTENT),
    "reject with a part": (lambda: Reject(HALF), NO_CONTENT),
    "artifact": (lambda: ArtifactChunk("a", parts=[]), "The agent gave the artifact 'a' without parts; at least one"),
    "part of an artifact": (lambda: ArtifactChunk("a", parts=[Part()]), "The agent gave the artifact 'a'; its part 1"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_change_without_content_fails_its_task_with_a_reason(stores: Stores, fault: str) -> None:
    """T1, P9: nothing of the change is in the log; earlier messages stay."""
    change, reason = FAULTS[fault]
    after = False

    async def script(turn: Turn) -> AsyncIterator[Change]:
        nonlocal after
        yield Text("before") if "open" in fault else Say("before")
        yield change()
        after = True

    async with open_plane(stores, ("a", Scripted(script)), strict_agents=False) as plane:
        task = await plane.run("go", context_id="c")
        assert task.status.state == a2a.TASK_STATE_FAILED
        assert text(task.status.message).startswith(reason)
        assert [text(message) for message in task.history] == ["go", "before"]
        assert not task.artifacts and not after
        for event in await plane.events(task.id):
            update = event.event.status_update.status
            assert not update.HasField("message") or update.message.parts
            assert not holds(event, "filename")


async def test_a_direct_answer_without_content_fails_its_task_with_a_reason(stores: Stores) -> None:
    """T1, P9: the reason names the missing parts."""

    class Router:
        card = AgentCard(name="a", version="1")

        async def route(self, turn: Turn) -> Message:
            return Message()

        async def run(self, turn: Turn) -> AsyncIterator[Change]:
            raise AssertionError("its answer is the completion")
            yield

    async with open_plane(stores, ("a", Router())) as plane:
        task = await plane.run("go")
        assert (task.status.state, text(task.status.message)) == (a2a.TASK_STATE_FAILED, NO_PARTS)


async def test_an_empty_text_is_content(stores: Stores) -> None:
    """T1: a message with an empty text has a part, as the protocol requires."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Say(Message(parts=[Part(text="")]))
        yield ArtifactChunk("a", text="")
        yield Complete("")

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("go")
        assert task.status.state == a2a.TASK_STATE_COMPLETED
        assert [part.WhichOneof("content") for part in task.status.message.parts] == ["text"]


class Odd(AgentExecutor):
    def __init__(self, event: Callable[[RequestContext], Any]) -> None:
        self._event = event

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        await event_queue.enqueue_event(self._event(context))
        await event_queue.enqueue_event(status(context, sdk.TASK_STATE_COMPLETED, [sdk.Part(text="done")]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise AssertionError("nothing is canceled")


def status(context: RequestContext, state: Any, parts: list[sdk.Part]) -> Any:
    said = sdk.TaskStatus(state=state, message=sdk.Message(message_id=str(state), role=sdk.ROLE_AGENT, parts=parts))
    return sdk.TaskStatusUpdateEvent(task_id=context.task_id or "", context_id=context.context_id or "", status=said)


def artifact(context: RequestContext, parts: list[sdk.Part], **more: Any) -> Any:
    made = sdk.Artifact(artifact_id="a", parts=parts)
    return sdk.TaskArtifactUpdateEvent(
        task_id=context.task_id or "", context_id=context.context_id or "", artifact=made, **more
    )


WORKING = sdk.TASK_STATE_WORKING
EVENTS: dict[str, Callable[[RequestContext], Any]] = {
    "message": lambda context: status(context, WORKING, []),
    "part": lambda context: status(context, WORKING, [sdk.Part()]),
    "question": lambda context: status(context, sdk.TASK_STATE_INPUT_REQUIRED, []),
    "end": lambda context: status(context, sdk.TASK_STATE_COMPLETED, [sdk.Part()]),
    "artifact": lambda context: artifact(context, []),
    "part of an artifact": lambda context: artifact(context, [sdk.Part()]),
}


@pytest.mark.parametrize("kind", ["a2a-sdk", "remote"])
@pytest.mark.parametrize("event", EVENTS)
async def test_an_event_without_content_of_an_sdk_executor_or_a_peer_fails_its_task(
    stores: Stores, event: str, kind: str
) -> None:
    """T1, P9, P12: the text says that the agent gave it."""
    executor = Odd(EVENTS[event])
    if kind == "a2a-sdk":
        async with open_plane(stores, ("a", adapt(executor, "a"))) as plane:
            task = await plane.run("go")
    else:
        async with sdk_server(executor) as server:
            agent = await _remote(server.url)
            async with open_plane(stores, ("a", agent)) as plane:
                task = await plane.run("go")
    assert task.status.state == a2a.TASK_STATE_FAILED
    assert text(task.status.message).startswith("The agent gave ")
    assert not task.artifacts


async def test_the_last_chunk_of_an_artifact_may_have_no_parts(stores: Stores) -> None:
    """P5: executors mark the end of a streamed artifact so."""

    class Ends(Odd):
        async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
            assert context.message is not None
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
            await event_queue.enqueue_event(artifact(context, [sdk.Part(text="x")]))
            await event_queue.enqueue_event(artifact(context, [], append=True, last_chunk=True))

    async with open_plane(stores, ("a", adapt(Ends(EVENTS["message"]), "a"))) as plane:
        task = await plane.run("go")
        assert task.status.state == a2a.TASK_STATE_COMPLETED
        assert [part.text for part in task.artifacts[0].parts] == ["x"]


async def _remote(url: str) -> RemoteAgent:

    return await asyncio.to_thread(lambda: RemoteAgent(url))
