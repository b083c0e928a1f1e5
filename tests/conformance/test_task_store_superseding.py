"""The effect of a rewind on the tasks of its session, in one transaction: hidden, canceled, shown again. R4, R8, C7."""

import asyncio

import pytest
from tests.conformance.task_log import ADA, BOB, Plane, message, only, status
from tests.conformance.test_task_store_cost import statements

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.errors import Refused
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.kinds import REPLACED, RESTORED, SUPERSEDED
from taskplane.tasks.domain.task import CANCELED, COMPLETED, INPUT_REQUIRED, WORKING
from taskplane.tasks.pages import TaskFilter


async def listed(plane: Plane, *, superseded: bool = False) -> list[str]:
    page = await plane.log.list(ADA, TaskFilter(context_id="c1", by_creation=True, superseded=superseded))
    return [row.id for row in page.rows]


async def test_a_rewind_hides_what_it_cut_and_cancels_what_runs(plane: Plane) -> None:
    """R4: whole, with its log and its content; the others and other sessions are left alone."""
    done, paused, running, kept = [await plane.create() for _ in range(4)]
    elsewhere = await plane.create(context_id="c2")
    await plane.complete(done)
    await plane.pause(paused)
    await plane.append(running, status(WORKING, message("half a", "m-text", partial=True)))
    cut = [f"{row.id}-i1" for row in (done, paused, running, elsewhere)]
    assert await plane.mark(3, *cut) == [done.id, paused.id, running.id]
    states = [
        (row.state, row.superseded, row.superseded_seq)
        for row in [await plane.check(row) for row in (done, paused, running, kept, elsewhere)]
    ]
    assert states == [
        (COMPLETED, True, 3),
        (INPUT_REQUIRED, True, 3),
        (CANCELED, True, 3),
        (WORKING, False, 3),
        (WORKING, False, 0),
    ]
    assert await listed(plane) == [kept.id]
    assert await listed(plane, superseded=True) == [done.id, paused.id, running.id, kept.id]
    assert len(plane.commits[-1].changes) == 4
    assert await plane.mark(4) == [done.id, paused.id, running.id]
    assert await listed(plane) == [done.id, paused.id, running.id, kept.id]


async def test_an_executor_is_fenced_by_a_rewind_and_a_paused_task_goes_on_after_an_undo(plane: Plane) -> None:
    running, paused = await plane.create(), await plane.create()
    await plane.pause(paused)
    late = await plane.item(running, status(WORKING))
    await plane.mark(1, f"{running.id}-i1", f"{paused.id}-i1")
    refusal = only(commands.Appended, await plane.log.submit(late)).refusal
    assert refusal is not None and refusal.reason == "TERMINAL"
    with pytest.raises(Refused) as refused:
        await plane.say(paused, "i2")
    assert refused.value.reason == "SUPERSEDED"
    await plane.mark(2)
    assert (await plane.say(paused, "i2")).row.ready_at is not None


async def test_a_message_that_was_cut_hides_its_task(plane: Plane) -> None:
    """R3: the invocations of a task are those of its creation and of every message to it."""
    row = await plane.create()
    await plane.say(row, "i2")
    assert await plane.mark(1, "i3") == []
    assert await plane.mark(2, "i2") == [row.id]


async def test_a_rewind_is_its_owners(plane: Plane) -> None:
    """The same context id and the same invocations of two owners are two sessions."""
    mine, other = await plane.create(), await plane.create(scope=BOB, invocation_id="t1-i1")
    assert await plane.mark(1, "t1-i1", scope=BOB) == [other.id]
    assert not (await plane.log.row_by_uid(mine.uid)).superseded


def saved(plane: Plane, turn: str = "", task_id: str = "doc", *, context_id: str = "c1") -> commands.Put:
    """A document of session c1 as its runtime saves it, in the turn that it names."""
    op = plane.document(task_id, f"in {turn}")
    op.task.context_id = context_id
    if turn:
        op.task.metadata.fields["kagent_invocation_id"].string_value = turn
    return op


async def test_a_document_of_no_turn_is_left_alone(plane: Plane) -> None:
    document = (await plane.put("doc", "one")).row
    assert await plane.mark(1, "doc", context_id="c-doc") == []
    now = await plane.log.row_by_uid(document.uid)
    assert (now.superseded, now.superseded_seq, now.generation) == (False, 1, 1)


async def test_a_document_is_hidden_with_the_turn_it_names_and_goes_on_as_it_is(plane: Plane) -> None:
    """R4, R10: and comes back with it; however often it is saved meanwhile, it is of the same turn."""
    kept = only(commands.Done, await plane.log.submit(saved(plane, "i0", "other"))).row
    await plane.log.submit(saved(plane, "i1"))
    row = only(commands.Done, await plane.log.submit(saved(plane, "i2"))).row
    assert await plane.mark(1, "i1") == []
    assert await plane.mark(2, "i2", "i3") == ["doc"]
    for turn in ("i2", ""):
        done = only(commands.Done, await plane.log.submit(saved(plane, turn))).row
        assert (done.superseded, done.state, done.invocation_id) == (True, WORKING, "i2")
    assert await listed(plane) == [kept.id]
    assert await plane.mark(2, "i2") == [] and await plane.mark(3) == ["doc"]
    assert await listed(plane) == [kept.id, "doc"]
    assert [event.kind for event in await plane.all_events(row)] == [
        *[REPLACED] * 2,
        SUPERSEDED,
        *[REPLACED] * 2,
        RESTORED,
    ]
    _, task = await plane.log.get(ADA, "doc")
    assert task.artifacts[0].parts[0].text == "in "
    await plane.log.submit(commands.Delete(scope=ADA, task_id="doc"))


async def test_a_hidden_document_comes_back_in_a_new_turn_or_elsewhere(plane: Plane) -> None:
    """R10: its runtime goes on with it after the rewind; that one does not hide it again."""
    for task_id in ("new turn", "elsewhere"):
        await plane.log.submit(saved(plane, "i1", task_id))
    assert await plane.mark(1, "i1") == ["new turn", "elsewhere"]
    done = only(commands.Done, await plane.log.submit(saved(plane, "i2", "new turn"))).row
    assert [event.kind for event in await plane.all_events(done)] == [REPLACED, SUPERSEDED, RESTORED, REPLACED]
    assert (done.superseded, done.generation, done.snapshot_generation) == (False, 4, 4)
    moved = only(commands.Done, await plane.log.submit(saved(plane, "i1", "elsewhere", context_id="c2"))).row
    assert not moved.superseded
    assert await plane.mark(1, "i1") == []
    assert await listed(plane) == ["new turn"]
    assert await plane.mark(2, "i1") == [] and await plane.mark(3, "i1", "i2") == ["new turn"]


async def test_what_is_hidden_is_read_copied_and_deleted_as_ever(plane: Plane) -> None:
    row = await plane.create()
    await plane.complete(row)
    _, task = await plane.log.get(ADA, row.id)
    await plane.mark(1, f"{row.id}-i1")
    found, hidden = await plane.log.get(ADA, row.id)
    assert found.superseded and hidden == task
    assert [each.uid for each in await plane.log.uncopied(("", "ada", "c1"), 10)] == [row.uid]
    only(
        commands.Done,
        await plane.log.submit(commands.MarkCopied(task_uid=row.uid, generation=found.message_generation)),
    )
    assert (await plane.all_events(row))[-1].kind == SUPERSEDED
    only(commands.Done, await plane.log.submit(commands.Delete(scope=ADA, task_id=row.id)))
    assert await listed(plane, superseded=True) == []


async def test_a_rewind_of_two_thousand_tasks_takes_a_fixed_number_of_statements(plane: Plane) -> None:
    """One transaction, whatever the size of the session; a repeat writes nothing."""
    for _ in range(8):
        await plane.log.submit_all([plane.creation(claim_for="") for _ in range(250)])
    cut = [f"t{number}-i1" for number in range(1, 1501)]
    before = len(plane.commits)
    with statements() as seen:
        marked = await plane.mark(1, *cut)
    assert len(marked) == 1500 and len(plane.commits) == before + 1
    assert len(seen) < 20, [each[0][:80] for each in seen]
    with statements() as seen:
        assert await plane.mark(1, *cut) == []
    assert len(seen) < 5 and not any("UPDATE" in each[0] for each in seen)
    assert (await plane.log.list(ADA, TaskFilter(context_id="c1"))).total == 500


async def test_a_rewind_and_all_that_goes_on_meanwhile_take_effect_one_after_the_other(plane: Plane) -> None:
    """C1, C7: a task has one end, and is hidden whether or not it came first."""
    rows = [await plane.create() for _ in range(12)]
    ends = [plane.append(row, status(COMPLETED), consumed_generation=1) for row in rows[:6]]
    says = [plane.log.submit(plane.saying(row, f"more-{row.id}")) for row in rows[6:9]]
    cancels = [plane.log.submit(commands.Cancel(scope=ADA, task_id=row.id)) for row in rows[9:]]
    await asyncio.gather(
        *ends, *says, plane.mark(1, *[f"{row.id}-i1" for row in rows]), *cancels, return_exceptions=True
    )
    for row in rows:
        now = await plane.check(row)
        ended = [event for event in await plane.all_events(row) if event.state in (COMPLETED, CANCELED)]
        assert now.superseded and len(ended) == 1 and ended[0].generation == now.terminal_generation


async def test_events_know_which_of_them_changed_the_state(plane: Plane) -> None:
    row = await plane.create()
    await plane.append(row, status(WORKING))
    await plane.pause(row)
    await plane.say(row, "i2")
    claimed = await plane.claim(row)
    assert claimed is not None
    await plane.append(row, status(WORKING))
    await plane.append(row, status(WORKING, message("so", "m")))
    await plane.mark(1, "i2")
    changes = [event.changed_to for event in await plane.all_events(row)]
    assert changes == [
        a2a.TASK_STATE_SUBMITTED,
        WORKING,
        None,
        INPUT_REQUIRED,
        a2a.TASK_STATE_SUBMITTED,
        WORKING,
        None,
        CANCELED,
        None,
    ]
