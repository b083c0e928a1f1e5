"""Texts that an agent writes of itself: at an interval, news only, and never after an artifact or the end."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from tests.executor.plane import Plane, Stores, eventually, open_plane, open_stores, text, until
from tests.executor.scripted import Scripted

from taskplane.agents.agent import (
    ArtifactChunk,
    Change,
    Checkpoint,
    Complete,
    Policy,
    Say,
    StatusText,
    Text,
    Turn,
    Working,
)
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1.executor_pb2 import SubmitResponse
from taskplane.api.message_metadata import USAGE
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.json_values import to_dict

INTERVAL = 0.01
TEXT = tasks.EVENT_KIND_STATUS_TEXT


class Telling(Scripted):
    """Runs a script; its status texts come from a function of the number of the call."""

    def __init__(
        self, script: Callable[[Turn], AsyncIterator[Change]], tell: Callable[[int], str | StatusText | None]
    ) -> None:
        super().__init__(script, policy=Policy(on_orphan="resume"))
        self.recent: list[Sequence[str]] = []
        self.heard: list[list[str]] = []
        self.at_once = self.most_at_once = 0
        self._tell = tell

    async def status_text(self, turn: Turn, recent: Sequence[str]) -> str | StatusText | None:
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            self.recent.append(recent)
            self.heard.append([text(message) for message in turn.history])
            await asyncio.sleep(0)
            return self._tell(len(self.recent))
        finally:
            self.at_once -= 1


def used(task: a2a.Task) -> object:
    return to_dict(task.metadata).get(USAGE)


def working(count: int, calls: Callable[[], int], *then: Change) -> Callable[[Turn], AsyncIterator[Change]]:
    """A script that works until a number of status texts was requested, and then yields some changes."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Say("so far")
        await until(lambda: calls() >= count)
        for change in then:
            yield change

    return script


async def texts(plane: Plane, task_id: str) -> list[str]:
    found = await plane.events(task_id, TEXT)
    for event in found:
        update = event.event.status_update
        assert update.status.state == a2a.TASK_STATE_WORKING
        assert update.status.message.metadata.fields["kind"].string_value == "status-message"
    return [text(event.event.status_update.status.message) for event in found]


async def test_status_texts_are_stored_without_repeats_of_the_last_five(tmp_path: Path, database_url: str) -> None:
    """P4: also across a restart, after which the newest five are read from storage; texts that are too long are not
    sent."""
    words = ["a", "b", "a", "c", "x" * 51, "d", "  ", "e", "b", "f", "a", None, "y" * 50]

    async def waits(turn: Turn) -> AsyncIterator[Change]:
        await asyncio.Event().wait()
        yield Say("never")

    first = Telling(waits, lambda call: words[call - 1] if call <= len(words) else None)
    async with open_stores(tmp_path, database_url=database_url) as stores:
        async with open_plane(stores, ("a", first), status_interval=INTERVAL, drain_timeout=0.0) as plane:
            waiting = await plane.submit("go")
            await until(lambda: len(first.recent) > len(words))
            await eventually(lambda: texts(plane, waiting.task.task_id), lambda found: len(found) == 8)
            assert first.most_at_once == 1 and first.recent[0] == () and first.recent[2] == ("b", "a")
        second = Telling(working(4, lambda: len(second.recent), Complete("well")), lambda call: "fag"[call - 1 : call])
        async with open_plane(stores, ("a", second), status_interval=INTERVAL) as plane:
            task = await plane.at_rest(waiting)
            kept = ["a", "b", "c", "d", "e", "f", "a", "y" * 50, "g"]
            assert await texts(plane, task.id) == kept
            assert second.recent[0] == ("y" * 50, "a", "f", "e", "d")
            assert [text(message) for message in task.history] == ["go", "so far"]
            assert await plane.conversation(task.context_id) == ["go", "so far", "well"]


async def test_a_status_text_is_written_from_the_conversation_so_far(stores: Stores) -> None:
    """P4: the history, the message, the messages of this turn, and the growing text."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Say("one")
        yield Working("kept out")
        yield Text("tw")
        yield Text("o")
        heard = len(agent.heard)
        await until(lambda: len(agent.heard) > heard + 1)

    agent = Telling(script, lambda call: None)
    async with open_plane(stores, ("a", agent), status_interval=INTERVAL) as plane:
        await plane.run("before", context_id="c")
        await plane.run("go", context_id="c")
    assert agent.heard[-1] == ["before", "one", "two", "go", "one", "two"]


@pytest.mark.parametrize("end", [ArtifactChunk("a", text="x"), Complete("well")])
async def test_no_status_text_follows_an_artifact_or_the_end(stores: Stores, end: Change) -> None:
    """P4, P5: even if its call began before."""
    writing, let_go = asyncio.Event(), asyncio.Event()

    class Slow(Scripted):
        async def status_text(self, turn: Turn, recent: Sequence[str]) -> str | None:
            writing.set()
            try:
                await let_go.wait()
            finally:
                written.set()
            return "late"

    written = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        await writing.wait()
        yield end
        let_go.set()
        if isinstance(end, ArtifactChunk):
            await written.wait()
            yield Complete("well")

    async with open_plane(stores, ("a", Slow(script)), status_interval=INTERVAL) as plane:
        task = await plane.run("go")
        assert task.status.state == a2a.TASK_STATE_COMPLETED and await texts(plane, task.id) == []


async def test_a_status_text_that_fails_or_hangs_does_not_delay_the_end(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    """P4, P9: an exception is logged, and the next call is made; a hanging call is cancelled with the run."""
    hangs, cancelled = asyncio.Event(), asyncio.Event()

    class Faulty(Scripted):
        calls = 0

        async def status_text(self, turn: Turn, recent: Sequence[str]) -> str | None:
            self.calls += 1
            match self.calls:
                case 1:
                    raise RuntimeError("secret")
                case 2:
                    raise asyncio.CancelledError
                case 3:
                    raise SystemExit(3)
                case 4:
                    return 5  # type: ignore[return-value]  # pyright: ignore[reportReturnType]
                case _:
                    hangs.set()
                    try:
                        await asyncio.Event().wait()
                    finally:
                        cancelled.set()
            return None

    async def script(turn: Turn) -> AsyncIterator[Change]:
        await hangs.wait()
        yield Complete("well")

    caplog.set_level(logging.ERROR)
    async with open_plane(stores, ("a", Faulty(script)), status_interval=INTERVAL) as plane:
        task = await plane.run("go")
        assert task.status.state == a2a.TASK_STATE_COMPLETED
        await until(cancelled.is_set)
    failures = [record for record in caplog.records if "status_text of the agent" in record.message]
    assert len(failures) == 4


async def cancel(plane: Plane, waiting: SubmitResponse) -> None:
    await plane.stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=waiting.task.task_id))


@pytest.mark.parametrize("how", ["taken for its own", "swallowed"])
async def test_status_texts_end_with_the_run_even_if_a_library_swallows_the_cancellation(
    stores: Stores, how: str
) -> None:
    """P8, P9: a cancel scope that is left at that moment takes back the request to cancel; a run that waited for more
    texts would never end."""

    begun = asyncio.Event()

    class Scoped(Scripted):
        async def status_text(self, turn: Turn, recent: Sequence[str]) -> str | None:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                task = asyncio.current_task()
                assert task is not None
                task.uncancel()
                if how == "taken for its own":
                    raise
            return None

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Working()
        await asyncio.Event().wait()

    async with open_plane(stores, ("a", Scoped(script)), status_interval=INTERVAL) as plane:
        waiting = await plane.submit("wait")
        await begun.wait()
        await cancel(plane, waiting)
        await until(lambda: not plane.service.runs.active)


async def test_status_texts_stop_with_a_cancelled_or_failed_run(stores: Stores) -> None:
    """P8, P9: nothing follows the terminal event."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Checkpoint({"a": 1})
        count = len(agent.recent)
        await until(lambda: len(agent.recent) > count)
        if turn.text == "fail":
            raise RuntimeError("secret")
        await asyncio.Event().wait()

    agent = Telling(script, str)
    async with open_plane(stores, ("a", agent), status_interval=INTERVAL) as plane:
        failed = await plane.run("fail")
        waiting = await plane.submit("wait")
        count = len(agent.recent)
        await until(lambda: len(agent.recent) > count + 2)
        await cancel(plane, waiting)
        await until(lambda: not plane.service.runs.active)
        for task_id in (failed.id, waiting.task.task_id):
            last = (await plane.events(task_id))[-1]
            assert last.kind == tasks.EVENT_KIND_STATUS
            assert last.event.status_update.status.state in (a2a.TASK_STATE_FAILED, a2a.TASK_STATE_CANCELED)


async def test_the_usage_of_status_texts_is_in_the_figures_of_the_run(stores: Stores) -> None:
    """P4, P7: also of texts that are not sent, and when the run is canceled."""
    texts = ["one", None, "one", "two"]

    def tell(call: int) -> StatusText | None:
        return StatusText(texts[call - 1], {"requests": 1}) if call <= len(texts) else None

    agent = Telling(working(5, lambda: len(agent.recent)), tell)
    async with open_plane(stores, ("a", agent), status_interval=INTERVAL) as plane:
        task = await plane.run("go")
        assert used(task) == {"requests": 4}
        said = [event.event.status_update.status.message for event in await plane.events(task.id, TEXT)]
        assert [text(message) for message in said] == ["one", "two"]
    hanging = Telling(working(1, lambda: 0), tell)
    async with open_plane(stores, ("a", hanging), status_interval=INTERVAL) as plane:
        task_id = (await plane.submit("go")).task.task_id
        await until(lambda: len(hanging.recent) > len(texts))
        # The usage is in the task as soon as the last text is.
        await eventually(lambda: plane.events(task_id, TEXT), lambda events: len(events) == 2)
        canceled = await stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=task_id))
        assert used(canceled.record.task) == {"requests": 4}
