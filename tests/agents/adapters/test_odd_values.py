"""Data of tools, questions and answers of all frameworks: one conversion, and no task fails for its data."""

import json
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Message as SdkMessage
from a2a.types import Part as SdkPart
from a2a.types import Role, StreamResponse
from google.adk.agents.llm_agent import LlmAgent
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.types import interrupt
from pydantic import BaseModel
from tests.agents.adapters.adk_agents import Obedient
from tests.executor.plane import Stores, open_plane, text
from tests.executor.scripted import Scripted

from taskplane.agents.adapters import adapt
from taskplane.agents.agent import (
    ArtifactChunk,
    AskInput,
    Change,
    Complete,
    Message,
    Part,
    ToolCall,
    ToolResult,
    Turn,
)
from taskplane.agents.deep_messages import read_as
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import CONVERTED
from taskplane.runtime.json_values import to_dict, to_json

Graph: Any = StateGraph
BIG = 653247040368672769


class Color(Enum):
    RED = "red"


class Model(BaseModel):
    action: str = "pay"
    at: datetime = datetime(2030, 1, 2, tzinfo=UTC)


@dataclass
class Point:
    x: int


def kept() -> dict[str, Any]:
    """Returns values as a checkpointer of LangGraph stores them."""
    found = odd()
    del found["own"], found["object"]
    return found


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = {"a": value}
    return value


def odd() -> dict[str, Any]:
    own: dict[str, Any] = {}
    own["own"] = own
    return {
        "model": Model(),
        "point": Point(1),
        "date": date(2030, 1, 2),
        "time": timedelta(seconds=1),
        "uuid": UUID(int=1),
        "decimal": Decimal("1.10"),
        "set": {2, 1},
        "bytes": b"\x01",
        "enum": Color.RED,
        "nan": [math.nan, math.inf],
        "text": "a\0b\ud83d",
        "big": [BIG],
        "whole": 1e16,
        "object": object,
        "own": own,
        "deep": deep(100),
        "none": None,
    }


KEPT = {
    "model": {"action": "pay", "at": "2030-01-02T00:00:00Z"},
    "point": {"x": 1},
    "date": "2030-01-02",
    "time": "PT1S",
    "uuid": "00000000-0000-0000-0000-000000000001",
    "decimal": "1.10",
    "set": [1, 2],
    "bytes": "AQ==",
    "enum": "red",
    "nan": [None, None],
    "text": "a\ufffdb\ufffd",
    "big": [str(BIG)],
    "whole": 10**16,
    "object": "<class 'object'>",
    "own": {"own": "..."},
    "none": None,
}


def check(found: Any) -> None:
    assert {key: found[key] for key in KEPT} == KEPT
    levels, inner = 0, found["deep"]
    while not isinstance(inner, str):
        levels, inner = levels + 1, inner["a"]
    assert levels > 20 and json.loads(inner) == deep(100 - levels)


def data_of(message: a2a.Message) -> Any:
    (value,) = [to_json(part.data) for part in message.parts if part.HasField("data")]
    return value


def listed(metadata: Any) -> Any:
    return to_dict(metadata)[CONVERTED]


async def test_an_agent_of_the_port_may_yield_any_data(stores: Stores) -> None:
    """P3: arguments, results, artifacts and their metadata; numbers that became texts are listed."""

    async def says(turn: Turn) -> AsyncIterator[Change]:
        yield ToolCall("1", "look", odd())
        yield ToolResult("1", "look", odd())
        yield ArtifactChunk("a", data=odd(), metadata=odd())
        yield Complete("done")

    async with open_plane(stores, ("a", Scripted(says))) as plane:
        task = await plane.run("go")
    assert task.status.state == a2a.TASK_STATE_COMPLETED, text(task.status.message)
    called, answered = [message for message in task.history if message.parts[0].HasField("data")]
    check(data_of(called)["args"])
    check(data_of(answered)["response"])
    assert listed(called.metadata) == ["parts[0].data.args.big[0]"]
    (artifact,) = task.artifacts
    check(to_json(artifact.parts[0].data))
    check(to_dict(artifact.metadata))
    assert set(listed(artifact.metadata)) == {"metadata.big[0]", "parts[0].data.big[0]"}


@pytest.mark.parametrize("make", [kept, Model, lambda: Point(1), lambda: [Color.RED]])
async def test_a_graph_may_ask_with_any_data(stores: Stores, make: Callable[[], Any]) -> None:
    """I1: also with a model, as many graphs do; the answer continues the graph."""

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"It is {interrupt(make())}.")]}

    built = Graph(MessagesState).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=InMemorySaver())
    async with open_plane(stores, ("a", adapt(built, "a"))) as plane:
        asked = await plane.run("go")
        assert asked.status.state == a2a.TASK_STATE_INPUT_REQUIRED, text(asked.status.message)
        found = data_of(asked.status.message)
        if make is kept:
            check({"own": KEPT["own"], "object": KEPT["object"], **found})
            assert listed(asked.status.message.metadata) == ["parts[0].data.big[0]"]
        else:
            assert found in (KEPT["model"], {"x": 1}, ["red"])
        done = await plane.run("yes", task_id=asked.id, context_id=asked.context_id)
        assert text(done.status.message) == "It is yes."


async def test_a_tool_of_adk_may_return_any_data(stores: Stores) -> None:
    """P3: its result is in the task and in the session, and the next turn works."""

    def look() -> dict[str, Any]:
        """Returns odd things."""
        found = odd()
        # ADK copies results deeply, and shows them to the model as JSON.
        del found["own"], found["object"], found["model"], found["point"]
        return found

    def nested() -> dict[str, Any]:
        """Returns deep data."""
        return {"deep": deep(24)}

    agent = LlmAgent(name="odd", model=Obedient(), description="Odd.", tools=[look, nested])
    async with open_plane(stores, ("adk", adapt(agent, "adk"))) as plane:
        for words in ("nested", "look"):
            task = await plane.run(words, context_id="c")
            assert task.status.state == a2a.TASK_STATE_COMPLETED, text(task.status.message)
        (shown,) = [m for m in task.history if "function_response" in str(m.parts[0].metadata)]
        missing = {"own": KEPT["own"], "object": KEPT["object"], "model": KEPT["model"], "point": KEPT["point"]}
        check({"none": None, **missing, **data_of(shown)["response"]})
        done = await plane.run("hello", context_id="c")
        assert text(done.status.message) == "heard hello"


class Deep(AgentExecutor):
    """Sends data deeper than stored values may be; the SDK has no messages with deeper data."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        for levels in (24, 29, 30):
            value = inner = Value()
            for _ in range(levels):
                inner = inner.struct_value.fields["a"]
            inner.string_value = "x"
            message = SdkMessage(message_id=f"m{levels}", role=Role.ROLE_AGENT)
            part = message.parts.add()
            part.data.CopyFrom(value)
            part.metadata.fields["nan"].number_value = math.nan
            await updater.start_work(message)
            artifact = SdkPart()
            artifact.data.CopyFrom(value)
            await updater.add_artifact([artifact], f"a{levels}")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        pass


async def test_data_of_an_sdk_executor_that_is_too_deep_becomes_json(stores: Stores) -> None:
    """P3: nothing of it is lost."""
    async with open_plane(stores, ("a", adapt(Deep(), "a"))) as plane:
        task = await plane.run("go")
    assert task.status.state == a2a.TASK_STATE_COMPLETED, text(task.status.message)
    values = [data_of(message) for message in task.history if message.parts[0].HasField("data")]
    values += [to_json(artifact.parts[0].data) for artifact in task.artifacts]
    assert len(values) == 6
    for value, levels in zip(values, (24, 29, 30) * 2, strict=True):
        depth = 0
        while not isinstance(value, str):
            value, depth = value["a"], depth + 1
        assert depth == min(levels, 28)
        assert value == "x" if depth == levels else json.loads(value) == deep(levels - depth)


async def test_a_question_with_data_that_is_too_deep_is_stored(stores: Stores) -> None:
    """I1: in a message that an agent built itself."""
    part = Part()
    inner = part.data
    for _ in range(30):
        inner = inner.struct_value.fields["a"]
    inner.string_value = "x"

    async def asks(turn: Turn) -> AsyncIterator[Change]:
        yield AskInput(Message(parts=[part]))

    async with open_plane(stores, ("a", Scripted(asks))) as plane:
        task = await plane.run("go")
    assert task.status.state == a2a.TASK_STATE_INPUT_REQUIRED
    assert '"a"' in str(data_of(task.status.message))


def test_data_of_a_remote_agent_that_is_too_deep_is_text() -> None:
    """P12: at the depth that the SDK reads from JSON, and that no parser of protobuf reads again."""
    task = {"id": "t", "contextId": "c", "metadata": {"m": deep(40)}, "status": {"state": "TASK_STATE_WORKING"}}
    given = ParseDict({"task": task}, StreamResponse())
    found = to_dict(read_as(a2a.StreamResponse, given).task.metadata)["m"]
    levels = 1
    while not isinstance(found, str):
        found, levels = found["a"], levels + 1
    assert levels == 28 and json.loads(found) == deep(41 - levels)
