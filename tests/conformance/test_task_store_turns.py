"""Turns: what the user says, once, and never past an end or unread. C7, C8, C10, C11."""

import asyncio
from dataclasses import replace

import pytest
from tests.conformance.task_log import ADA, BOB, Plane, chunk, message, only, status

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.errors import AlreadyExists, Invalid, NotFound, PlaneError, Refused
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.task import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, SUBMITTED, WORKING, Row


async def refusal(plane: Plane, op: commands.Operation) -> PlaneError:
    with pytest.raises(PlaneError) as raised:
        await plane.log.submit(op)
    return raised.value


async def test_a_repeated_creation_is_answered_with_the_task_it_made(plane: Plane) -> None:
    """C10: with the fence for the executor that holds the lease, and for no other."""
    creation = plane.creation()
    first = only(commands.Created, await plane.log.submit(creation))
    again = only(commands.Created, await plane.log.submit(replace(creation, uid="another", salt="another")))
    assert (first.created, again.created) == (True, False)
    assert (again.row, again.fence) == (first.row, 1)
    elsewhere = replace(creation, uid="another", claim_for="p9")
    assert only(commands.Created, await plane.log.submit(elsewhere)).fence == 0


async def test_of_racing_creations_with_one_key_one_makes_the_task(plane: Plane) -> None:
    """C10: in one batch or in several."""
    creation = plane.creation()
    tries = [replace(creation, uid=f"uid{number}") for number in range(8)]
    answers = [only(commands.Created, each) for each in await asyncio.gather(*map(plane.log.submit, tries))]
    assert sorted(answer.created for answer in answers) == [False] * 7 + [True]
    assert len({answer.row.uid for answer in answers}) == 1


async def test_a_key_used_for_something_else_is_refused(plane: Plane) -> None:
    """C10: another hash, another context, or a creation's key for a message and the other way round."""
    creation = plane.creation()
    row = only(commands.Created, await plane.log.submit(creation)).row
    other = await plane.create()
    await plane.say(row, "i2")
    for op in (
        replace(creation, request_hash=b"other"),
        replace(creation, context_id="c2"),
        replace(creation, task_id="t9", invocation_id="i2"),
        plane.saying(row, creation.invocation_id),
        plane.saying(row, "i2", request_hash=b"other"),
        plane.saying(other, "i2"),
    ):
        assert (await refusal(plane, op)).reason == "KEY_REUSED", op


async def test_keys_of_two_owners_have_nothing_to_do_with_each_other(plane: Plane) -> None:
    """C10: a key is one owner's."""
    mine = await plane.create(invocation_id="same")
    theirs = await plane.create(invocation_id="same", scope=BOB)
    assert mine.uid != theirs.uid
    await plane.say(mine, "again")
    await plane.say(theirs, "again")


async def test_a_task_id_that_is_taken_is_refused_whoever_holds_it(plane: Plane) -> None:
    """C10: and the two cases are told apart only by what the caller may see anyway."""
    await plane.create(name="mine")
    again = plane.creation(name="mine", invocation_id="other")
    assert (await refusal(plane, again)).reason == "TASK_EXISTS"
    theirs = await refusal(plane, replace(again, scope=BOB))
    assert isinstance(theirs, AlreadyExists) and theirs.reason == "ID_TAKEN"


async def test_a_message_to_a_paused_task_queues_it_in_the_same_commit(plane: Plane) -> None:
    """C8: pausing gives up the lease and raises the fence; the answer makes the task ready."""
    row = await plane.create()
    await plane.pause(row)
    paused = await plane.log.row_by_uid(row.uid)
    assert (paused.state, paused.fence, paused.lease_owner, paused.ready_at) == (INPUT_REQUIRED, 2, None, None)
    assert (await plane.log.claimable(["demo"], 10)).uids == []
    added = await plane.say(row, "i2")
    assert (added.row.state, added.generation, added.row.input_generation) == (SUBMITTED, 4, 4)
    assert (await plane.log.claimable(["demo"], 10)).uids == [row.uid]
    await plane.check(row)


async def test_a_message_is_added_once(plane: Plane) -> None:
    """C10: a repeat is answered with the generation of the first, also after the task has ended."""
    row = await plane.create()
    first = await plane.say(row, "i2")
    again = await plane.say(row, "i2")
    assert (first.added, again.added, again.generation) == (True, False, first.generation)
    await plane.complete(row)
    assert (await plane.say(row, "i2")).generation == first.generation
    twice = await asyncio.gather(*(plane.log.submit(plane.saying(row, "i2")) for _ in range(4)))
    assert {only(commands.Added, answer).added for answer in twice} == {False}


@pytest.mark.parametrize("state", [COMPLETED, INPUT_REQUIRED])
async def test_a_rest_that_has_not_consumed_what_was_said_is_refused(plane: Plane, state: int) -> None:
    """C8: with the generation of the unread message, and without a trace of the item."""
    row = await plane.create()
    added = await plane.say(row, "i2")
    answer = await plane.append(row, chunk("x"), status(state), consumed_generation=1)
    assert isinstance(answer.refusal, Refused) and answer.refusal.reason == "PENDING_INPUT"
    assert answer.input_generation == added.generation
    assert (await plane.check(row)).generation == added.generation
    answer = await plane.append(row, status(state), consumed_generation=added.generation)
    assert answer.refusal is None
    assert (await plane.check(row)).consumed_generation == added.generation


async def test_a_message_racing_a_completion_is_read_or_refused(plane: Plane) -> None:
    """C8: no task is completed with an accepted message unread."""
    rows = [await plane.create() for _ in range(20)]

    async def race(row: Row) -> tuple[commands.Answer | PlaneError, commands.Answer | PlaneError]:
        end = await plane.item(row, status(COMPLETED), consumed_generation=1)
        order: list[commands.Operation] = [end, plane.saying(row, f"{row.id}-i2")]
        if row.uid < "8":
            order.reverse()
        answers = await plane.log.submit_all(order)
        return (answers[0], answers[1]) if order[0] is end else (answers[1], answers[0])

    for row, (end, said) in zip(rows, await asyncio.gather(*map(race, rows)), strict=True):
        completed = only(commands.Appended, end).refusal is None
        assert completed == isinstance(said, Refused)
        await plane.check(row)


async def test_a_message_for_another_context_or_task_is_refused(plane: Plane) -> None:
    """C7: and one of another owner is answered like one for a task that does not exist."""
    row = await plane.create()
    assert isinstance(await refusal(plane, replace(plane.saying(row, "i2"), expected_context="c2")), Invalid)
    foreign = await refusal(plane, replace(plane.saying(row, "i2"), scope=BOB))
    missing = await refusal(plane, replace(plane.saying(row, "i2"), scope=BOB, task_id="nothing"))
    assert isinstance(foreign, NotFound) and isinstance(missing, NotFound)
    assert foreign.message.replace(row.id, "X") == missing.message.replace("nothing", "X")


async def test_a_message_is_added_at_the_generation_that_it_expects_only(plane: Plane) -> None:
    """C7: a refusal changes nothing, and a repeat is answered as before."""
    row = await plane.create()
    before = await plane.check(row)
    for wrong in (row.generation - 1, row.generation + 1):
        late = await refusal(plane, replace(plane.saying(row, "i2"), expected_generation=wrong))
        assert (late.reason, late.metadata) == ("GENERATION_MISMATCH", {"generation": str(row.generation)})
    assert await plane.check(row) == before
    expects = replace(plane.saying(row, "i2"), expected_generation=row.generation)
    assert only(commands.Added, await plane.log.submit(expects)).added
    again = only(commands.Added, await plane.log.submit(expects))
    assert (again.added, again.generation) == (False, row.generation + 1)


async def test_nothing_follows_the_end_of_a_task(plane: Plane) -> None:
    """C7: neither output, nor a message, nor a second end."""
    row = await plane.create()
    await plane.complete(row)
    before = await plane.check(row)
    late = await plane.append(row, chunk("late"))
    assert isinstance(late.refusal, Refused) and late.refusal.reason == "TERMINAL"
    assert (await refusal(plane, plane.saying(row, "i2"))).reason == "TERMINAL"
    assert (await refusal(plane, commands.Cancel(scope=ADA, task_id=row.id))).reason == "TERMINAL"
    assert await plane.orphan(row) is None and await plane.claim(row) is None
    assert await plane.check(row) == before


async def test_a_cancel_fences_the_run_in_the_same_commit(plane: Plane) -> None:
    """C11: what the executor still yields is refused, and so is a second cancel."""
    row = await plane.create()
    item = await plane.item(row, chunk("late"))
    canceled = await plane.cancel(row)
    assert (canceled.state, canceled.fence, canceled.lease_owner) == (CANCELED, 2, None)
    assert only(commands.Appended, await plane.log.submit(item)).refusal is not None
    assert (await refusal(plane, commands.Cancel(scope=ADA, task_id=row.id))).reason == "TERMINAL"
    assert (await plane.check(row)).terminal_generation == 3


@pytest.mark.parametrize("paused", [False, True])
async def test_a_task_that_nobody_runs_is_canceled_as_well(plane: Plane, paused: bool) -> None:
    """C11: queued or paused; it is not queued any more."""
    row = await plane.create() if paused else await plane.queued()
    if paused:
        await plane.pause(row)
    canceled = await plane.cancel(row)
    assert (canceled.state, canceled.ready_at) == (CANCELED, None)
    assert (await plane.log.claimable(["demo"], 10)).uids == []
    await plane.check(row)


async def test_of_a_completion_and_a_cancel_one_wins(plane: Plane) -> None:
    """C11: exactly one terminal event, whichever commits first."""
    rows = [await plane.create() for _ in range(20)]

    async def race(row: Row) -> None:
        end = await plane.item(row, status(COMPLETED), consumed_generation=1)
        both: list[commands.Operation] = [end, commands.Cancel(scope=ADA, task_id=row.id)]
        if row.uid < "8":
            both.reverse()
        answers = await plane.log.submit_all(both)
        won = [isinstance(each, commands.Done) or getattr(each, "refusal", each) is None for each in answers]
        assert won == [True, False]

    await asyncio.gather(*map(race, rows))
    for row in rows:
        assert (await plane.check(row)).terminal_generation == 3


async def test_what_a_cancel_interrupts_stays_as_a_final_message(plane: Plane) -> None:
    """C11: the text so far is a message of the log, marked as interrupted, before the end."""
    row = await plane.create()
    for piece in ("Once ", "upon ", "a time"):
        await plane.append(row, status(WORKING, message(piece, "m2", partial=True)))
    await plane.cancel(row)
    await plane.check(row)
    _, task = await plane.log.get(ADA, row.id)
    (said,) = [each for each in (*task.history, task.status.message) if each.message_id == "m2"]
    assert said.parts[0].text == "Once upon a time"
    assert said.metadata.fields["interrupted"].bool_value


async def test_a_long_text_is_interrupted_whole_even_after_a_snapshot(plane: Plane) -> None:
    """C11: where the text began before the stored snapshot, nothing of it is missing."""
    row = await plane.create()
    pieces = [f"{number:05d}" * 2000 for number in range(40)]
    for piece in pieces:
        await plane.append(row, status(WORKING, message(piece, "m2", partial=True)))
    assert (await plane.log.row_by_uid(row.uid)).snapshot_generation > 1
    answer = await plane.append(row, status(FAILED, message("out of words", "m3")))
    assert answer.refusal is None
    await plane.check(row)
    _, task = await plane.log.get(ADA, row.id)
    (said,) = [each for each in task.history if each.message_id == "m2"]
    assert "".join(part.text for part in said.parts) == "".join(pieces)


async def test_a_second_text_cannot_grow_beside_an_open_one(plane: Plane) -> None:
    """A reader can tell at any time which text is growing."""
    row = await plane.create()
    await plane.append(row, status(WORKING, message("one", "m2", partial=True)))
    answer = await plane.append(row, status(WORKING, message("two", "m3", partial=True)))
    assert isinstance(answer.refusal, Invalid)
    await plane.append(row, status(WORKING, message("one and all", "m2")))
    answer = await plane.append(row, status(WORKING, message("two", "m3", partial=True)))
    assert answer.refusal is None
    await plane.check(row)


async def test_an_end_while_a_text_is_open_keeps_the_text(plane: Plane) -> None:
    """C6: whatever ends or pauses a task leaves no half message behind."""
    for state in (COMPLETED, INPUT_REQUIRED, int(a2a.TASK_STATE_REJECTED)):
        row = await plane.create()
        await plane.append(row, status(WORKING, message("so far", f"{row.id}-m2", partial=True)))
        answer = await plane.append(row, status(state), consumed_generation=1)
        assert answer.refusal is None, answer
        now = await plane.check(row)
        assert (now.partial_id, now.partial_generation) == (None, None)
        _, task = await plane.log.get(ADA, row.id)
        assert f"{row.id}-m2" in [each.message_id for each in (*task.history, task.status.message)]


async def test_a_batch_folds_no_more_than_fits_into_memory(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """C13: the ends of many large tasks at once are spread over several transactions, and all of them happen."""
    monkeypatch.setattr("taskplane.tasks.sql.apply._CONTENT_BYTES", 100_000)
    rows = [await plane.create() for _ in range(6)]
    for row in rows:
        await plane.append(row, chunk("x" * 40_000), status(WORKING, message("so f", "m2", partial=True)))
    plane.commits.clear()
    cancels = [commands.Cancel(scope=ADA, task_id=row.id) for row in rows[:3]]
    ends = [
        await plane.item(row, status(COMPLETED, message("so far", "m2")), consumed_generation=1) for row in rows[3:]
    ]
    answers = await plane.log.submit_all([*cancels, *ends])
    assert all(isinstance(each, commands.Done) or getattr(each, "refusal", each) is None for each in answers)
    assert len(plane.commits) == 3
    for row in rows:
        assert (await plane.check(row)).terminal_generation is not None
