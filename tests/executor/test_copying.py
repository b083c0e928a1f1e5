"""Copies: a session shows each committed message once, in order."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.executor.plane import Stores, eventually, open_plane, swept_at_start, text, until
from tests.executor.scripted import Scripted
from tests.support.additions import untimed

from taskplane.agents.agent import AskInput, Change, Complete, Fail, Reject, Say, Turn
from taskplane.agents.demo import Demo
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.executor.sweeps.copying import Source
from taskplane.runtime.errors import Refused, Unavailable
from taskplane.runtime.principal import Principal, acting_as


async def script(turn: Turn) -> AsyncIterator[Change]:
    yield Say("working on it")
    yield AskInput("a question") if turn.text == "ask" else Complete(f"answer to {turn.text}")


async def test_a_completed_task_has_all_its_messages_in_the_session(stores: Stores) -> None:
    """C6: the final message is copied before the terminal event, which records the copied generation."""
    conversations: list[list[str]] = []
    async with open_plane(stores, ("a", Scripted(script))) as plane:
        for _ in range(5):
            task = await plane.run("go")
            conversations.append(await plane.conversation(task.context_id))
            record = await plane.record(task.id)
            assert record.copied_generation == record.message_generation
    assert conversations == [["go", "working on it", "answer to go"]] * 5


async def test_the_id_of_a_copy_is_made_of_its_event(stores: Stores) -> None:
    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("go")
        record = await plane.record(task.id)
        entries = [e for e in await plane.entries(task.context_id) if e.kind == sessions.ENTRY_KIND_MESSAGE]
        events = [event for event in await plane.events(task.id) if event.speaks]
    assert [entry.id for entry in entries] == [
        events[0].invocation_id,
        *(f"{record.uid}-{event.generation}" for event in events[1:]),
    ]
    assert [entry.generation for entry in entries] == [event.generation for event in events]
    for entry, event in zip(entries[1:], events[1:], strict=True):
        assert entry.message == event.event.status_update.status.message
        assert entry.actor == event.actor
    assert untimed(entries[0].message) == untimed(events[0].event.task.history[0])
    assert entries[0].actor == "user:ann"


@pytest.mark.parametrize("final", ["reject", "fail"])
async def test_an_uncopied_task_at_rest_is_copied_before_the_next_turn(stores: Stores, final: str) -> None:
    async def script(turn: Turn) -> AsyncIterator[Change]:
        if turn.text == "reject":
            yield Reject("no")
        elif turn.text == "fail":
            yield Fail("a reason")
        else:
            yield Complete("done")

    agent = Scripted(script)
    failing = True

    async def sessions_down(request: sessions.AppendEntriesRequest) -> None:
        if failing and len(request.entries) == 1:
            raise Unavailable("sessions are down")

    stores.channel.before["AppendEntries"] = sessions_down
    async with open_plane(stores, ("a", agent)) as plane:
        task = await plane.run(final, context_id="c")
        assert await plane.conversation("c") == [final]
        record = await plane.record(task.id)
        assert record.copied_generation < record.message_generation
        failing = False
        await plane.run("next", context_id="c")
        said = "no" if final == "reject" else "a reason"
        assert [text(message) for message in agent.turns[1].history] == [final, said]
        assert await plane.conversation("c") == [final, said, "next", "done"]
        await eventually(lambda: plane.record(task.id), lambda now: now.copied_generation == now.message_generation)


async def test_the_run_of_a_failed_agent_marks_its_task_as_copied(stores: Stores) -> None:
    """C6: the run marks the task. This plane sweeps at its start only, so no sweep marks it."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Say("at work")
        raise ValueError("broken")

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("go")
        await eventually(lambda: plane.record(task.id), lambda now: now.copied_generation == now.message_generation)


async def test_the_sweep_copies_messages_that_are_not_copied_yet(stores: Stores) -> None:
    failing = True

    async def sessions_down(request: sessions.AppendEntriesRequest) -> None:
        if failing and len(request.entries) == 1:
            raise Unavailable("sessions are down")

    stores.channel.before["AppendEntries"] = sessions_down
    async with open_plane(stores, ("demo", Demo())) as plane:
        task = await plane.run("reject", context_id="c")
        assert await plane.conversation("c") == ["reject"]
        failing = False
    async with open_plane(stores, ("demo", Demo()), uncopied_every=0.05) as plane:
        await eventually(lambda: plane.conversation("c"), lambda found: len(found) == 2)
        await eventually(
            lambda: plane.record(task.id), lambda record: record.copied_generation == record.message_generation
        )


async def test_a_sweep_continues_after_a_page_of_tasks_that_cannot_be_copied(stores: Stores) -> None:
    """C6: such tasks stop neither a sweep nor the next turn of their session."""
    down = True

    async def refuse(request: sessions.AppendEntriesRequest) -> None:
        is_copy = any(entry.message.role == a2a.ROLE_AGENT for entry in request.entries)
        if is_copy and (down or request.context_id == "c"):
            raise Refused("what a session cannot take", reason="WRONG")

    async def two_at_a_time(request: tasks.ListUncopiedRequest) -> None:
        request.limit = 2

    stores.channel.before["AppendEntries"] = refuse
    stores.channel.before["ListUncopied"] = two_at_a_time
    async with open_plane(stores, ("demo", Demo())) as plane:
        for context_id in ("c", "c", "c", "d", "d", "e"):
            await plane.run("reject", context_id=context_id)
            await until(lambda: not plane.service.runs.active)
        down = False
        # A turn copies missing messages of its own session, past the first page too.
        await plane.run("echo next", context_id="d")
        assert len(await plane.conversation("d")) == 6
    async with open_plane(stores, ("demo", Demo())) as plane:
        await eventually(lambda: plane.conversation("e"), lambda found: len(found) == 2)
        await swept_at_start(stores)
        assert await plane.conversation("c") == ["reject"] * 3


@pytest.mark.parametrize(("said", "shown"), [("echo hello", "hello"), ("ask a thing?", "a thing?")])
async def test_an_end_and_a_pause_wait_for_their_copy_while_sessions_are_unavailable(
    stores: Stores, said: str, shown: str
) -> None:
    """C6: once a task is completed or asks, its messages are all in the session."""
    asked, back = asyncio.Event(), asyncio.Event()

    async def sessions_down(request: sessions.AppendEntriesRequest) -> None:
        if len(request.entries) == 1 and not back.is_set():
            asked.set()
            raise Unavailable("sessions are down")

    stores.channel.before["AppendEntries"] = sessions_down
    async with open_plane(stores, ("demo", Demo())) as plane:
        reference = await plane.submit(said, context_id="c")
        await asked.wait()
        assert (await plane.record(reference.task.task_id)).state == a2a.TASK_STATE_WORKING
        back.set()
        await plane.at_rest(reference)
        assert await plane.conversation("c") == [said, shown]


async def test_two_executors_copy_one_task_without_duplicates(stores: Stores) -> None:
    """C6: an entry never exists twice."""
    async with open_plane(stores, ("demo", Demo())) as plane:
        task = await plane.run("flood 40", context_id="c")
        record = await plane.record(task.id)
        async with open_plane(stores, ("demo", Demo())) as other:
            source = Source(
                uid=record.uid, task_id=task.id, context_id="c", invocation_id=record.invocation_id, agent="demo"
            )
            with acting_as(Principal("tenant", "ann", "copier", service=True)):
                await asyncio.gather(
                    *(each.service.runs.ports.copier.copy_task(source, 0) for each in (plane, other, plane, other))
                )
        assert len(await plane.conversation("c")) == 41
