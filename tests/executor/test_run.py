"""A run: the changes of its agent, and events during it."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator

import pytest
from tests.executor.plane import ANN, Plane, Stores, eventually, open_plane, said, swept_at_start, text, until
from tests.executor.scripted import Scripted

from taskplane.agents.agent import (
    ArtifactChunk,
    AskInput,
    Change,
    Complete,
    Fail,
    Policy,
    Say,
    Text,
    ToolCall,
    Turn,
    Working,
)
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.errors import Unavailable

STATUS = tasks.EVENT_KIND_STATUS
ARTIFACT = tasks.EVENT_KIND_ARTIFACT


def is_partial(message: a2a.Message) -> bool:
    return "kagent_adk_partial" in message.metadata.fields


async def test_a_turn_costs_five_calls(stores: Stores, plane: Plane) -> None:
    """Two AppendEntries, one CreateTask and two AppendEvents, and no read at all in a new session."""
    await swept_at_start(stores)
    await plane.run("warm up")
    for context_id in ("", "given"):
        stores.calls.clear()
        await plane.run("echo one two three", context_id=context_id)
        calls = {name: count for name, count in stores.calls.items() if name not in ("Renew", "ListUncopied")}
        assert calls == {"AppendEntries": 2, "CreateTask": 1, "AppendEvents": 2}


async def test_a_turn_in_a_session_reads_its_history_once(stores: Stores, plane: Plane) -> None:
    first = await plane.run("one")
    stores.calls.clear()
    await plane.run("two", context_id=first.context_id)
    assert stores.calls["ListEntries"] == 1 and stores.calls["AppendEntries"] == 2


async def test_pieces_of_a_text_that_wait_together_become_one_event(stores: Stores) -> None:
    """All of the text is kept."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        for index in range(5_000):
            yield Text(f"{index} ")
        yield Complete()

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("go")
        messages = [e.event.status_update.status.message for e in await plane.events(task.id, STATUS)]
    whole = "".join(f"{index} " for index in range(5_000))
    assert "".join(text(m) for m in messages if is_partial(m)) == whole
    assert text(task.status.message) == whole
    assert len(messages) < 20


async def test_only_mergeable_text_chunks_are_merged(stores: Stores) -> None:
    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield ArtifactChunk("text", text="0", name="T")
        for index in range(1, 10):
            yield ArtifactChunk("text", text=str(index), append=True, last=index == 9)
        yield ArtifactChunk("raw", raw=b"0")
        yield ArtifactChunk("raw", raw=b"1", append=True)
        for index in range(10):
            yield ArtifactChunk("single", text=str(index), append=index > 0, mergeable=False)

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("go")
        updates = [event.event.artifact_update for event in await plane.events(task.id, ARTIFACT)]
    by_id = {name: [u for u in updates if u.artifact.artifact_id == name] for name in ("text", "raw", "single")}
    (merged,) = by_id["text"]
    assert [part.text for part in merged.artifact.parts] == ["0123456789"]
    assert merged.last_chunk and not merged.append and merged.artifact.name == "T"
    (raw,) = by_id["raw"]
    assert [part.raw for part in raw.artifact.parts] == [b"0", b"1"]
    assert len(by_id["single"]) == 10
    assert task.status.state == a2a.TASK_STATE_COMPLETED and not task.status.HasField("message")


async def test_an_open_text_ends_before_the_next_message(stores: Stores) -> None:
    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Text("thinking")
        yield Say("first answer")
        yield Text("calling")
        yield ToolCall("1", "f", {})
        yield Text("second ")
        yield Text("answer")
        yield Complete("second answer")

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("go")
        conversation = await plane.conversation(task.context_id)
        shown = [e.event.status_update.status.message for e in await plane.events(task.id, STATUS)]
    assert [text(m) for m in shown if is_partial(m)] == ["thinking", "calling", "second answer"]
    assert [text(m) for m in task.history] == ["go", "thinking", "first answer", "calling", ""]
    assert text(task.status.message) == "second answer"
    assert conversation == ["go", "thinking", "first answer", "calling", "", "second answer"]


async def test_a_status_text_is_shown_and_is_in_no_history(stores: Stores) -> None:
    """P4: progress lines are marked and stay out of every history."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Working("Reading")
        yield Complete("Done")

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("go")
        messages = [e.event.status_update.status.message for e in await plane.events(task.id, STATUS)]
        conversation = await plane.conversation(task.context_id)
    assert [text(m) for m in messages if m.metadata.fields["kind"].string_value == "status-message"] == ["Reading"]
    assert conversation == ["go", "Done"]
    assert [text(m) for m in task.history] == ["go"]


async def test_every_message_carries_the_invocation_of_its_turn(stores: Stores) -> None:
    """R1: in the task and in the session."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        if turn.text == "one":
            yield Say("said")
            yield AskInput("and?")
        else:
            yield Complete("done")

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        asked = await plane.run("one")
        await plane.submit("two", task_id=asked.id)
        task = await plane.reaches(asked.id, a2a.TASK_STATE_COMPLETED)
        entries = await plane.entries(task.context_id, effective=True)
    marks = [m.metadata.fields["kagent_invocation_id"].string_value for m in (*task.history, task.status.message)]
    assert len(marks) == 5 and all(marks)
    assert marks[0] == marks[1] == marks[2] != marks[3] == marks[4]
    assert [entry.invocation_id for entry in entries] == marks
    assert {entry.task_invocation_id or entry.invocation_id for entry in entries} == {marks[0]}


async def test_each_message_to_a_running_task_gets_its_own_turn_before_the_task_completes(stores: Stores) -> None:
    """I1, C8: the store refuses the completion with PENDING_INPUT; the run reads the message and continues."""
    running, told = asyncio.Event(), asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        if turn.text == "first":
            yield Say("started")
            running.set()
            await told.wait()
            yield Complete("answer to first")
        yield Complete(f"answer to {turn.text}")

    agent = Scripted(script)
    # Without hints or renewals the run notices the messages only by the refusal of its completion.
    async with open_plane(stores, ("a", agent), renew_every=0.7) as plane:
        reference = await plane.submit("first")
        await running.wait()
        await plane.submit("second", task_id=reference.task.task_id)
        await plane.submit("third", task_id=reference.task.task_id)
        told.set()
        task = await plane.at_rest(reference)
        conversation = await plane.conversation(task.context_id)
    assert task.status.state == a2a.TASK_STATE_COMPLETED
    assert text(task.status.message) == "answer to third"
    assert [turn.text for turn in agent.turns] == ["first", "second", "third"]
    assert [text(m) for m in agent.turns[1].history] == ["first", "started", "answer to first"]
    assert conversation == [
        "first",
        "started",
        "second",
        "third",
        "answer to first",
        "answer to second",
        "answer to third",
    ]


@pytest.mark.parametrize("final", ["complete", "bare", "ask"])
async def test_a_message_before_the_final_change_is_answered_and_the_final_text_stays(
    stores: Stores, final: str
) -> None:
    """C8: the message is stored between the run's last check and its item."""
    late: list[str] = []

    async def script(turn: Turn) -> AsyncIterator[Change]:
        if turn.text == "first":
            yield Say("before the end")
            if final == "complete":
                yield Complete("the end")
            elif final == "ask":
                yield AskInput("the end")
        else:
            yield Complete(f"answer to {turn.text}")

    async def race(request: tasks.AppendEventsRequest) -> None:
        last = request.items[0].changes[-1] if request.items[0].changes else None
        ends = last is not None and last.status.status.state in (
            a2a.TASK_STATE_COMPLETED,
            a2a.TASK_STATE_INPUT_REQUIRED,
        )
        if ends and not late:
            late.append("sent")
            task = await stores.tasks(ANN).ListTasks(tasks.ListTasksRequest())
            message = tasks.AddMessageRequest(
                task_id=task.records[0].id, invocation_id="late", request_hash=b"h" * 32, message=said("late")
            )
            await stores.tasks(ANN).AddMessage(message)

    stores.channel.before["AppendEvents"] = race
    agent = Scripted(script)
    async with open_plane(stores, ("a", agent)) as plane:
        task = await plane.at_rest(await plane.submit("first"))
        conversation = await plane.conversation(task.context_id)
    assert late and task.status.state == a2a.TASK_STATE_COMPLETED
    assert text(task.status.message) == "answer to late"
    spoken = ["the end"] if final != "bare" else []
    assert sorted(text(m) for m in task.history) == sorted(["first", "before the end", "late", *spoken])
    assert sorted(conversation) == sorted([*(text(m) for m in task.history), "answer to late"])


async def test_messages_that_the_agent_reads_itself_get_no_turn(stores: Stores) -> None:
    running, told = asyncio.Event(), asyncio.Event()
    seen: list[str] = []

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Say("started")
        running.set()
        await told.wait()
        seen.extend(text(message) for message in await turn.incoming())
        yield Complete("all read")

    agent = Scripted(script)
    async with open_plane(stores, ("a", agent), renew_every=0.1) as plane:
        reference = await plane.submit("first")
        await running.wait()
        await plane.submit("second", task_id=reference.task.task_id)
        (run,) = plane.service.runs.active
        await until(lambda: run.outbox.input_generation > 1)
        told.set()
        task = await plane.at_rest(reference)
    assert seen == ["second"] and len(agent.turns) == 1
    assert task.status.state == a2a.TASK_STATE_COMPLETED


async def test_a_cancel_stops_the_agent_and_keeps_its_partial_text(stores: Stores) -> None:
    """P8, C11: after the cancel no change of the run is stored; its resources are released."""
    released, running = asyncio.Event(), asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        try:
            yield Text("half a sen")
            running.set()
            await asyncio.Event().wait()
        finally:
            assert turn.cancelled.is_set()
            released.set()

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        reference = await plane.submit("go")
        await running.wait()
        await eventually(lambda: plane.record(reference.task.task_id), lambda record: record.generation >= 3)
        canceled = await stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=reference.task.task_id))
        async with asyncio.timeout(30):
            await released.wait()
        await until(lambda: not plane.service.runs.active)
        record = await plane.record(reference.task.task_id)
        assert record.generation == canceled.record.generation
        assert record.task.status.state == a2a.TASK_STATE_CANCELED
        last = record.task.history[-1]
        assert text(last) == "half a sen" and last.metadata.fields["interrupted"].bool_value
        copied = await eventually(
            lambda: plane.conversation(record.context_id), lambda conversation: len(conversation) == 2
        )
        assert copied == ["go", "half a sen"]


async def test_an_agent_that_cleans_up_after_a_cancel_is_not_cancelled_again(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    """P8, P11: even if its executor notices the lost lease several times; the log has one line for it."""
    caplog.set_level(logging.INFO)
    running, may_end = asyncio.Event(), asyncio.Event()
    ends: list[str] = []

    async def script(turn: Turn) -> AsyncIterator[Change]:
        try:
            yield Text("begun")
            running.set()
            await asyncio.Event().wait()
        finally:
            try:
                await may_end.wait()
                ends.append("cleaned up")
            except asyncio.CancelledError:
                ends.append("cancelled again")
                raise

    async with open_plane(stores, ("a", Scripted(script)), renew_every=0.05, cancel_grace=0.05) as plane:
        reference = await plane.submit("go")
        await running.wait()
        await stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=reference.task.task_id))
        (run,) = plane.service.runs.active
        await until(run.cancelled.is_set)
        told = stores.calls["Renew"]
        await until(lambda: stores.calls["Renew"] >= told + 3 and "did not stop within" in caplog.text)
        may_end.set()
        await until(lambda: not plane.service.runs.active)
    assert ends == ["cleaned up"]
    assert (caplog.text.count("stopping the run of task"), caplog.text.count("did not stop within")) == (1, 1)


async def test_an_agent_that_swallows_the_cancel_writes_nothing_more(stores: Stores) -> None:
    running = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Say("started")
        running.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        for _ in range(10):
            yield Say("after the cancel")

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        reference = await plane.submit("go")
        await running.wait()
        await stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=reference.task.task_id))
        await until(lambda: not plane.service.runs.active)
        task = await plane.task(reference.task.task_id)
    assert "after the cancel" not in [text(m) for m in (*task.history, task.status.message)]


async def test_a_yield_after_the_final_change_raises_if_agents_are_strict(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Complete("the end")
        yield Say("not the end")

    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="after its final change")):
        # No renewal in between: it would find the task ended and stop the run.
        async with open_plane(stores, ("a", Scripted(script)), strict_agents=True, renew_every=10.0) as plane:
            task = await plane.run("go")
            assert text(task.status.message) == "the end"
            await until(lambda: not plane.service.runs.active)
    assert any(record.levelno == logging.CRITICAL for record in caplog.records)
    async with open_plane(stores, ("a", Scripted(script)), strict_agents=False) as plane:
        task = await plane.run("go")
        await until(lambda: not plane.service.runs.active)
        assert "not the end" not in await plane.conversation(task.context_id)


async def test_code_after_the_final_change_is_run(stores: Stores) -> None:
    """P11: resources of a run are closed at every kind of end."""
    closed: list[str] = []

    async def script(turn: Turn) -> AsyncIterator[Change]:
        try:
            yield Fail("no") if turn.text == "fail" else Complete("yes")
            closed.append("resumed")
        finally:
            closed.append("closed")

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        for words in ("complete", "fail"):
            await plane.run(words)
            await until(lambda: not plane.service.runs.active)
    assert closed == ["resumed", "closed"] * 2


async def test_a_run_that_takes_too_long_fails(stores: Stores) -> None:
    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Working()
        await asyncio.Event().wait()

    for of_agent, of_executor in ((0.05, 0.0), (None, 0.05)):
        agent = Scripted(script, policy=Policy(run_limit=of_agent))
        async with open_plane(stores, ("a", agent), run_limit=of_executor) as plane:
            task = await plane.run("go")
        assert task.status.state == a2a.TASK_STATE_FAILED
        assert text(task.status.message) == "The agent was stopped because it exceeded its time limit."


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (ArtifactChunk("a", text="x", append=True), "append=True"),
        (ArtifactChunk("a", raw=b"x" * (1024 * 1024 + 1)), "at most 1 MiB"),
        ("a string", "not str"),
        (Complete(42), "not int"),  # type: ignore[arg-type]
        (Say("x" * (4 * 1024 * 1024)), "at most 3 MiB"),
    ],
)
async def test_a_change_that_cannot_be_stored_fails_its_task_with_the_reason_in_the_log(
    stores: Stores, caplog: pytest.LogCaptureFixture, change: Change, reason: str
) -> None:
    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Text("before")
        yield change

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("go")
    assert task.status.state == a2a.TASK_STATE_FAILED
    assert reason in caplog.text and reason not in text(task.status.message)


async def test_data_too_deep_to_be_read_again_becomes_text(stores: Stores) -> None:
    deep: object = 1
    for _ in range(30):
        deep = {"in": deep}

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield ToolCall("1", "f", deep)

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("go")
    assert task.status.state == a2a.TASK_STATE_COMPLETED
    assert '{"in": 1}' in str(task.history[-1].parts[0].data).replace("\\", "")


async def test_sixteen_runs_share_one_append_in_flight_fairly(stores: Stores) -> None:
    """At most 1,000 changes in an AppendEvents, and no run waits for another one to end."""
    order: list[str] = []
    sizes: list[int] = []
    shared: list[int] = []

    async def look(request: tasks.AppendEventsRequest) -> None:
        # By then all runs have something to send.
        await until(lambda: len(agent.turns) == 16)
        sizes.append(sum(len(item.changes) for item in request.items))
        shared.append(len(request.items))
        assert len({item.task_uid for item in request.items}) == len(request.items)
        order.extend(item.task_uid for item in request.items)

    async def script(turn: Turn) -> AsyncIterator[Change]:
        for index in range(400):
            yield ArtifactChunk("a", text="x" * 100, append=index > 0, mergeable=False)

    stores.channel.before["AppendEvents"] = look
    agent = Scripted(script)
    async with open_plane(stores, ("a", agent)) as plane:
        references = await asyncio.gather(*(plane.submit(f"go {n}") for n in range(16)))
        finished = await asyncio.gather(*(plane.at_rest(reference) for reference in references))
        for task in finished:
            assert task.status.state == a2a.TASK_STATE_COMPLETED
            assert len(await plane.events(task.id, ARTIFACT)) == 400
    assert stores.channel.at_once["AppendEvents"] == 1
    assert max(sizes) <= 1000
    assert max(shared) > 4
    for uid in set(order):
        places = [place for place, other in enumerate(order) if other == uid]
        assert all(later - earlier <= 2 * 16 for earlier, later in itertools.pairwise(places))


async def test_an_item_with_a_lost_answer_is_sent_again_and_stored_once(stores: Stores) -> None:
    """C6: exactly once into the log."""
    lost = 0
    service = stores.tasks(ANN._replace(service=True))

    async def script(turn: Turn) -> AsyncIterator[Change]:
        for index in range(5):
            yield Say(f"message {index}")
            await asyncio.sleep(0)
        yield Complete("done")

    async def lose(request: tasks.AppendEventsRequest) -> None:
        nonlocal lost
        if lost < 3:
            lost += 1
            await service.AppendEvents(request)
            raise Unavailable("the answer was lost")

    stores.channel.before["AppendEvents"] = lose
    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("go")
        speaking = [event for event in await plane.events(task.id) if event.speaks]
    assert lost == 3 and len(speaking) == 7
    assert [text(m) for m in task.history] == ["go", *(f"message {index}" for index in range(5))]
    assert text(task.status.message) == "done"
