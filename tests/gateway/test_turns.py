"""The turn of an agent as its client sees it: live events, and readable failures."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.executor.plane import until
from tests.executor.scripted import Scripted
from tests.gateway.plane import Event, Json, Plane, open_all, said, said_0_3

from taskplane.agents.agent import (
    AgentError,
    ArtifactChunk,
    Change,
    Complete,
    Fail,
    Policy,
    Reject,
    Say,
    Text,
    Turn,
    Working,
)

both_versions = pytest.mark.parametrize("version", ["1.0", "0.3"])


def params(version: str, text: str) -> Any:
    """Return the params of a send that waits for the end."""
    if version == "1.0":
        return {"message": said(text)}
    return {"message": said_0_3(text), "configuration": {"blocking": True}}


def words(event: Event) -> str:
    """Return the text of an event, without the user's own message."""
    held = event.result if "kind" in event.result else next(iter(event.result.values()))
    content: Json | None = held.get("artifact") or held["status"].get("message")
    return "".join(part["text"] for part in content["parts"]) if content else ""


@both_versions
async def test_events_are_streamed_live_and_a_unary_send_waits_for_the_end(tmp_path: Path, version: str) -> None:
    """P1, P3: the agent continues only after its client has received the previous event."""
    steps = {word: asyncio.Event() for word in ("one", "two", "three", "four")}

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Say("one")
        await steps["one"].wait()
        yield ArtifactChunk("a", text="two")
        await steps["two"].wait()
        yield Working("three")
        await steps["three"].wait()
        yield Complete("four")

    old = version == "0.3"
    async with open_all(tmp_path, ("a", Scripted(script))) as plane, asyncio.timeout(20):
        unary = asyncio.create_task(plane.result("message/send" if old else "SendMessage", params(version, "wait")))
        seen: list[str] = []
        async with plane.stream("message/stream" if old else "SendStreamingMessage", params(version, "go")) as events:
            async for event in events:
                word = words(event)
                if word and word not in seen:
                    seen.append(word)
                    assert word == "four" or not unary.done()
                    steps[word].set()
        assert seen == list(steps)
        answer = await unary
    task = answer.get("task", answer)
    assert task["status"]["state"] in {"TASK_STATE_COMPLETED", "completed"}
    assert task["status"]["message"]["parts"][0]["text"] == "four"


class Failing(Scripted):
    """An agent that fails in the requested way, and records in `released` that its resources are closed."""

    def __init__(self) -> None:
        super().__init__(self._fail)
        self.released: list[str] = []

    def policy(self, turn: Turn) -> Policy:
        return Policy(run_limit=0.3 if turn.text == "too long" else 0.0)

    async def _fail(self, turn: Turn) -> AsyncIterator[Change]:
        try:
            yield Working("Trying")
            yield Text("Half a ")
            match turn.text:
                case "raise":
                    raise RuntimeError("the disk is full")
                case "heard":
                    raise AgentError("The disk is full.")
                case "raise nothing":
                    raise KeyError
                case "no change":
                    yield "words"  # type: ignore[misc]  # pyright: ignore[reportReturnType]
                case "too large":
                    yield ArtifactChunk("a", text="x" * 2_000_000)
                case "too long":
                    await asyncio.Event().wait()
                case "reject":
                    yield Reject("I do not do that.")
                case _:
                    yield Fail("No luck today.")
        finally:
            self.released.append(turn.task_id)


UNEXPECTED = "The agent failed unexpectedly; its log has the cause under request "
FAILURES = {
    "raise": UNEXPECTED,
    "raise nothing": UNEXPECTED,
    "no change": UNEXPECTED,
    "too large": UNEXPECTED,
    "heard": "The disk is full.",
    "too long": "The agent was stopped because it exceeded its time limit.",
    "fail": "No luck today.",
    "reject": "I do not do that.",
}


@both_versions
async def test_a_failed_run_releases_its_resources_and_has_a_readable_reason(tmp_path: Path, version: str) -> None:
    """P9: the failed task is the last event, and the answer to a unary send."""
    agent = Failing()
    async with open_all(tmp_path, ("a", agent)) as plane:
        for way, reason in FAILURES.items():
            await _fails(plane, version, way, reason, agent)
        runs = plane.behind.executor.runs
        await until(lambda: not runs.active)


async def _fails(plane: Plane, version: str, way: str, reason: str, agent: Failing) -> None:
    new = version == "1.0"
    events = await plane.streamed("SendStreamingMessage" if new else "message/stream", params(version, way))
    updates = [event.result.get("statusUpdate", event.result) for event in events[1:]]
    state = "rejected" if way == "reject" else "failed"
    states = [update["status"]["state"].removeprefix("TASK_STATE_").lower() for update in updates]
    # Nothing follows the end, and the status text before it is not in the conversation.
    assert (states.count(state), states[-1]) == (1, state), way
    last = updates[-1]["status"]["message"]
    assert last["parts"][0]["text"].startswith(reason), way
    assert not {"Traceback", "/", "taskplane"} & set(last["parts"][0]["text"].split())
    await until(lambda: updates[-1]["taskId"] in agent.released)

    answer = await plane.result("SendMessage" if new else "message/send", params(version, way))
    task = answer.get("task", answer)
    assert task["status"]["state"].removeprefix("TASK_STATE_").lower() == state
    assert task["status"]["message"]["parts"][0]["text"].startswith(reason)
    shown = (await plane.http.get(f"/api/sessions/{task['contextId']}/messages")).json()["data"]["messages"]
    texts = ["".join(part["text"] for part in message["parts"]) for message in shown]
    assert texts == [way, "Half a ", task["status"]["message"]["parts"][0]["text"]]
