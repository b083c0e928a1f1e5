"""Runs fail at their time limit, with any behaviour of their agent afterwards."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from tests.executor.plane import Stores, open_plane, shown, text, until
from tests.executor.scripted import Scripted

from taskplane.agents.agent import AgentCard, AskInput, Change, Checkpoint, Complete, Policy, Say, Text, Turn
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as tasks

LIMIT = 1.0
SAID = "The agent was stopped because it exceeded its time limit."


def _later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Moves the clock of the event loop forward: timers up to that time have run."""
    loop = asyncio.get_running_loop()
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + seconds)


async def _deaf(let_go: threading.Event) -> None:
    """Ignores every cancellation."""
    while not let_go.is_set():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            continue


def _catching(let_go: threading.Event) -> Any:
    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Text("in time")
        await _deaf(let_go)
        for change in (Text("late"), Say("late"), Checkpoint("late"), Complete("late")):
            yield change

    return Scripted(script)


def _cleaning_up(let_go: threading.Event) -> Any:
    async def script(turn: Turn) -> AsyncIterator[Change]:
        try:
            yield Text("in time")
            await asyncio.Event().wait()
        finally:
            await _deaf(let_go)

    return Scripted(script)


def _blocking(let_go: threading.Event) -> Any:
    class Blocking:
        card = AgentCard(name="blocking", version="1")

        def run(self, turn: Turn) -> Iterator[Change]:
            yield Text("in time")
            let_go.wait(30)
            yield Complete("late")

    return Blocking()


def _routing(let_go: threading.Event) -> Any:
    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Text("in time")
        await _deaf(let_go)
        yield Complete("late")

    class Routing(Scripted):
        async def route(self, turn: Turn) -> Any:
            return script(turn)

    return Routing(script)


@pytest.mark.parametrize("agent", [_catching, _cleaning_up, _blocking, _routing])
async def test_a_run_at_its_time_limit_fails_although_its_agent_continues(
    stores: Stores, caplog: pytest.LogCaptureFixture, agent: Callable[[threading.Event], Any]
) -> None:
    """P9, P8: at once; no change is stored afterwards, the slot is held, and the log names the task."""
    caplog.set_level(logging.INFO)
    let_go = threading.Event()
    async with open_plane(stores, ("a", agent(let_go)), run_limit=LIMIT, cancel_grace=0.05) as plane:
        try:
            reference = await plane.submit("go")
            task = await plane.at_rest(reference)
            assert task.status.state == a2a.TASK_STATE_FAILED and text(task.status.message) == SAID
            updates = [event.event.status_update for event in await plane.events(task.id, tasks.EVENT_KIND_STATUS)]
            assert updates[-1].metadata.fields["reason"].string_value == "RUN_TIMEOUT"
            assert [text(message) for message in task.history[1:]] == ["in time"]
            assert [run.task_id for run in plane.service.runs.active] == [task.id]
            await until(lambda: f"the agent of task {task.id} did not stop within 0.05 s" in caplog.text)
            assert not plane.service.runs.leases()
        finally:
            let_go.set()
        await until(lambda: not plane.service.runs.active)
        assert (await plane.record(task.id)).generation == (await plane.events(task.id))[-1].generation
        assert "late" not in str(await plane.events(task.id))
        assert not plane.service.runs.bugs


async def test_an_agent_that_continues_after_its_final_change_is_stopped_at_the_time_limit(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    """P9: its task has completed, and stays so."""
    let_go = threading.Event()
    turns: list[Turn] = []

    async def script(turn: Turn) -> AsyncIterator[Change]:
        turns.append(turn)
        yield Complete("well")
        await _deaf(let_go)

    agent = Scripted(script, policy=Policy(run_limit=LIMIT))
    async with open_plane(stores, ("a", agent), cancel_grace=0.05) as plane:
        task = await plane.run("go")
        await until(lambda: "did not stop within 0.05 s" in caplog.text)
        assert turns[0].cancelled.is_set()
        let_go.set()
        await until(lambda: not plane.service.runs.active)
        assert text((await plane.task(task.id)).status.message) == "well"


async def test_an_agent_sees_the_cancel_event_before_it_is_interrupted_at_its_time_limit(stores: Stores) -> None:
    """P8: as at a cancel, so that it can clean up."""
    told: list[bool] = []

    async def script(turn: Turn) -> AsyncIterator[Change]:
        try:
            yield Text("in time")
            await asyncio.Event().wait()
        finally:
            told.append(turn.cancelled.is_set())

    async with open_plane(stores, ("a", Scripted(script)), run_limit=LIMIT) as plane:
        assert text((await plane.run("go")).status.message) == SAID
        await until(lambda: not plane.service.runs.active)
    assert told == [True]


async def test_a_message_during_the_final_change_does_not_extend_the_time_limit(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    """P9, I1: the limit passes while the final change is refused for the new message."""
    caplog.set_level(logging.INFO)
    ending, let_go = asyncio.Event(), asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Complete("well")

    async def hold(request: tasks.AppendEventsRequest) -> None:
        changes = [change for item in request.items for change in item.changes]
        if any(change.status.status.state == a2a.TASK_STATE_COMPLETED for change in changes):
            ending.set()
            await let_go.wait()

    async with open_plane(stores, ("a", Scripted(script)), run_limit=1.0) as plane:
        stores.channel.before["AppendEvents"] = hold
        reference = await plane.submit("go")
        async with asyncio.timeout(30):
            await ending.wait()
        await plane.submit("wait", task_id=reference.task.task_id)
        await until(lambda: "time limit is exceeded" in caplog.text)
        let_go.set()
        task = await plane.at_rest(reference)
        end = (await plane.events(task.id, tasks.EVENT_KIND_STATUS))[-1]
    assert task.status.state == a2a.TASK_STATE_FAILED and text(task.status.message) == SAID
    assert end.event.status_update.metadata.fields["reason"].string_value == "RUN_TIMEOUT"


async def test_an_agent_that_hangs_after_a_cancel_is_logged_if_an_append_found_the_cancel(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    """P8: no renewal finds it here."""
    let_go = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        try:
            while True:
                yield Text("more ")
                await asyncio.sleep(0.01)
        finally:
            await let_go.wait()

    async with open_plane(stores, ("a", Scripted(script)), renew_every=60.0, cancel_grace=0.05) as plane:
        reference = await plane.submit("go")
        await shown(plane, reference.task.task_id, "more")
        await stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=reference.task.task_id))
        await until(lambda: f"the agent of task {reference.task.task_id} did not stop within" in caplog.text)
        let_go.set()
        await until(lambda: not plane.service.runs.active)


async def test_a_run_without_a_limit_fails_after_a_day(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """L2: the default. The time in which a task waits for the user does not count, and each attempt has its own."""
    working = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        if turn.text == "ask":
            yield AskInput("which one?")
        elif turn.text == "work":
            yield Text("in time")
            working.set()
            await asyncio.Event().wait()
        else:
            yield Complete("thanks")

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        paused = await plane.submit("ask")
        await plane.at_rest(paused)
        _later(monkeypatch, 86_000)
        task = paused.task
        answered = await plane.submit("this one", task_id=task.task_id, context_id=task.context_id)
        await plane.reaches(answered.task.task_id, a2a.TASK_STATE_COMPLETED)
        hanging = await plane.submit("work")
        await working.wait()
        _later(monkeypatch, 86_000)
        assert (await plane.record(hanging.task.task_id)).state == a2a.TASK_STATE_WORKING
        _later(monkeypatch, 401)
        failed = await plane.at_rest(hanging)
        assert failed.status.state == a2a.TASK_STATE_FAILED
        assert failed.status.message.metadata.fields["reason"].string_value == "RUN_TIMEOUT"


async def test_a_limit_of_zero_is_no_limit(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    working, let_go = asyncio.Event(), asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Text("in time")
        working.set()
        await let_go.wait()
        yield Complete("at last")

    async with open_plane(stores, ("a", Scripted(script)), run_limit=0.0) as plane:
        lasting = await plane.submit("work")
        await working.wait()
        _later(monkeypatch, 1e6)
        assert (await plane.record(lasting.task.task_id)).state == a2a.TASK_STATE_WORKING
        let_go.set()
        assert text((await plane.at_rest(lasting)).status.message) == "at last"
