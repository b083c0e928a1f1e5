"""Rewinds and undos: what they take out of a session, of its tasks and of what its agents see."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.executor.plane import BOB, Plane, Stores, eventually, open_plane, text, until
from tests.executor.rewinding import (
    CONTROL,
    Held,
    answer,
    applied,
    control,
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

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.executor.agent import AskInput, Change, Complete, Say, Text, Turn
from taskplane.runtime.errors import Conflict, Exhausted, Invalid, NotFound, PlaneError, Refused


class Routed(Scripted):
    """Answers everything directly, if it is asked."""

    async def route(self, turn: Turn) -> str | None:
        return f"direct answer to {turn.text}"


@pytest.mark.parametrize("words", [None, ""])
async def test_a_rewind_is_a_message_that_no_agent_sees(stores: Stores, words: str | None) -> None:
    """R2, R3, R4: the session as one task with its history; what was cut is hidden, kept, and in no further prompt."""
    agent = Scripted(answer)
    async with open_plane(stores, ("a", agent)) as plane:
        one, two, three = await turns(plane, "one", "two", "three")
        rewound = (await rewind(plane, invocation(two), words, message_id="")).rewound
        assert not rewound.HasField("next")
        assert rewound.task.id == rewound.task.context_id == "c"
        assert rewound.task.status.state == a2a.TASK_STATE_COMPLETED
        assert texts(rewound.task) == ["one", "answer to one"] == await plane.conversation("c")
        assert await listed(plane) == [one.id]
        assert await listed(plane, all_of_them=True) == [one.id, two.id, three.id]
        superseded = await plane.record(three.id)
        assert superseded.superseded and superseded.state == a2a.TASK_STATE_COMPLETED
        assert await applied(plane)
        (entry,) = [e for e in await plane.entries("c") if e.kind == sessions.ENTRY_KIND_REWIND]
        assert entry.message.metadata.fields[CONTROL].string_value == invocation(two) == entry.target
        assert entry.message.message_id and entry.id == entry.invocation_id
        await plane.run("four", context_id="c")
    assert [turn.text for turn in agent.turns] == ["one", "two", "three", "four"]
    assert [text(message) for message in agent.turns[-1].history] == ["one", "answer to one"]


async def test_rewinds_stack_and_undo_takes_the_newest_back(plane: Plane) -> None:
    """R3, R8: an undo shows the superseded tasks again; after a new turn it is too late."""
    one, two, three = await turns(plane, "echo one", "echo two", "echo three")
    await rewind_session(plane, invocation(three))
    answered = await rewind_session(plane, invocation(two))
    assert texts(answered.task)[0] == "echo one" and len(answered.task.history) == 2
    assert answered.version == (await session(plane)).version
    back = await undo(plane)
    assert [words for words in texts(back.task) if words.startswith("echo")] == ["echo one", "echo two"]
    assert back.version == (await session(plane)).version
    assert await listed(plane) == [one.id, two.id] and await applied(plane)
    (four,) = await turns(plane, "echo four")
    with pytest.raises(Refused) as late:
        await undo(plane)
    assert late.value.reason == "TOO_LATE_TO_UNDO"
    await rewind_session(plane, invocation(one))
    assert await listed(plane) == [] and await plane.conversation("c") == []
    await undo(plane)
    assert await listed(plane) == [one.id, two.id, four.id]


async def test_a_rewind_before_a_rewind_takes_that_one_back(plane: Plane) -> None:
    """R8: ADK's rule."""
    one, two = await turns(plane, "one", "two")
    await rewind(plane, invocation(two))
    (entry,) = [e for e in await plane.entries("c") if e.kind == sessions.ENTRY_KIND_REWIND]
    rewound = (await rewind(plane, entry.invocation_id)).rewound
    assert len(rewound.task.history) == 4
    assert await listed(plane) == [one.id, two.id]


async def test_without_a_rewind_there_is_nothing_to_undo(plane: Plane) -> None:
    await turns(plane, "one")
    before = await session(plane)
    with pytest.raises(Refused) as refused:
        await undo(plane)
    assert refused.value.reason == "NOTHING_TO_UNDO"
    assert await session(plane) == before


async def test_a_rewind_with_words_begins_a_turn_that_is_always_a_task(stores: Stores) -> None:
    """R6, T8: the session as it was rewound, and the task of the new turn; the agent sees no mark and no cut turn."""
    agent = Routed(answer)
    async with open_plane(stores, ("a", agent)) as plane:
        first = await plane.submit("one", context_id="c")
        second = await plane.submit("two", context_id="c")
        before = second.message.metadata.fields["kagent_invocation_id"].string_value
        rewound = (await rewind(plane, before, "instead", metadata={"mine": "kept"}, message_id="m")).rewound
        assert texts(rewound.task) == ["one", text(first.message)]
        assert rewound.next.task.status.state == a2a.TASK_STATE_SUBMITTED and rewound.next.cursor
        task = await plane.at_rest(pb.SubmitResponse(task=rewound.next))
        assert task.context_id == "c" and text(task.status.message) == "answer to instead"
        assert await plane.conversation("c") == ["one", text(first.message), "instead", "answer to instead"]
        kinds = {e.invocation_id: e.kind for e in await plane.entries("c") if e.kind == sessions.ENTRY_KIND_REWIND}
    (turn,) = agent.turns
    assert set(turn.message.metadata.fields) == {"mine", "kagent_invocation_id"}
    assert turn.message.message_id == "m"
    assert turn.invocation_id not in kinds and invocation(task) == turn.invocation_id
    assert [text(message) for message in turn.history] == ["one", text(first.message)]


async def test_a_rewind_with_a_file_begins_a_turn_as_well(stores: Stores) -> None:
    """R6: what a user sends is never dropped."""
    agent = Scripted(answer)
    async with open_plane(stores, ("a", agent)) as plane:
        (one,) = await turns(plane, "one")
        message = control(invocation(one))
        message.parts.add(raw=b"file")
        request = pb.SubmitRequest(request=a2a.SendMessageRequest(message=message))
        response = await plane.executor().Submit(request)
        await plane.at_rest(pb.SubmitResponse(task=response.rewound.next))
    assert agent.turns[-1].message.parts[0].raw == b"file"


async def test_a_repeat_of_a_rewind_with_words_rewinds_and_runs_nothing_again(stores: Stores) -> None:
    """R4, C10: the same task, one run; with another request the key is refused."""
    agent = Scripted(answer)
    async with open_plane(stores, ("a", agent)) as plane:
        one, two = await turns(plane, "one", "two")
        replies = [await rewind(plane, invocation(two), "new", key="k", message_id="m") for _ in range(2)]
        assert len({reply.rewound.next.task_id for reply in replies}) == 1
        assert all(texts(reply.rewound.task) == ["one", "answer to one"] for reply in replies)
        await plane.at_rest(pb.SubmitResponse(task=replies[0].rewound.next))
        assert await plane.conversation("c") == ["one", "answer to one", "new", "answer to new"]
        with pytest.raises(Refused) as refused:
            await rewind(plane, invocation(one), "new", key="k", message_id="m")
        assert refused.value.reason == "KEY_REUSED"
    assert [turn.text for turn in agent.turns] == ["one", "two", "new"]


async def test_repeats_of_one_rewind_are_one_rewind(stores: Stores, plane: Plane) -> None:
    """R4: at the same time and later, as a message and as a call."""
    one, two = await turns(plane, "one", "two")
    held = Held(stores, "Rewind")
    both = [asyncio.ensure_future(rewind_session(plane, invocation(two), idempotency_key="k")) for _ in range(2)]
    await held.reached.wait()
    held.let_go.set()
    answers = [*await asyncio.gather(*both), await rewind_session(plane, invocation(two), idempotency_key="k")]
    assert all(texts(each.task) == texts(answers[0].task) for each in answers)
    assert [e.kind for e in await plane.entries("c")].count(sessions.ENTRY_KIND_REWIND) == 1
    with pytest.raises(Refused) as refused:
        await rewind_session(plane, invocation(one), idempotency_key="k")
    assert refused.value.reason == "KEY_REUSED"


async def test_repeats_of_one_undo_are_one_undo(stores: Stores, plane: Plane) -> None:
    """R8: at the same time and later, under the key that a rewind had; another key is another undo."""
    one, two, three = await turns(plane, "one", "two", "three")
    for each in (three, two):
        await rewind_session(plane, invocation(each), idempotency_key=f"k {each.id}")
    held = Held(stores, "Undo")
    key = f"k {two.id}"
    both = [asyncio.ensure_future(undo(plane, idempotency_key=key)) for _ in range(2)]
    await held.reached.wait()
    held.let_go.set()
    answers = [*await asyncio.gather(*both), await undo(plane, idempotency_key=key, expected_version=1)]
    assert all(each == answers[0] for each in answers)
    assert await listed(plane) == [one.id, two.id]
    await undo(plane, idempotency_key="other")
    assert await listed(plane) == [one.id, two.id, three.id]
    await turns(plane, "other", context_id="d")
    with pytest.raises(Refused) as refused:
        await undo(plane, "d", idempotency_key=key)
    assert refused.value.reason == "KEY_REUSED"


@pytest.mark.parametrize("words", [None, "new"])
async def test_a_rewind_before_nothing_is_shown_as_a_failed_task_and_changes_nothing(
    stores: Stores, words: str | None
) -> None:
    """R9: named in the message, stored nowhere but in the log, no turn; the same for a repeat."""
    agent = Scripted(answer)
    async with open_plane(stores, ("a", agent)) as plane:
        one, two = await turns(plane, "one", "two")
        await rewind(plane, invocation(two))
        for before in (invocation(two), "unknown"):
            shown = await plane.conversation("c")
            replies = [await rewind(plane, before, words, key=f"k{before}", message_id="m") for _ in range(2)]
            rewound = replies[0].rewound
            assert rewound.task.status.state == a2a.TASK_STATE_FAILED and not rewound.HasField("next")
            assert before in text(rewound.task.status.message)
            assert rewound.task.context_id == "c" != rewound.task.id
            assert replies[0] == replies[1]
            with pytest.raises(NotFound):
                await plane.task(rewound.task.id)
            with pytest.raises(NotFound) as unknown:
                await rewind_session(plane, before)
            assert unknown.value.reason == "INVOCATION_NOT_FOUND"
            assert await plane.conversation("c") == shown
            assert await listed(plane) == [one.id]
    assert [turn.text for turn in agent.turns] == ["one", "two"]


@pytest.mark.parametrize("words", [None, "new"])
async def test_an_unknown_session_and_somebody_elses_are_not_found(plane: Plane, words: str | None) -> None:
    (one,) = await turns(plane, "one")
    with pytest.raises(NotFound) as unknown:
        await rewind(plane, invocation(one), words, context_id="other")
    with pytest.raises(NotFound) as foreign:
        await rewind(plane, invocation(one), words, who=BOB)
    assert unknown.value.reason == foreign.value.reason == "SESSION_NOT_FOUND"
    calls = plane.executor(BOB)
    for call in (
        calls.RewindSession(pb.RewindSessionRequest(context_id="c", before_invocation_id=invocation(one))),
        calls.UndoRewind(pb.UndoRewindRequest(context_id="c")),
        calls.ApplySession(pb.ApplySessionRequest(context_id="c")),
    ):
        with pytest.raises(NotFound):
            await call
    assert len(await plane.conversation("c")) == 2


@pytest.mark.parametrize(
    ("field", "given"),
    [
        (f"message.metadata.{CONTROL}", {"metadata": {CONTROL: ""}}),
        (f"message.metadata.{CONTROL}", {"metadata": {CONTROL: 1}}),
        (f"message.metadata.{CONTROL}", {"metadata": {CONTROL: None}}),
        (f"message.metadata.{CONTROL}", {"metadata": {CONTROL: "i" * 256}}),
        ("message.context_id", {"context_id": ""}),
        ("message.task_id", {"task_id": "t"}),
    ],
)
async def test_a_control_message_that_makes_no_sense_is_invalid(
    plane: Plane, field: str, given: dict[str, Any]
) -> None:
    """R2: and nothing of it is stored."""
    await turns(plane, "one")
    before = await session(plane)
    values: dict[str, Any] = {"context_id": "c", "metadata": {CONTROL: "i"}, **given}
    with pytest.raises(Invalid) as invalid:
        await plane.submit("", **values)
    assert list(invalid.value.fields) == [field]
    assert await session(plane) == before


async def test_calls_that_name_nothing_are_invalid(plane: Plane) -> None:
    calls = plane.executor()
    for call in (
        calls.RewindSession(pb.RewindSessionRequest(context_id="c")),
        calls.RewindSession(pb.RewindSessionRequest(before_invocation_id="i")),
        calls.UndoRewind(pb.UndoRewindRequest()),
        calls.ApplySession(pb.ApplySessionRequest()),
    ):
        with pytest.raises(Invalid):
            await call


async def test_a_second_rewind_of_the_session_meanwhile_is_refused_with_its_version(
    stores: Stores, plane: Plane
) -> None:
    """R9: of whichever kind; another session is not concerned."""
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


async def test_a_client_that_goes_away_cancels_nothing(stores: Stores) -> None:
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


async def test_what_runs_is_canceled_and_what_it_says_later_stays_cut(stores: Stores) -> None:
    """R4: a partial text that the rewind interrupts is in the task's log, and in no conversation."""
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


async def test_a_paused_task_is_superseded_as_it_is_and_takes_no_answer(stores: Stores) -> None:
    """R4, I1: SUPERSEDED goes to the client; after an undo it goes on."""

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


async def test_a_task_that_was_answered_is_superseded_when_the_answer_is_cut(stores: Stores) -> None:
    """R4: what is kept of it is in the session, and is what the next turn sees."""

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
async def test_of_two_executors_that_steer_a_session_at_once_one_wins(stores: Stores, loser: str) -> None:
    """R9: the entry that would come second finds that the session was steered since it was read."""
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


async def test_a_rewind_is_not_refused_for_a_message_that_came_meanwhile(stores: Stores, plane: Plane) -> None:
    one, two = await turns(plane, "one", "two")
    held = Held(stores, "Rewind")
    late = asyncio.ensure_future(rewind_session(plane, invocation(two)))
    await held.reached.wait()
    stores.channel.before.clear()
    await turns(plane, "three")
    held.let_go.set()
    assert len((await late).task.history) == 2
    assert await listed(plane) == [one.id]


@pytest.mark.parametrize("words", [None, "new"])
async def test_a_history_that_fits_no_answer_is_said_to_be_so(stores: Stores, words: str | None) -> None:
    """R4: the session is rewound, no turn is begun, and asking again is no use."""
    agent = Scripted(answer)
    async with open_plane(stores, ("a", agent)) as plane:
        one, two = await turns(plane, "one", "two")

        async def refuse(request: object) -> None:
            raise Exhausted("it does not fit one reply", reason="HISTORY_TOO_LARGE")

        stores.channel.before["GetSessionTask"] = refuse
        stores.calls.clear()
        with pytest.raises(Exhausted) as refused:
            await rewind(plane, invocation(two), words)
        assert refused.value.reason == "HISTORY_TOO_LARGE" and stores.calls["GetSessionTask"] == 1
        assert await applied(plane) and await listed(plane) == [one.id]
    assert [turn.text for turn in agent.turns] == ["one", "two"]


async def test_a_sweep_takes_no_rewind_for_a_turn_that_came_to_nothing(stores: Stores) -> None:
    """C10: what is voided is turns."""
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


async def test_deleting_a_session_deletes_what_it_hides(plane: Plane) -> None:
    one, two = await turns(plane, "one", "two")
    await rewind(plane, invocation(two))
    await plane.executor().DeleteSession(pb.DeleteSessionRequest(context_id="c"))
    for task in (one, two):
        with pytest.raises(NotFound):
            await plane.task(task.id)


@pytest.mark.parametrize("executors", [1, 2])
async def test_of_two_rewinds_at_once_one_wins(stores: Stores, plane: Plane, executors: int) -> None:
    """R9: 100 races at one executor and at two; one effective history, and a typed conflict for the loser."""
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
        for batch in range(10):
            await asyncio.gather(*(race(10 * batch + index) for index in range(10)))
    print(f"{executors} executors: {Counter(lost)}")
    assert set(lost) <= {"REWIND_IN_FLIGHT", "INVOCATION_NOT_FOUND"} and "REWIND_IN_FLIGHT" in lost
