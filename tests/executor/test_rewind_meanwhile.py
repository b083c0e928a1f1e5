"""Rewinds during other work: turns that run or wait, other rewinds, messages and sweeps."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from tests.executor.plane import Held, Plane, Stores, eventually, open_plane, text, until
from tests.executor.rewinding import (
    answer,
    applied,
    gone,
    invocation,
    listed,
    rewind,
    rewind_session,
    session,
    texts,
    turns,
    undo,
)
from tests.executor.scripted import Scripted
from tests.support.thorough import THOROUGH

from taskplane.agents.agent import AskInput, Change, Complete, Say, Text, Turn
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.runtime.errors import Conflict, PlaneError, Refused

pytestmark = pytest.mark.more

# Of ten races each.
BATCHES = 10 if THOROUGH else 3


async def test_a_second_rewind_during_a_rewind_is_refused_with_the_version(stores: Stores, plane: Plane) -> None:
    """R9: of every kind; other sessions are not affected."""
    one, two = await turns(plane, "one", "two")
    (other,) = await turns(plane, "other", context_id="d")
    held = Held(stores, "MarkSuperseded")
    first = asyncio.ensure_future(rewind(plane, invocation(two)))
    await held.reached.wait()
    for second in (rewind(plane, invocation(one)), rewind_session(plane, invocation(one)), undo(plane)):
        with pytest.raises(Conflict) as refused:
            await second
        assert refused.value.reason == "REWIND_IN_FLIGHT"
        assert refused.value.metadata["version"] == str((await session(plane)).version)
        assert refused.value.retry_after is not None
    del stores.channel.before["MarkSuperseded"]
    await rewind(plane, invocation(other), context_id="d")
    held.let_go.set()
    assert len((await first).rewound.task.history) == 2
    assert len((await rewind(plane, invocation(one))).rewound.task.history) == 0


async def test_a_rewind_completes_after_its_client_has_left(stores: Stores) -> None:
    agent = Scripted(answer)
    async with open_plane(stores, ("a", agent)) as plane:
        one, two = await turns(plane, "one", "two")
        held = Held(stores, "Rewind")
        call = asyncio.ensure_future(rewind(plane, invocation(two), "new"))
        await held.reached.wait()
        await gone(call)
        held.let_go.set()
        await eventually(lambda: plane.conversation("c"), lambda found: found[2:] == ["new", "answer to new"])
        assert len(await listed(plane)) == 2 and (await listed(plane))[0] == one.id


async def test_a_running_task_is_canceled_by_a_rewind_and_its_late_messages_stay_cut(stores: Stores) -> None:
    """R4: a partial text that the rewind interrupts is in no conversation, until an undo."""
    began = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Say("said")
        yield Text("half a")
        began.set()
        await turn.cancelled.wait()
        yield Complete("late")

    agent = Scripted(script)
    async with open_plane(stores, ("a", agent)) as plane:
        reference = await plane.submit("one", context_id="c")
        await began.wait()

        async def generation() -> int:
            return (await plane.record(reference.task.task_id)).generation

        await eventually(generation, lambda found: found >= 4)
        before = invocation(await plane.task(reference.task.task_id))
        assert texts((await rewind(plane, before)).rewound.task) == []
        record = await plane.record(reference.task.task_id)
        assert record.state == a2a.TASK_STATE_CANCELED and record.superseded

        async def uncopied() -> bool:
            found = await plane.record(reference.task.task_id)
            return found.copied_generation < found.message_generation

        await eventually(uncopied, lambda found: not found)
        assert await plane.conversation("c") == []
        assert await listed(plane) == []
        await undo(plane)
        assert await plane.conversation("c") == ["one", "said", "half a"]
        assert await listed(plane) == [record.id]


async def test_a_paused_task_is_superseded_in_its_state_and_refuses_an_answer(stores: Stores) -> None:
    """R4, I1: with SUPERSEDED; after an undo the task accepts it."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield (
            Complete(f"{turn.text} it is")
            if turn.task is not None and len(turn.task.history) > 1
            else AskInput("which?")
        )

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        (asked,) = await turns(plane, "one")
        await rewind(plane, invocation(asked))
        record = await plane.record(asked.id)
        assert record.superseded and record.state == a2a.TASK_STATE_INPUT_REQUIRED
        with pytest.raises(Refused) as refused:
            await plane.submit("blue", task_id=asked.id)
        assert refused.value.reason == "SUPERSEDED"
        assert await plane.conversation("c") == []
        await undo(plane)
        await plane.submit("blue", task_id=asked.id)
        task = await plane.reaches(asked.id, a2a.TASK_STATE_COMPLETED)
        assert text(task.status.message) == "blue it is"
        assert await plane.conversation("c") == ["one", "which?", "blue", "blue it is"]


async def test_a_paused_task_is_superseded_if_its_answer_is_cut(stores: Stores) -> None:
    """R4: its kept messages are in the session, and in the history of the next turn."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield AskInput("which?") if turn.text == "two" else Complete(f"answer to {turn.text}")

    agent = Scripted(script)
    async with open_plane(stores, ("a", agent)) as plane:
        one, asked = await turns(plane, "one", "two")
        await plane.submit("blue", task_id=asked.id)
        task = await plane.reaches(asked.id, a2a.TASK_STATE_COMPLETED)
        await eventually(lambda: plane.conversation("c"), lambda found: len(found) == 6)
        before = task.history[-1].metadata.fields["kagent_invocation_id"].string_value
        assert before != invocation(task)
        kept = ["one", "answer to one", "two", "which?"]
        assert texts((await rewind(plane, before)).rewound.task) == kept
        assert await listed(plane) == [one.id]
        assert (await plane.record(asked.id)).state == a2a.TASK_STATE_COMPLETED
        await turns(plane, "three")
        assert [text(message) for message in agent.turns[-1].history] == kept


@pytest.mark.parametrize("loser", ["Rewind", "Undo"])
async def test_of_concurrent_rewinds_or_undos_at_two_executors_one_succeeds(stores: Stores, loser: str) -> None:
    """R9: the second entry is refused, since the session was rewound after it was read."""
    agent = Scripted(answer)
    async with open_plane(stores, ("a", agent)) as here, open_plane(stores, ("a", agent)) as there:
        one, two, three = await turns(here, "one", "two", "three")
        await rewind_session(here, invocation(three))
        held = Held(stores, loser)
        late = asyncio.ensure_future(rewind_session(here, invocation(one)) if loser == "Rewind" else undo(here))
        await held.reached.wait()
        stores.channel.before.clear()
        await rewind_session(there, invocation(two))
        held.let_go.set()
        with pytest.raises(Conflict) as refused:
            await late
        assert refused.value.reason == "REWIND_IN_FLIGHT"
        assert refused.value.metadata["version"] == str((await session(here)).version)
        assert await listed(here) == [one.id] and await here.conversation("c") == ["one", "answer to one"]


async def test_a_rewind_is_not_refused_for_a_message_that_came_after_its_read(stores: Stores, plane: Plane) -> None:
    one, two = await turns(plane, "one", "two")
    held = Held(stores, "Rewind")
    late = asyncio.ensure_future(rewind_session(plane, invocation(two)))
    await held.reached.wait()
    stores.channel.before.clear()
    await turns(plane, "three")
    held.let_go.set()
    assert len((await late).task.history) == 2
    assert await listed(plane) == [one.id]


async def test_a_sweep_does_not_void_a_rewind(stores: Stores) -> None:
    """C10: only turns are voided."""
    async with open_plane(stores, ("a", Scripted(answer))) as plane:
        one, two = await turns(plane, "one", "two")
        await rewind(plane, invocation(two), key="k")
        await rewind(plane, "unknown")
        (three,) = await turns(plane, "three")
    # Turns that take long to begin are voided and put back, so the sweep is let at them when they have been.
    async with open_plane(stores, ("a", Scripted(answer)), uncopied_every=0.02, abandoned_after=0.05) as plane:
        stores.calls.clear()
        await until(lambda: stores.calls.get("ListUnsettled", 0) > 10)
        assert sessions.ENTRY_KIND_VOID not in [entry.kind for entry in await plane.entries("c")]
        assert await listed(plane) == [one.id, three.id]


@pytest.mark.parametrize("executors", [1, 2])
async def test_of_two_concurrent_rewinds_one_succeeds_or_both_stack(
    stores: Stores, plane: Plane, executors: int
) -> None:
    """R9: many races at one executor and at two; one effective history, and a typed conflict for a refused one."""
    lost: list[str] = []

    async def race(index: int) -> None:
        context_id = f"c{index}"
        one, two, three = await turns(plane, "one", "two", "three", context_id=context_id)
        before = [two, three] if index % 2 else [three, two]
        answers = await asyncio.gather(
            rewind_session(plane, invocation(before[0]), context_id),
            rewind_session(other, invocation(before[1]), context_id),
            return_exceptions=True,
        )
        rewound = [each for each in answers if isinstance(each, pb.RewindSessionResponse)]
        for refused in (each for each in answers if not isinstance(each, pb.RewindSessionResponse)):
            assert isinstance(refused, PlaneError)
            lost.append(refused.reason)
            if refused.reason == "REWIND_IN_FLIGHT":
                assert int(refused.metadata["version"]) > 0
        assert rewound
        shown = min((texts(each.task) for each in rewound), key=len)
        assert await plane.conversation(context_id) == shown
        kept = [one.id] if len(shown) == 2 else [one.id, two.id]
        assert await listed(plane, context_id) == kept and await applied(plane, context_id)

    async with open_plane(stores) as another:
        other = plane if executors == 1 else another
        for batch in range(BATCHES):
            await asyncio.gather(*(race(10 * batch + index) for index in range(10)))
    print(f"{executors} executors: {Counter(lost)}")
    assert set(lost) <= {"REWIND_IN_FLIGHT", "INVOCATION_NOT_FOUND"} and "REWIND_IN_FLIGHT" in lost
