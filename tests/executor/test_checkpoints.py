"""Checkpoints for the next run of a task, and the usage figures of a run."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.executor.plane import Stores, eventually, open_plane, open_stores, text
from tests.executor.scripted import Scripted

from taskplane.agents.agent import (
    AgentError,
    ArtifactChunk,
    AskInput,
    Change,
    Checkpoint,
    Complete,
    Fail,
    Message,
    Part,
    Policy,
    Reject,
    Say,
    Text,
    Turn,
    Usage,
)
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import USAGE
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.json_values import to_dict


def usage(task: a2a.Task) -> dict[str, float]:
    if USAGE not in task.metadata.fields:
        return {}
    return {name: each.number_value for name, each in task.metadata.fields[USAGE].struct_value.fields.items()}


async def test_a_run_resumes_from_the_newest_checkpoint(tmp_path: Path, database_url: str) -> None:
    """C8, P7: after a lost run. Messages and artifacts stay, and the open text is marked as interrupted."""
    ready = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        if turn.checkpoint is None:
            yield Checkpoint("first")
            yield Say("one")
            yield ArtifactChunk("a", text="1")
            yield Checkpoint({"next": [2, "ö", None]})
            yield Text("open")
            ready.set()
            await asyncio.Event().wait()
        yield ArtifactChunk("a", text="2", append=True, last=True)
        yield Complete(json.dumps(turn.checkpoint))

    agent = Scripted(script, policy=Policy(on_orphan="resume"))
    async with open_stores(tmp_path, database_url=database_url) as stores:
        async with open_plane(stores, ("a", agent), drain_timeout=0.0) as plane:
            waiting = await plane.submit("go")
            await ready.wait()
            while len(await plane.events(waiting.task.task_id)) < 7:
                await asyncio.sleep(0.005)
        async with open_plane(stores, ("a", agent)) as plane:
            task = await plane.at_rest(waiting)
            assert json.loads(text(task.status.message)) == {"next": [2, "ö", None]}
            assert text(a2a.Message(parts=task.artifacts[0].parts)) == "12"
            assert [text(message) for message in task.history][:2] == ["go", "one"]
            assert [turn.checkpoint for turn in agent.turns] == [None, {"next": [2, "ö", None]}]
            assert "first" not in str(task)


async def test_a_checkpoint_is_available_after_a_pause_and_in_a_further_turn(stores: Stores) -> None:
    """P7: in every later run of the task; a new task has none."""
    going = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        seen.append(turn.checkpoint)
        yield Checkpoint([*(turn.checkpoint or []), turn.text])
        if turn.text == "one":
            yield AskInput("More?")
        if turn.text == "two":
            await going.wait()

    seen: list[object] = []
    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("one")
        waiting = await plane.submit("two", task_id=task.id)
        await plane.submit("three", task_id=task.id)
        going.set()
        await plane.at_rest(waiting)
        await plane.run("other")
    assert seen == [None, ["one"], ["one", "two"], None]


async def test_the_figures_of_a_run_are_summed_when_it_ends(stores: Stores) -> None:
    """P7: in one event of the run, at every kind of end, and over the runs of a task; not those of a turn that ends
    while a message waits."""
    going = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Usage({"tokens": 2, "cost": 0.5})
        yield Usage({"tokens": 3})
        match turn.text:
            case "ask":
                yield AskInput("More?")
            case "fail":
                yield Fail("no")
            case "reject":
                yield Reject("no")
            case "raise":
                raise AgentError("no")
            case "wait":
                await going.wait()
            case _:
                pass

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        for word in ("complete", "fail", "reject", "raise", "ask"):
            task = await plane.run(word)
            assert usage(task) == {"tokens": 5, "cost": 0.5}, word
            marked = [
                event.event.status_update.status.state
                for event in await plane.events(task.id, tasks.EVENT_KIND_STATUS)
                if USAGE in event.event.status_update.metadata.fields
            ]
            assert marked == [task.status.state]
        waiting = await plane.submit("wait", task_id=task.id)
        await plane.submit("more", task_id=task.id)
        going.set()
        assert usage(await plane.at_rest(waiting)) == {"tokens": 15, "cost": 1.5}


async def test_a_canceled_task_has_the_figures_up_to_its_cancel(tmp_path: Path, database_url: str) -> None:
    """P7, P8: in the answer to the cancel, in the log and in the task, also after a restart of the stores."""
    told = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Usage({"tokens": 2})
        yield Usage({"tokens": 3})
        await told.wait()
        yield Usage({"cost": 0.5})
        yield Text("half a sen")
        await asyncio.Event().wait()

    async def known(request: tasks.AppendEventsRequest) -> None:
        if any(item.usage.get("tokens") == 5 for item in request.items):
            told.set()

    async with open_stores(tmp_path, database_url=database_url) as stores:
        stores.channel.after["AppendEvents"] = known
        async with open_plane(stores, ("a", Scripted(script))) as plane:
            task_id = (await plane.submit("go")).task.task_id
            await eventually(lambda: plane.events(task_id), lambda events: b"half a sen" in str(events[-1]).encode())
            canceled = await stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=task_id))
            assert usage(canceled.record.task) == {"tokens": 5, "cost": 0.5}
            last = (await plane.events(task_id))[-1].event.status_update
            assert last.status.state == a2a.TASK_STATE_CANCELED
            assert to_dict(last.metadata)[USAGE] == {"tokens": 5, "cost": 0.5}
    async with open_stores(tmp_path, database_url=database_url) as stores, open_plane(stores) as plane:
        assert usage(await plane.task(task_id)) == {"tokens": 5, "cost": 0.5}


@pytest.mark.parametrize(
    ("final", "state"), [(Fail, a2a.TASK_STATE_FAILED), (Reject, a2a.TASK_STATE_REJECTED)], ids=["fail", "reject"]
)
async def test_a_task_may_end_badly_with_a_message(
    stores: Stores, final: type[Fail] | type[Reject], state: "a2a.TaskState.ValueType"
) -> None:
    """P9: the author's own, with its parts and metadata; one without parts gets a plain sentence."""
    given = Message(message_id="mine", parts=[Part(text="Too large."), Part(url="https://example.com/limits")])
    given.metadata.update({"code": 7})

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield final(given if turn.text == "message" else Message())

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("message")
        message = task.status.message
        assert task.status.state == state and message.message_id == "mine" and len(message.parts) == 2
        assert message.metadata.fields["code"].number_value == 7
        blank = await plane.run("blank")
        assert blank.status.state == state and "gave no reason" in text(blank.status.message)
