"""Raw SQL that neither a service with a bug nor a person with a shell can run: I1..I14, with legitimate twins.

Longer than most: one test per invariant, in the order of their numbers, so that none is overlooked.
"""

from typing import Any

import pytest
from sqlalchemy import Boolean, Connection, Executable, LargeBinary, Text, delete, insert, update
from sqlalchemy.exc import IntegrityError
from tests.conformance.task_log import Plane, checkpoint, chunk, message, status

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.tasks.domain.kinds import ARTIFACT, MESSAGE, RESTORED, SUPERSEDED
from taskplane.tasks.domain.task import (
    AUTH_REQUIRED,
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    NEXT,
    REJECTED,
    SUBMITTED,
    TERMINAL,
    WORKING,
    Row,
)
from taskplane.tasks.tables import event, lease, task
from taskplane.tasks.triggers import AFTER_THE_END, FIXED, FROZEN_AT_THE_END, GROWING


def _run(conn: Connection, statements: tuple[Executable, ...]) -> None:
    for statement in statements:
        conn.execute(statement)


async def refused(plane: Plane, *statements: Executable) -> None:
    """One transaction of these statements is refused, at the latest when it commits."""
    with pytest.raises(IntegrityError):
        await plane.engine.write(_run, statements)


async def accepted(plane: Plane, *statements: Executable) -> None:
    await plane.engine.write(_run, statements)


def change(row: Row, **values: Any) -> Executable:
    return update(task).where(task.c.uid == row.uid).values(**values)


def record(row: Row, generation: int, **values: Any) -> Executable:
    given: dict[str, Any] = {
        "task_uid": row.uid,
        "generation": generation,
        "fence": row.fence,
        "attempt": 1,
        "kind": ARTIFACT,
        "state": 0,
        "actor": "shell",
        "speaks": False,
        "payload": b"",
        "created_at": 1,
    }
    return insert(event).values(**(given | values))


def forget(row: Row, generation: int) -> Executable:
    return delete(event).where(event.c.task_uid == row.uid, event.c.generation == generation)


def another(row: Row, name: str) -> Any:
    """Some value that this column does not have."""
    now = getattr(row, name)
    match task.c[name].type:
        case Boolean():
            return not now
        case Text():
            return "document" if name == "origin" else f"{now}x"
        case LargeBinary():
            return b"other"
        case _:
            return (now or 0) + 70


async def ended(plane: Plane) -> Row:
    row = await plane.create()
    await plane.append(row, chunk("x"))
    await plane.complete(row)
    return await plane.log.row_by_uid(row.uid)


async def test_i1_a_task_without_its_head_event_is_not_committed(plane: Plane) -> None:
    row = await plane.create()
    await refused(plane, change(row, generation=3))
    await accepted(plane, change(row, generation=3), record(row, 3))
    await refused(plane, insert(task).values(**row._replace(uid="u", id="i")._asdict(), snapshot=b""))


async def test_i2_an_event_follows_its_predecessor_and_lies_not_beyond_the_head(plane: Plane) -> None:
    row = await plane.create()
    await refused(plane, record(row, 3))
    await refused(plane, change(row, generation=4), record(row, 4))
    await refused(plane, change(row, generation=4), record(row, 4), record(row, 3))
    await refused(plane, record(row._replace(uid="nobody"), 1))
    await accepted(plane, change(row, generation=4), record(row, 3), record(row, 4))


async def test_i3_no_generation_is_there_twice(plane: Plane) -> None:
    row = await plane.create()
    await refused(plane, record(row, 2))
    await refused(plane, record(row, 0))
    await accepted(plane, change(row, generation=3), record(row, 3))


async def test_i4_an_event_carries_the_fence_of_its_writer(plane: Plane) -> None:
    row = await plane.create()
    await refused(plane, change(row, generation=3), record(row, 3, fence=2))
    await refused(plane, change(row, generation=3), record(row, 3, fence=0))
    await refused(plane, change(row, generation=3, fence=2), record(row, 3, fence=1))
    item = {"item_fence": 1, "item_number": 1, "item_first": 3, "item_last": 3}
    await accepted(plane, change(row, generation=3, fence=2, **item), record(row, 3, fence=1))
    await accepted(plane, change(row, generation=4), record(row, 4, fence=2))


async def test_i5_events_are_never_rewritten(plane: Plane) -> None:
    row = await plane.create()
    for values in ({"payload": b"x"}, {"generation": 9}, {"fence": 9}, {"actor": "shell"}, {"created_at": 1}):
        await refused(plane, update(event).where(event.c.task_uid == row.uid).values(**values))


async def test_i6_what_has_ended_does_not_change(plane: Plane) -> None:
    row = await ended(plane)
    for name in sorted(FROZEN_AT_THE_END):
        await refused(plane, change(row, **{name: another(row, name)}))
    await refused(plane, change(row, generation=5), record(row, 5))
    await refused(plane, change(row, updated_at=1))
    await refused(plane, change(row, state=WORKING, terminal_generation=None))
    await accepted(plane, change(row, copied_generation=row.generation))
    await accepted(plane, change(row, snapshot=b"", snapshot_bytes=0, folded_bytes=0))
    cache = {"snapshot", "snapshot_generation", "snapshot_bytes", "folded_bytes"}
    assert {"copied_generation", "superseded_seq", "trimmed_generation"} | cache == AFTER_THE_END


async def test_i6_only_an_empty_mark_that_agrees_with_its_task_follows_the_end(plane: Plane) -> None:
    """C7: a rewind hides an ended task and an undo shows it again, and neither says anything about the task."""
    row = await ended(plane)
    at = row.generation + 1
    hidden = change(row, generation=at, superseded=True, superseded_seq=7, updated_at=9)
    await refused(plane, hidden)
    await refused(plane, hidden, record(row, at))
    await refused(plane, hidden, record(row, at, kind=RESTORED))
    for content in (
        {"payload": b"x"},
        {"state": COMPLETED},
        {"changed_to": COMPLETED},
        {"artifact_id": "a"},
        {"tenant": "", "owner": "ada", "invocation_id": "i9", "request_hash": b"h"},
    ):
        await refused(plane, hidden, record(row, at, kind=SUPERSEDED, **content))
    await refused(plane, change(row, generation=at, superseded=True), record(row, at, kind=SUPERSEDED))
    await refused(plane, change(row, generation=at, superseded_seq=7), record(row, at, kind=SUPERSEDED))
    both = record(row, at, kind=SUPERSEDED), record(row, at + 1, kind=SUPERSEDED)
    await refused(plane, change(row, generation=at + 1, superseded=True, superseded_seq=7), *both)
    await refused(plane, change(row, superseded=True, superseded_seq=7))
    await accepted(plane, hidden, record(row, at, kind=SUPERSEDED))
    shown = change(row, generation=at + 1, superseded=False, superseded_seq=8)
    await refused(plane, shown, record(row, at + 1, kind=SUPERSEDED))
    await accepted(plane, shown, record(row, at + 1, kind=RESTORED))


async def test_i6_a_mark_has_its_event_and_what_belongs_to_no_turn_has_none(plane: Plane) -> None:
    row = await plane.create()
    await refused(plane, change(row, superseded=True, superseded_seq=1))
    await refused(plane, change(row, generation=3), record(row, 3, kind=SUPERSEDED))
    await accepted(plane, change(row, generation=3, superseded=True, superseded_seq=1), record(row, 3, kind=SUPERSEDED))
    document = (await plane.put("doc", "one")).row
    mark = {"generation": 2, "superseded": True, "superseded_seq": 1}
    await refused(plane, change(document, invocation_id=None, **mark), record(document, 2, kind=SUPERSEDED))
    await accepted(plane, change(document, invocation_id="i1", **mark), record(document, 2, kind=SUPERSEDED))
    shown = {"generation": 4, "superseded": False}
    for same in ({}, {"superseded_seq": 1}):
        await refused(plane, change(row, **shown, **same), record(row, 4, kind=RESTORED))
    shown = {"generation": 3, "superseded": False}
    for other in ({"invocation_id": "i2"}, {"context_id": "elsewhere"}):
        await refused(plane, change(document, superseded=False, **other))
    await accepted(plane, change(document, **shown, invocation_id="i2"), record(document, 3, kind=RESTORED))


async def test_i6_a_task_has_ended_exactly_when_it_says_at_which_event(plane: Plane) -> None:
    row = await plane.create()
    rest = {"lease_owner": None, "generation": 3}
    await refused(plane, change(row, state=FAILED, **rest), record(row, 3))
    await refused(plane, change(row, terminal_generation=2))
    await accepted(plane, change(row, state=FAILED, terminal_generation=3, **rest), record(row, 3))


async def test_i7_identities_are_fixed_and_counters_never_shrink(plane: Plane) -> None:
    row = await plane.create()
    await plane.say(row, "i2")
    await plane.append(row, status(WORKING, message("so", "m2")), checkpoint(b"{}"), copied_generation=2)
    row = await plane.log.row_by_uid(row.uid)
    for name in sorted(FIXED | {"invocation_id"}):
        await refused(plane, change(row, **{name: another(row, name)}))
        await accepted(plane, change(row, **{name: getattr(row, name)}))
    for name in sorted(GROWING):
        await refused(plane, change(row, **{name: getattr(row, name) - 1}))
        await accepted(plane, change(row, **{name: getattr(row, name)}))


async def test_i7_a_state_changes_with_a_new_generation_only(plane: Plane) -> None:
    row = await plane.queued()
    await refused(plane, change(row, state=WORKING))
    await accepted(plane, change(row, state=WORKING, generation=2), record(row, 2))


@pytest.mark.parametrize("state", [COMPLETED, INPUT_REQUIRED, AUTH_REQUIRED])
async def test_i8_no_task_rests_before_it_has_read_what_was_said(plane: Plane, state: int) -> None:
    row = await plane.create()
    end = 3 if state == COMPLETED else None
    rest = {"lease_owner": None, "generation": 3, "fence": 2, "terminal_generation": end}
    await refused(plane, change(row, state=state, **rest), record(row, 3, fence=2))
    await accepted(plane, change(row, state=state, consumed_generation=1, **rest), record(row, 3, fence=2))


async def test_i9_no_mark_lies_beyond_the_head(plane: Plane) -> None:
    row = await plane.create()
    for name in (
        "input_generation",
        "consumed_generation",
        "message_generation",
        "copied_generation",
        "snapshot_generation",
        "partial_generation",
    ):
        await refused(plane, change(row, **{name: 3}))
        await accepted(plane, change(row, **{name: 2}))


async def test_i10_events_of_a_live_task_stay(plane: Plane) -> None:
    row = await plane.create()
    await plane.append(row, chunk("x"))
    for generation in (1, 2, 3):
        await refused(plane, forget(row, generation))
    await refused(plane, delete(task).where(task.c.uid == row.uid))
    await refused(plane, delete(event).where(event.c.task_uid == row.uid), delete(task).where(task.c.uid == row.uid))


async def test_i10_of_an_ended_task_the_head_stays_and_what_the_snapshot_lacks(plane: Plane) -> None:
    row = await ended(plane)
    await refused(plane, forget(row, row.generation))
    await refused(plane, forget(row, 3))
    await refused(plane, change(row, trimmed_generation=3))
    await refused(plane, change(row, copied_generation=4, trimmed_generation=4))
    await accepted(plane, change(row, copied_generation=4, trimmed_generation=3))
    await refused(plane, change(row, trimmed_generation=2))
    for lasting in (1, 2, row.generation):
        await refused(plane, forget(row, lasting))
    await accepted(plane, forget(row, 3))
    await accepted(plane, delete(task).where(task.c.uid == row.uid), delete(event).where(event.c.task_uid == row.uid))


async def test_i10_only_trimmed_counters_of_a_document_go(plane: Plane) -> None:
    document = (await plane.put("doc", "one")).row
    for text in ("two", "three"):
        await plane.put("doc", text)
    await refused(plane, change(document, trimmed_generation=3))
    await refused(plane, forget(document, 2))
    await accepted(plane, change(document, trimmed_generation=2))
    await refused(plane, forget(document, 3))
    await refused(plane, forget(document, 1))
    await accepted(plane, forget(document, 2))
    await accepted(plane, delete(task).where(task.c.uid == document.uid))


async def test_i10_the_log_of_a_live_task_is_not_trimmed(plane: Plane) -> None:
    row = await plane.create()
    await plane.append(row, chunk("x"), chunk("y"))
    await refused(plane, change(row, trimmed_generation=2))
    await refused(plane, change(row, trimmed_generation=2, snapshot_generation=4, copied_generation=4))
    await plane.pause(row)
    await refused(plane, change(row, trimmed_generation=2, snapshot_generation=4, copied_generation=5))


async def test_i10_an_event_beyond_the_snapshot_stays(plane: Plane) -> None:
    row = await plane.create()
    end = {"state": FAILED, "terminal_generation": 4, "generation": 4, "lease_owner": None}
    await accepted(plane, change(row, **end), record(row, 3), record(row, 4))
    await refused(plane, forget(row, 3))
    await refused(plane, change(row, copied_generation=4, trimmed_generation=3))
    whole = {"snapshot_generation": 4, "copied_generation": 4}
    await accepted(plane, change(row, trimmed_generation=3, **whole), forget(row, 3))
    # I2: nothing but what was trimmed may be missing before an event.
    other = await plane.create()
    await refused(plane, change(other, generation=4), record(other, 4))
    await accepted(plane, record(row, 3))


async def test_i11_an_item_counts_once_and_under_the_fence_of_the_row_only(plane: Plane) -> None:
    row = await plane.create()
    await plane.append(row, chunk("x"))
    await plane.append(row, chunk("x"))
    await refused(plane, change(row, item_number=1))
    await refused(plane, change(row, item_number=None))
    await refused(plane, change(row, item_fence=None, item_number=None))
    await refused(plane, change(row, item_fence=2, item_number=1))
    await refused(plane, change(row, item_fence=2, item_number=1, fence=2))
    await refused(plane, change(row, item_fence=0, item_number=9))
    await accepted(plane, change(row, item_fence=1, item_number=3))
    await accepted(plane, change(row, fence=2))
    await refused(plane, change(row, item_number=4))
    await accepted(plane, change(row, item_fence=2, item_number=1))


async def test_i11_whoever_loses_a_lease_is_fenced_in_the_same_change(plane: Plane) -> None:
    row = await plane.create()
    await refused(plane, change(row, lease_owner=None))
    await refused(plane, change(row, lease_owner="thief"))
    await accepted(plane, change(row, lease_owner=None, fence=2))


async def test_i11_a_lease_is_made_for_the_fence_of_its_task_and_goes_with_it(plane: Plane) -> None:
    """C8: it changes its end only, and that never to an earlier time while other stores may have a part in it."""
    row, queued = await plane.create(lease_until=50), await plane.queued()
    for owner, fence in (("p1", 0), ("p1", 1)):
        await refused(plane, insert(lease).values(task_uid=queued.uid, owner=owner, fence=fence, lease_until=1))
    running = change(queued, lease_owner="p1", fence=1, ready_at=None)
    taken = {"task_uid": queued.uid, "owner": "p1", "fence": 1, "lease_until": 1}
    for wrong in ({"owner": "p2"}, {"fence": 2}):
        await refused(plane, running, insert(lease).values(**(taken | wrong)))
    await accepted(plane, running, insert(lease).values(**taken))
    of_row = update(lease).where(lease.c.task_uid == row.uid)
    for values in ({"owner": "p2"}, {"fence": 2}, {"task_uid": "other"}):
        await refused(plane, of_row.values(**values))
    await accepted(plane, of_row.values(lease_until=60))
    await (accepted if plane.engine.dialect.alone else refused)(plane, of_row.values(lease_until=59))
    gone = delete(lease).where(lease.c.task_uid == row.uid)
    await refused(plane, gone)
    await refused(plane, gone, change(row, lease_owner=None, fence=2))
    await accepted(plane, change(row, lease_owner=None, fence=2), gone)


async def test_i12_a_turn_is_recorded_once_per_owner_and_for_the_owner_of_its_task(plane: Plane) -> None:
    row, other = await plane.create(), await plane.create()
    turn = {"tenant": "", "owner": "ada", "invocation_id": "i9", "request_hash": b"h", "kind": MESSAGE}
    for task_of in (row, other):
        await refused(plane, change(task_of, generation=3), record(task_of, 3, **(turn | {"invocation_id": "t1-i1"})))
        await refused(plane, change(task_of, generation=3), record(task_of, 3, **(turn | {"owner": "bob"})))
        await refused(plane, change(task_of, generation=3), record(task_of, 3, **(turn | {"request_hash": None})))
    await accepted(plane, change(row, generation=3), record(row, 3, **turn))
    await refused(plane, change(other, generation=3), record(other, 3, **turn))


async def test_i13_an_id_is_there_once_per_tenant(plane: Plane) -> None:
    row = await plane.create()
    twin = row._replace(uid="u", generation=1, message_generation=1, input_generation=1)._asdict() | {"snapshot": b""}
    first = record(row._replace(uid="u"), 1)
    await refused(plane, insert(task).values(**twin), first)
    await refused(plane, insert(task).values(**(twin | {"owner": "bob"})), first)
    await accepted(plane, insert(task).values(**(twin | {"tenant": "other"})), first)


STATES = [SUBMITTED, WORKING, INPUT_REQUIRED, AUTH_REQUIRED, COMPLETED, FAILED, CANCELED, REJECTED]


async def test_i14_states_follow_one_another_as_the_rules_say(plane: Plane) -> None:
    """Every pair of states, against the table NEXT; the way back to the queue only for a task that is queued."""
    for old in STATES:
        for new in STATES:
            if new == old:
                continue
            row = await plane.create()
            if old == SUBMITTED:
                row = await plane.queued()
            elif old != WORKING:
                answer = await plane.append(row, status(old), consumed_generation=1) if old != CANCELED else None
                if answer is None:
                    await plane.cancel(row)
                else:
                    assert answer.refusal is None
            row = await plane.log.row_by_uid(row.uid)
            values: dict[str, Any] = {
                "state": new,
                "generation": row.generation + 1,
                "fence": row.fence + 1,
                "consumed_generation": 1,
                "lease_owner": None,
                "ready_at": None,
                "terminal_generation": row.generation + 1 if new in TERMINAL else None,
            }
            step = change(row, **values), record(row, row.generation + 1, fence=row.fence + 1)
            if new in NEXT[old]:
                await accepted(plane, *step)
            else:
                await refused(plane, *step)
                if (old, new) == (WORKING, SUBMITTED):
                    queued = change(row, **(values | {"ready_at": 1}))
                    await accepted(plane, queued, step[1])


async def test_a_task_is_queued_or_leased_and_neither_at_rest(plane: Plane) -> None:
    """C8: the shape of a lease."""
    running, waiting = await plane.create(), await plane.queued()
    await refused(plane, change(running, ready_at=1))
    await refused(plane, change(waiting, lease_owner="p"))
    done = await ended(plane)
    await refused(plane, change(done, ready_at=1))
    document = (await plane.put("doc", "x")).row
    await refused(plane, change(document, ready_at=1))
    await refused(plane, change(document, fence=1))
    await accepted(plane, change(document, state=a2a.TASK_STATE_COMPLETED, generation=2), record(document, 2, fence=0))
