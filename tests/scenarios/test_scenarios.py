"""One set of scenarios for every kind of agent, as a client sees it over HTTP; `script` has the words.

To add a kind, write a module `agent_NAME.py` in this folder and add its name to `plane.KINDS`. The module has an
`agent`, in any form that `--agent` accepts, and `again`, the same agent with `rerun`.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pytest
import pytest_asyncio
from tests.scenarios.plane import AGENTS, Served
from tests.scenarios.script import COUNTED, QUESTION, SECRET, Gate
from tests.support.node import MISSING
from tests.system.wire import Json, Sse, client, data, raw_log, result, send, state_of, stream, text_message, texts_of

pytestmark = [pytest.mark.more, pytest.mark.asyncio(loop_scope="session")]


@dataclass
class Talk:
    """A client of one agent. Its gate is used by no other scenario."""

    served: Served
    name: str
    plane: httpx.AsyncClient
    agent: httpx.AsyncClient
    gate: Gate

    async def streamed(self, words: str, **fields: Any) -> list[Sse]:
        """All events of a turn."""
        async with stream(self.agent, "SendStreamingMessage", {"message": text_message(words, **fields)}) as events:
            found = [event async for event in events]
        in_order(found)
        return found

    async def conversation(self, context_id: str) -> list[str]:
        history = await data(self.plane, f"/api/sessions/{context_id}/effective_history")
        return [text_of(message) for message in history["messages"]]


async def answers(talk: Talk) -> None:
    task = (await send(talk.agent, "hello Ann"))["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert texts_of(task) == ["hello Ann", "Hello, Ann."]
    again = (await send(talk.agent, "hello Bob", contextId=task["contextId"]))["task"]
    assert text_of(again["status"]["message"]) == "Hello, Bob."
    assert await talk.conversation(task["contextId"]) == ["hello Ann", "Hello, Ann.", "hello Bob", "Hello, Bob."]


async def streams(talk: Talk) -> None:
    events = await talk.streamed("count")
    grown = [text_of(message) for message in messages_of(events) if "kagent_adk_partial" in message.get("metadata", {})]
    assert "".join(grown) == COUNTED
    last = events[-1].result["statusUpdate"]
    assert last["status"]["state"] == "TASK_STATE_COMPLETED" and text_of(last["status"]["message"]) == COUNTED
    assert await talk.conversation(last["contextId"]) == ["count", COUNTED]


async def asks(talk: Talk) -> None:
    asked = (await talk.streamed("ask"))[-1].result["statusUpdate"]
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert text_of(asked["status"]["message"]) == QUESTION
    names = {"taskId": asked["taskId"], "contextId": asked["contextId"]}
    last = (await talk.streamed("Ann", **names))[-1].result
    # A stream to an existing task begins with its present state, which may be the end.
    answered = last.get("statusUpdate") or last["task"]
    assert asked["taskId"] == answered.get("taskId", answered.get("id"))
    assert answered["status"]["state"] == "TASK_STATE_COMPLETED"
    assert text_of(answered["status"]["message"]) == "Hello, Ann."
    # A tool that asks is a call beside the question.
    spoken = [words for words in await talk.conversation(asked["contextId"]) if words]
    assert spoken == ["ask", QUESTION, "Ann", "Hello, Ann."]


async def cancels(talk: Talk) -> None:
    message = text_message(f"slow {talk.gate.name}")
    found: list[Sse] = []
    async with stream(talk.agent, "SendStreamingMessage", {"message": message}) as events:
        async for event in events:
            found.append(event)
            if "begun" in str(event.data) and not talk.gate.is_open:
                canceled = await result(talk.agent, "CancelTask", {"id": found[0].result["task"]["id"]})
                assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
                if talk.name != "blocking-function":
                    # The agent waits at the gate without yielding, so only the cancel stops it. A function that blocks
                    # its thread cannot be stopped.
                    await talk.served.stopped(talk.name, canceled["id"])
                talk.gate.open()
    in_order(found)
    assert [state_of(event) for event in found].count("TASK_STATE_CANCELED") == 1
    assert state_of(found[-1]) == "TASK_STATE_CANCELED"
    assert text_of((await send(talk.agent, "hello Ann"))["task"]["status"]["message"]) == "Hello, Ann."
    log = await raw_log(talk.plane, found[0].result["task"]["id"])
    assert log[-1]["generation"] == found[-1].generation and "finished" not in str(log)


async def fails(talk: Talk) -> None:
    events = await talk.streamed("fail")
    failed = events[-1].result["statusUpdate"]
    assert failed["status"]["state"] == "TASK_STATE_FAILED"
    message = failed["status"]["message"]
    assert text_of(message) and message["metadata"]["reason"]
    task = await result(talk.agent, "GetTask", {"id": failed["taskId"]})
    log = await raw_log(talk.plane, failed["taskId"])
    # The cause of a crash is shown to operators only, and here every user is one.
    assert SECRET not in str([[event.data for event in events], task, [{**one, "cause": ""} for one in log]])


async def makes_an_artifact(talk: Talk) -> None:
    message = text_message(f"artifact {talk.gate.name}")
    found: list[Sse] = []
    async with stream(talk.agent, "SendStreamingMessage", {"message": message}) as events:
        async for event in events:
            found.append(event)
            if "artifactUpdate" in event.result:
                # The first chunk is shown while the agent waits at the gate.
                talk.gate.open()
    in_order(found)
    chunks = chunks_of(found)
    assert "".join(text_of(chunk["artifact"]) for chunk in chunks) == COUNTED
    assert [chunk.get("append", False) for chunk in chunks] == [False] + [True] * (len(chunks) - 1)
    assert state_of(found[-1]) == "TASK_STATE_COMPLETED"
    task = await result(talk.agent, "GetTask", {"id": found[0].result["task"]["id"]})
    (made,) = task["artifacts"]
    assert made["name"] == "Report" and text_of(made) == COUNTED


def text_of(message: Json) -> str:
    """The text of a message, or of an artifact."""
    return "".join(part.get("text", "") for part in message["parts"])


def messages_of(events: Sequence[Sse]) -> list[Json]:
    found = [event.result.get("statusUpdate", {}).get("status", {}).get("message") for event in events]
    return [message for message in found if message]


def chunks_of(events: Sequence[Sse]) -> list[Json]:
    return [event.result["artifactUpdate"] for event in events if "artifactUpdate" in event.result]


def in_order(events: Sequence[Sse]) -> None:
    """Fails unless every event was received once, after the task that opens the stream."""
    generations = [event.generation for event in events]
    assert "task" in events[0].result
    assert generations == sorted(set(generations))


SCENARIOS: Final[tuple[Callable[[Talk], Awaitable[None]], ...]] = (
    answers,
    streams,
    asks,
    cancels,
    fails,
    makes_an_artifact,
)


@pytest_asyncio.fixture(loop_scope="session")
async def talk(served: Served, agent: str, request: pytest.FixtureRequest) -> AsyncGenerator[Talk]:
    """A client of the agent."""
    async with client(served.plane.url) as plane, client(f"{served.plane.url}/agents/{agent}") as of_agent:
        yield Talk(served, agent, plane, of_agent, Gate(request.node.name.rpartition("[")[2].rstrip("]")))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.parametrize(
    "agent",
    [
        pytest.param(agent, marks=pytest.mark.skipif(agent == "node" and bool(MISSING), reason=MISSING))
        for agent in AGENTS
    ],
)
async def test_an_agent_of_any_kind_behaves_like_an_agent_of_the_port(
    talk: Talk, scenario: Callable[[Talk], Awaitable[None]]
) -> None:
    """P1, P3, P5, P8, P9, I1, C11, W15: a turn is the same with every library and in every process."""
    await scenario(talk)
