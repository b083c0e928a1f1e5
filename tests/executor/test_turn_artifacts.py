"""Artifacts of a turn: streamed once during the turn, or made at its end if the agent made none."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.executor.plane import Plane, Stores, open_plane, open_stores, text, until
from tests.executor.scripted import Scripted

from taskplane.agents.agent import (
    ArtifactChunk,
    AskInput,
    Change,
    Checkpoint,
    Complete,
    Fail,
    Part,
    Policy,
    Reject,
    Say,
    Turn,
    Usage,
    Working,
)
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import USAGE
from taskplane.api.tasks.v1 import tasks_pb2 as tasks

Script = Callable[[Turn], AsyncIterator[Change]]


class Making(Scripted):
    """Runs a script, and makes an artifact by another one."""

    def __init__(self, script: Script, make: Script, **policy: Any) -> None:
        super().__init__(script, policy=Policy(**policy))
        self.asked: list[Turn] = []
        self._make = make

    def make_artifact(self, turn: Turn) -> AsyncIterator[Change]:
        self.asked.append(turn)
        return self._make(turn)


async def completes(turn: Turn) -> AsyncIterator[Change]:
    yield Say("one")
    yield Complete("two")


async def returns(turn: Turn) -> AsyncIterator[Change]:
    yield Say("one")


async def makes(turn: Turn) -> AsyncIterator[Change]:
    yield Working("writing")
    yield ArtifactChunk("made", text="a", name="story", mergeable=False)
    yield Usage({"tokens": 2})
    yield ArtifactChunk("made", text="b", append=True, last=True, mergeable=False)


def shape(event: tasks.Event) -> str:
    update = event.event
    if event.kind == tasks.EVENT_KIND_ARTIFACT:
        return "".join(part.text for part in update.artifact_update.artifact.parts)
    state = a2a.TaskState.Name(update.status_update.status.state).removeprefix("TASK_STATE_").lower()
    return f"{state} {text(update.status_update.status.message)}".strip()


async def shapes(plane: Plane, task: a2a.Task) -> list[str]:
    kinds = (tasks.EVENT_KIND_STATUS, tasks.EVENT_KIND_ARTIFACT)
    return [shape(event) for event in await plane.events(task.id, *kinds)]


@pytest.mark.parametrize(("script", "last"), [(completes, "two"), (returns, "")])
async def test_an_artifact_is_made_at_the_end_of_a_turn_without_one(stores: Stores, script: Script, last: str) -> None:
    """P6, P13: after the last words, before the terminal event, streamed as any other; the maker gets all messages, and
    its usage is added to the figures of the run."""
    agent = Making(script, makes)
    async with open_plane(stores, ("a", agent)) as plane:
        task = await plane.run("go")
        said = ["working one", *(["working two"] if last else [])]
        assert await shapes(plane, task) == ["working", *said, "working writing", "a", "b", f"completed {last}".strip()]
        (artifact,) = task.artifacts
        assert artifact.name == "story" and text(a2a.Message(parts=artifact.parts)) == "ab"
        assert [text(message) for message in agent.asked[0].history] == ["go", "one", *([last] if last else [])]
        assert task.metadata.fields[USAGE].struct_value.fields["tokens"].number_value == 2
        assert await plane.conversation(task.context_id) == ["go", "one", *([last] if last else [])]


async def test_no_artifact_is_made_if_there_is_one_or_the_turn_does_not_complete(stores: Stores) -> None:
    """P6: at a pause, a failure and a rejection."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        ends: dict[str, Change] = {"ask": AskInput("?"), "fail": Fail("no"), "reject": Reject("no")}
        if turn.text in ends:
            yield ends[turn.text]
        else:
            yield ArtifactChunk("natural", text="x", last=True)

    agent = Making(script, makes)
    async with open_plane(stores, ("a", agent)) as plane:
        for word in ("natural", "ask", "fail", "reject"):
            task = await plane.run(word)
            assert [artifact.artifact_id for artifact in task.artifacts] == (["natural"] if word == "natural" else [])
            if word == "ask":
                answered = await plane.run("natural", task_id=task.id)
                assert [artifact.artifact_id for artifact in answered.artifacts] == ["natural"]
    assert agent.asked == []


async def test_an_artifact_is_made_after_the_last_message_was_answered(stores: Stores) -> None:
    """P6, I1: not between two turns of one run."""
    going = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        await going.wait()
        yield Say(f"answer to {turn.text}")

    agent = Making(script, makes)
    async with open_plane(stores, ("a", agent)) as plane:
        waiting = await plane.submit("one")
        await plane.submit("two", task_id=waiting.task.task_id)
        going.set()
        task = await plane.at_rest(waiting)
        assert len(task.artifacts) == 1 and [turn.text for turn in agent.asked] == ["two"]


async def raising(turn: Turn) -> AsyncIterator[Change]:
    yield ArtifactChunk("made", text="a")
    raise RuntimeError("secret")


async def failing(turn: Turn) -> AsyncIterator[Change]:
    yield ArtifactChunk("made", text="a")
    yield Fail("The model is busy.")


async def talking(turn: Turn) -> AsyncIterator[Change]:
    yield ArtifactChunk("made", text="a")
    yield Say("secret")


@pytest.mark.parametrize("make", [raising, failing, talking])
async def test_the_failure_of_a_maker_fails_the_task(stores: Stores, make: Script) -> None:
    """P9: with a readable reason, and earlier output stays; a maker may not yield messages."""
    async with open_plane(stores, ("a", Making(completes, make))) as plane:
        task = await plane.run("go")
        assert task.status.state == a2a.TASK_STATE_FAILED and text(a2a.Message(parts=task.artifacts[0].parts)) == "a"
        assert text(task.status.message).startswith("The model is busy." if make is failing else "The agent failed")
        assert "secret" not in str(task)


async def test_a_cancel_stops_a_maker(stores: Stores) -> None:
    """P8: its chunks stay, and nothing follows."""
    reached, closed = asyncio.Event(), asyncio.Event()

    async def hangs(turn: Turn) -> AsyncIterator[Change]:
        yield ArtifactChunk("made", text="a")
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            closed.set()

    async with open_plane(stores, ("a", Making(completes, hangs))) as plane:
        waiting = await plane.submit("go")
        await reached.wait()
        await plane.stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=waiting.task.task_id))
        await closed.wait()
        await until(lambda: not plane.service.runs.active)
        assert (await plane.task(waiting.task.task_id)).status.state == a2a.TASK_STATE_CANCELED


@pytest.mark.parametrize("source", ["", "@thread", "@process"])
async def test_a_maker_runs_in_the_thread_or_process_of_its_agent(stores: Stores, source: str) -> None:
    """P6: a plain generator in a thread, and in a process if the agent is there."""
    async with open_plane(stores, loaded=[f"a=tests.executor.isolated:Maker{source}"]) as plane:
        task = await plane.run("go")
        assert text(a2a.Message(parts=task.artifacts[0].parts)) == "after ['go', 'one']"


async def test_an_artifact_of_a_lost_attempt_is_not_made_again(tmp_path: Path) -> None:
    """C8, P7: a run that resumes continues from its checkpoint, and may append to the artifact."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        if turn.checkpoint is None:
            yield ArtifactChunk("natural", text="a")
            yield Checkpoint({"done": ["a"]})
            yield Say("so far")
            await asyncio.Event().wait()
        assert turn.checkpoint == {"done": ["a"]}
        if turn.text == "append":
            yield ArtifactChunk("natural", text="b", append=True, last=True)

    agent = Making(script, makes, on_orphan="resume")
    async with open_stores(tmp_path) as stores:
        for word in ("append", "nothing"):
            async with open_plane(stores, ("a", agent), drain_timeout=0.0) as plane:
                waiting = await plane.submit(word)
                await until_said(plane, waiting.task.task_id)
            async with open_plane(stores, ("a", agent)) as plane:
                task = await plane.at_rest(waiting)
                assert task.status.state == a2a.TASK_STATE_COMPLETED
                (artifact,) = task.artifacts
                assert text(a2a.Message(parts=artifact.parts)) == ("ab" if word == "append" else "a")
    assert agent.asked == []


async def until_said(plane: Plane, task_id: str) -> None:
    """Waits until the agent's first words are in the log."""
    while not any(event.speaks for event in (await plane.events(task_id))[1:]):
        await asyncio.sleep(0.005)


async def test_metadata_and_extensions_of_chunks_are_merged_into_their_artifact(stores: Stores) -> None:
    """T1: merged key by key, in one event or in several."""
    merged = [
        ArtifactChunk("a", text="1", metadata={"a": 1, "b": {"c": 1}}, extensions=["x:1"]),
        ArtifactChunk("a", text="2", metadata={"b": {"d": 2}}, extensions=["x:1", "x:2"], append=True),
        ArtifactChunk("a", parts=[Part(text="3", media_type="text/x")], metadata={"e": None}, append=True, last=True),
    ]

    async def script(turn: Turn) -> AsyncIterator[Change]:
        for chunk in merged:
            yield chunk

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("go")
        (event,) = await plane.events(task.id, tasks.EVENT_KIND_ARTIFACT)
        for artifact in (task.artifacts[0], event.event.artifact_update.artifact):
            assert list(artifact.extensions) == ["x:1", "x:2"]
            fields = artifact.metadata.fields
            assert fields["a"].number_value == 1 and "c" not in fields["b"].struct_value.fields
            assert fields["b"].struct_value.fields["d"].number_value == 2 and fields["e"].HasField("null_value")
