"""Rewinds and undos: their effect on a session, its tasks and the history of its agents."""

import asyncio
from typing import Any

import pytest
from tests.executor.plane import BOB, Held, Plane, Stores, open_plane, text
from tests.executor.rewinding import (
    CONTROL,
    answer,
    applied,
    control,
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

from taskplane.agents.agent import Turn
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.runtime import message_times
from taskplane.runtime.errors import Exhausted, Invalid, NotFound, Refused


class Routed(Scripted):
    """Answers every message directly, if it is asked."""

    async def route(self, turn: Turn) -> str | None:
        return f"direct answer to {turn.text}"


@pytest.mark.parametrize("words", [None, ""])
async def test_a_rewind_is_a_message_that_no_agent_sees(stores: Stores, words: str | None) -> None:
    """R2, R3, R4: the session as one task with its history; cut turns are hidden, kept, and in no further prompt."""
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


async def test_rewinds_stack_and_an_undo_reverts_the_newest(plane: Plane) -> None:
    """R3, R8: an undo shows the superseded tasks again; after a new turn it is refused."""
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


async def test_a_rewind_before_a_rewind_reverts_the_earlier_rewind(plane: Plane) -> None:
    """R8: as in ADK."""
    one, two = await turns(plane, "one", "two")
    await rewind(plane, invocation(two))
    (entry,) = [e for e in await plane.entries("c") if e.kind == sessions.ENTRY_KIND_REWIND]
    rewound = (await rewind(plane, entry.invocation_id)).rewound
    assert len(rewound.task.history) == 4
    assert await listed(plane) == [one.id, two.id]


async def test_an_undo_without_a_rewind_is_refused(plane: Plane) -> None:
    await turns(plane, "one")
    before = await session(plane)
    with pytest.raises(Refused) as refused:
        await undo(plane)
    assert refused.value.reason == "NOTHING_TO_UNDO"
    assert await session(plane) == before


async def test_a_rewind_with_words_begins_a_turn_that_is_always_a_task(stores: Stores) -> None:
    """R6, T8: the answer has the rewound session, and the task of the new turn; the agent sees no mark and no cut
    turn."""
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
    assert set(turn.message.metadata.fields) == {"mine", "kagent_invocation_id", message_times.KEY}
    assert turn.message.message_id == "m"
    assert turn.invocation_id not in kinds and invocation(task) == turn.invocation_id
    assert [text(message) for message in turn.history] == ["one", text(first.message)]


async def test_a_rewind_with_a_file_begins_a_turn(stores: Stores) -> None:
    """R6: content of a user is never dropped."""
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
    """R4, C10: the same task, one run; the key with another request is refused."""
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


async def test_repeats_of_a_rewind_rewind_once(stores: Stores, plane: Plane) -> None:
    """R4: concurrent and later ones; the key with another request is refused."""
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


async def test_repeats_of_an_undo_undo_once(stores: Stores, plane: Plane) -> None:
    """R8: concurrent and later ones, under the key of a rewind; another key is another undo."""
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
async def test_a_rewind_to_an_unknown_turn_is_a_failed_task_and_changes_nothing(
    stores: Stores, words: str | None
) -> None:
    """R9: the message names the turn; only the log has the rewind, and no turn begins. A repeat gets the same
    answer."""
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
async def test_an_unknown_session_and_the_session_of_another_owner_are_not_found(
    plane: Plane, words: str | None
) -> None:
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
        (f"message.metadata.{CONTROL}", {"metadata": {CONTROL: 1}}),
        (f"message.metadata.{CONTROL}", {"metadata": {CONTROL: "i" * 256}}),
        ("message.context_id", {"context_id": ""}),
        ("message.task_id", {"task_id": "t"}),
    ],
)
async def test_an_inconsistent_control_message_is_invalid(plane: Plane, field: str, given: dict[str, Any]) -> None:
    """R2: nothing of it is stored."""
    await turns(plane, "one")
    before = await session(plane)
    values: dict[str, Any] = {"context_id": "c", "metadata": {CONTROL: "i"}, **given}
    with pytest.raises(Invalid) as invalid:
        await plane.submit("", **values)
    assert list(invalid.value.fields) == [field]
    assert await session(plane) == before


async def test_calls_without_a_session_or_a_turn_are_invalid(plane: Plane) -> None:
    calls = plane.executor()
    for call in (
        calls.RewindSession(pb.RewindSessionRequest(context_id="c")),
        calls.RewindSession(pb.RewindSessionRequest(before_invocation_id="i")),
        calls.UndoRewind(pb.UndoRewindRequest()),
        calls.ApplySession(pb.ApplySessionRequest()),
    ):
        with pytest.raises(Invalid):
            await call


@pytest.mark.parametrize("words", [None, "new"])
async def test_a_rewind_with_a_history_too_large_for_an_answer_is_refused_but_applied(
    stores: Stores, words: str | None
) -> None:
    """R4: the session is rewound, no turn is begun, and the history is not requested again."""
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


async def test_deleting_a_session_also_deletes_superseded_tasks(plane: Plane) -> None:
    one, two = await turns(plane, "one", "two")
    await rewind(plane, invocation(two))
    await plane.executor().DeleteSession(pb.DeleteSessionRequest(context_id="c"))
    for task in (one, two):
        with pytest.raises(NotFound):
            await plane.task(task.id)
