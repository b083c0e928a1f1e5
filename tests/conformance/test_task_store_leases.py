"""Leases: one holder at a time, fenced as soon as it is none, and what becomes of a task that lost it. C8, C9."""

import asyncio

import pytest
from sqlalchemy import select
from tests.conformance.task_log import ADA, HOUR, Plane, chunk, message, only, status

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Refused
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.fold import LOST_MESSAGES
from taskplane.tasks.domain.task import FAILED, SUBMITTED, WORKING, Lease, Row
from taskplane.tasks.store import Renewed
from taskplane.tasks.tables import executor

RERUN = int(pb.ON_ORPHAN_RERUN)


async def test_a_queued_task_is_claimed_once(plane: Plane) -> None:
    """C8: of many claimants one gets the lease, with a new fence. The others get no lease and no error."""
    row = await plane.queued()
    answers = await asyncio.gather(*(plane.claim(row, f"p{number}") for number in range(8)))
    (claimed,) = [answer for answer in answers if answer is not None]
    assert (claimed.fence, claimed.attempt, claimed.started, claimed.ready_at) == (1, 1, False, None)
    assert claimed.generation == row.generation
    assert await plane.claim(row) is None


async def test_the_queue_lists_claimable_tasks_oldest_first(plane: Plane) -> None:
    """C8: tasks of the requested agents that are not leased, not at rest, and not waiting for a further attempt."""
    first = await plane.queued()
    second = await plane.queued()
    await plane.queued(agent="other")
    running = await plane.create()
    assert (await plane.log.claimable(["demo"], 10)).uids == [first.uid, second.uid]
    assert (await plane.log.claimable(["demo"], 1)).uids == [first.uid]
    assert len((await plane.log.claimable(["demo", "other"], 10)).uids) == 3
    assert (await plane.log.claimable([], 10)).uids == ()
    await plane.claim(first)
    assert (await plane.log.claimable(["demo"], 10)).uids == [second.uid]
    assert [lease.task_uid for lease in await plane.log.held("p1")] == [running.uid]


async def test_a_renewal_extends_the_lease_of_its_holder_only(plane: Plane) -> None:
    """C8: also an expired lease that nobody has taken. The answer reports a new message of the user."""
    row = await plane.create(lease_until=1)
    assert [each.task_uid for each in await plane.log.expired(10)] == [row.uid]
    added = await plane.say(row, "i2")
    lost = Renewed(still_yours=False)
    assert await plane.renew(row._replace(fence=2), row._replace(uid="nobody"), row._replace(uid="\0")) == [lost] * 3
    assert await plane.renew(row, process="p2") == await plane.renew(row, process="p\0") == [lost]
    assert [each.task_uid for each in await plane.log.expired(10)] == [row.uid]
    other = await plane.create()
    yours = [Renewed(True, 1), Renewed(True, added.generation), lost]
    assert await plane.renew(other, row, other._replace(fence=9)) == yours
    assert await plane.log.expired(10) == []
    assert await plane.renew() == []


async def test_no_renewal_makes_a_lease_end_sooner(plane: Plane) -> None:
    """C8: a store that was stopped in the midst of a renewal carries it out late."""
    row = await plane.create(lease_until=1)
    await plane.log.announce("p1", 1, 100)
    for until, ends in ((50, 50), (20, 50), (80, 80)):
        assert await plane.renew(row, until=until) == [Renewed(True, 1)]
        assert await plane.until(row) == ends
    now = await plane.log.now()
    await plane.renew(until=now + HOUR)
    await plane.renew(row, until=90)
    assert await plane.log.loads(["p1"]) == {"p1": {("", "ada"): 1}}


@pytest.mark.parametrize("loss", ["cancel", "pause", "complete", "delete", "orphan", "rewind"])
async def test_the_end_of_a_run_removes_its_lease(plane: Plane, loss: str) -> None:
    """C8: in the same transaction, so the lease neither expires nor counts any more."""
    row, other = await plane.create(on_orphan=RERUN, context_id="other"), await plane.create()
    match loss:
        case "cancel":
            await plane.cancel(row)
        case "pause":
            await plane.pause(row)
        case "complete":
            await plane.complete(row)
        case "delete":
            await plane.log.submit(commands.Delete(scope=ADA, task_id=row.id))
        case "orphan":
            await plane.orphan(row)
        case _:
            await plane.mark(1, f"{row.id}-i1", context_id="other")
    assert [lease.task_uid for lease in await plane.log.held()] == [other.uid]
    assert await plane.renew(row, other) == [Renewed(still_yours=False), Renewed(True, 1)]
    assert await plane.log.lease_left(row.uid, 1) == 0.0
    if loss == "orphan":
        again = await plane.claim(row, "p1")
        assert again is not None and await plane.renew(row, again) == [Renewed(still_yours=False), Renewed(True, 1)]


async def test_every_commit_names_the_earlier_holder_of_the_lease(plane: Plane) -> None:
    """C8, C11: so that the holder can be notified."""
    row = await plane.create()
    await plane.say(row, "i2")
    await plane.cancel(row)
    await plane.log.submit(commands.Delete(scope=ADA, task_id=row.id))
    told = [change.holder for commit in plane.commits for change in (*commit.changes, *commit.deleted)]
    assert told == [None, "p1", "p1", None]


async def test_the_loads_of_living_processes_are_read_from_the_database(plane: Plane) -> None:
    """C8: a process is alive for the time of a lease after its last renewal or announcement. A lease alone does not
    make it alive."""
    now = await plane.log.now()
    await plane.create(claim_for="silent")
    await plane.log.announce("idle", now + HOUR, 100)
    await plane.log.announce("dead", now - 1, 100)
    row = await plane.create(claim_for="dead")
    await plane.create(claim_for="dead")
    names = ["idle", "dead", "silent", "unheard", "idle"]
    assert await plane.log.loads(names) == {"idle": {}}
    assert await plane.renew(row, process="dead") == [Renewed(True, 1)]
    assert await plane.log.loads(names) == {"idle": {}, "dead": {("", "ada"): 2}}
    await plane.log.announce("idle", now, 100)
    assert await plane.log.loads(["idle"]) == {"idle": {}}
    assert await plane.log.loads([]) == {}
    await plane.log.announce("p\0", now + HOUR, 100)


async def test_an_agent_is_unserved_when_no_living_process_runs_it(plane: Plane) -> None:
    """C8: a dead process and one without slots do not count; one that did not say which agents may run all of them."""
    asked = ["far", "near"]
    assert await plane.log.unserved(asked) == {"far", "near"}
    now = await plane.log.now()
    await plane.log.announce("alive", now + HOUR, 100, ["near", "Far", 'a "name", \u00fc'])
    await plane.log.announce("full of cards", now + HOUR, 0, ["far"])
    await plane.log.announce("dead", now - 1, 100, ["far"])
    assert await plane.log.unserved(asked) == {"far"}
    assert await plane.log.unserved(['a "name", \u00fc']) == frozenset()
    await plane.log.renew("dead", [], now + HOUR)
    assert await plane.log.unserved(asked) == frozenset()
    await plane.log.announce("dead", now + HOUR, 100, ["other"])
    assert await plane.log.unserved(asked) == {"far"}
    await plane.log.announce("silent", now + HOUR, 100)
    assert await plane.log.unserved(asked) == frozenset()


async def test_a_process_with_too_many_agents_counts_as_running_any(plane: Plane) -> None:
    """C8: the stored list stays small, since each renewal writes it again."""
    until = await plane.log.now() + HOUR
    await plane.log.announce("large", until, 100, [f"{number:0200}" for number in range(200)])
    assert await plane.log.unserved(["far"]) == frozenset()
    kept = await plane.engine.read(lambda conn: conn.execute(select(executor.c.agents)).scalars().all())
    assert kept == [None]


async def test_processes_that_are_long_dead_are_forgotten(plane: Plane) -> None:
    """C8: their number does not grow for ever."""
    now = await plane.log.now()
    for number in range(3):
        await plane.log.announce(f"p{number}", now - 2 * HOUR, 100)
    await plane.log.announce("new", now + HOUR, 100)
    assert await plane.engine.read(lambda conn: conn.execute(select(executor.c.process_id)).scalars().all()) == ["new"]


async def test_the_remaining_time_of_a_lease(plane: Plane) -> None:
    """C10: 0 for another fence and for a lost lease."""
    now = await plane.log.now()
    row = await plane.create(lease_until=now + HOUR)
    assert 3500 < await plane.log.lease_left(row.uid, 1) <= 3600
    assert await plane.log.lease_left(row.uid, 2) == await plane.log.lease_left("nobody", 1) == 0.0
    over = await plane.create(lease_until=now - 1)
    assert await plane.log.lease_left(over.uid, 1) == 0.0


async def test_a_renewal_at_the_end_of_a_lease_and_the_sweep_agree(plane: Plane) -> None:
    """C8: one of them has the lease, and no run is told that it goes on which does not."""

    async def sweep(row: Row, now: int) -> Row | None:
        return await plane.orphan(row, expired_before=now)

    async def renew(row: Row, now: int) -> bool | None:
        (renewed,) = await plane.renew(row, until=now + HOUR)
        return renewed.still_yours

    for number in range(40):
        row = await plane.create(lease_until=1)
        now = await plane.log.now()
        if number % 2:
            swept, renewed = await asyncio.gather(sweep(row, now), renew(row, now))
        else:
            renewed, swept = await asyncio.gather(renew(row, now), sweep(row, now))
        assert (swept is None) == (renewed is True)
        (after,) = await plane.renew(row)
        assert after.still_yours == (swept is None)
        assert (await plane.log.row_by_uid(row.uid)).lease_owner == ("p1" if swept is None else None)


async def test_a_lease_that_is_not_renewed_expires_by_the_clock_of_the_store(plane: Plane) -> None:
    """C8: the sweep finds those that ran out, the oldest first, and no other."""
    now = await plane.log.now()
    later = await plane.create(lease_until=now - 1)
    sooner = await plane.create(lease_until=now - 2)
    await plane.create(lease_until=now + HOUR)
    await plane.queued()
    assert [lease.task_uid for lease in await plane.log.expired(10)] == [sooner.uid, later.uid]
    assert [lease.task_uid for lease in await plane.log.expired(1)] == [sooner.uid]


async def test_a_lease_renewed_since_the_sweep_read_it_is_not_taken(plane: Plane) -> None:
    """C8: the sweep's word is old by the time it is carried out."""
    now = await plane.log.now()
    row = await plane.create(lease_until=now - 1)
    assert await plane.orphan(row, expired_before=now - 2) is None
    await plane.renew(row)
    assert await plane.orphan(row, expired_before=now) is None
    assert (await plane.log.row_by_uid(row.uid)).lease_owner == "p1"


async def test_a_task_lost_after_it_began_fails_by_default(plane: Plane) -> None:
    """C9: with the reason, and its process is fenced."""
    row = await plane.create()
    await plane.append(row, chunk("half"), status(WORKING, message("so f", "m2", partial=True)))
    item = await plane.item(row, chunk("zombie"))
    failed = await plane.orphan(row)
    assert failed is not None and (failed.state, failed.fence, failed.lease_owner) == (FAILED, 2, None)
    _, task = await plane.log.get(ADA, row.id)
    assert task.status.message.metadata.fields["reason"].string_value == "EXECUTOR_LOST"
    assert [each.parts[0].text for each in task.history if each.message_id == "m2"] == ["so f"]
    zombie = only(commands.Appended, await plane.log.submit(item)).refusal
    assert isinstance(zombie, Refused) and zombie.reason == "TERMINAL"
    await plane.check(row)


async def test_the_final_message_of_a_lost_run_belongs_to_its_newest_turn(plane: Plane) -> None:
    """C9, R1: the message has the invocation of the user's newest message, not of the message that created the task."""
    row = await plane.create()
    await plane.pause(row)
    await plane.say(row, "second")
    claimed = await plane.claim(row)
    assert claimed is not None
    await plane.append(claimed, status(WORKING))
    assert await plane.orphan(claimed) is not None
    _, task = await plane.log.get(ADA, row.id)
    assert task.status.state == FAILED
    assert task.status.message.metadata.fields["kagent_invocation_id"].string_value == "second"


async def test_a_task_lost_before_it_began_is_queued_silently(plane: Plane) -> None:
    """C9: no event, a new fence, and the next claim is the next attempt."""
    row = await plane.queued()
    await plane.claim(row)
    requeued = await plane.orphan(row)
    assert requeued is not None and (requeued.generation, requeued.fence, requeued.attempt) == (1, 2, 1)
    assert (await plane.log.claimable(["demo"], 10)).uids == [row.uid]
    again = await plane.claim(row, "p3")
    assert again is not None and (again.fence, again.attempt) == (3, 2)
    await plane.check(row)


async def test_a_task_declared_safe_to_run_again_is_queued_anew(plane: Plane) -> None:
    """C9: watchers are told, its artifacts start anew, and what the lost attempt said is marked."""
    row = await plane.create(on_orphan=RERUN)
    await plane.append(row, chunk("lost"), status(WORKING, message("I know", "m2")))
    await plane.append(row, status(WORKING, message("let me se", "m3", partial=True)))
    requeued = await plane.orphan(row)
    assert requeued is not None and (requeued.state, requeued.fence) == (SUBMITTED, 2)
    assert (await plane.log.claimable(["demo"], 10)).uids == [row.uid]
    _, task = await plane.log.get(ADA, row.id)
    assert len(task.artifacts) == 0
    said = {each.message_id: each.metadata.fields for each in (*task.history, task.status.message)}
    assert "taskplane.dev/lost_attempt" in said["m2"] and "interrupted" in said["m3"]
    await plane.check(row)
    claimed = await plane.claim(row, "p3")
    assert claimed is not None and claimed.attempt == 2
    assert (await plane.append(row, status(WORKING), chunk("again"))).refusal is None
    await plane.check(row)


async def test_each_lost_attempt_marks_its_own_messages_only(plane: Plane) -> None:
    """C9: neither messages of the user nor messages of an earlier attempt."""
    row = await plane.create(on_orphan=RERUN)
    await plane.append(row, status(WORKING, message("first", "m2")))
    await plane.orphan(row)
    await plane.claim(row)
    await plane.say(row, "i2")
    await plane.append(row, status(WORKING, message("second", "m3")))
    await plane.orphan(row)
    lost: list[list[str]] = []
    for event in await plane.all_events(row):
        fields = a2a.StreamResponse.FromString(event.payload).status_update.metadata.fields
        if LOST_MESSAGES in fields:
            lost.append([value.string_value for value in fields[LOST_MESSAGES].list_value.values])
    assert lost == [["m2"], ["m3"]]
    await plane.check(row)


async def test_a_task_that_kills_its_processes_ends(plane: Plane) -> None:
    """C9: after `max_attempts` it fails, and between attempts it backs off; never a hot loop."""
    row = await plane.create(on_orphan=RERUN, max_attempts=2)
    assert await plane.orphan(row) is not None
    claimed = await plane.claim(row)
    assert claimed is not None and claimed.attempt == 2
    failed = await plane.orphan(row)
    assert failed is not None and failed.state == FAILED
    _, task = await plane.log.get(ADA, row.id)
    assert task.status.message.metadata.fields["reason"].string_value == "POISON"
    await plane.check(row)


async def test_later_attempts_wait_and_a_released_one_does_not_count(plane: Plane) -> None:
    """C9: the second requeue backs off; giving up a lease on purpose costs no attempt."""
    row = await plane.create(on_orphan=RERUN, max_attempts=3)
    released = await plane.orphan(row, released=True)
    assert released is not None and released.attempt == 0
    before = ready_at = 0
    for attempt in (1, 2):
        claimed = await plane.claim(row)
        assert claimed is not None and claimed.attempt == attempt
        before = await plane.log.now()
        requeued = await plane.orphan(row)
        assert requeued is not None and requeued.ready_at is not None
        ready_at = requeued.ready_at
    assert ready_at >= before + 750_000
    taken = (await plane.log.claimable(["demo"], 10)).uids, await plane.claim(row)
    # Unless it has waited long enough by now.
    assert taken == ([], None) or await plane.log.now() >= ready_at


async def test_a_lost_lease_is_given_up_once(plane: Plane) -> None:
    """C9: two sweeps, or a sweep and a release, do it once."""
    row = await plane.create(on_orphan=RERUN)
    op = commands.Orphan(task_uid=row.uid, process_id="p1", fence=1)
    answers = await plane.log.submit_all([op, op])
    assert [type(answer) for answer in answers] == [commands.Done, type(None)]
    await plane.check(row)


async def test_the_successor_writes_and_the_zombie_does_not(plane: Plane) -> None:
    """C8: after a takeover nothing of the former holder is accepted, whatever number it gives its items."""
    row = await plane.create(on_orphan=RERUN)
    zombies = [await plane.item(row, chunk("zombie"), number=number) for number in (1, 2, 9)]
    await plane.orphan(row)
    await plane.claim(row, "p3")
    for zombie in zombies:
        refused = only(commands.Appended, await plane.log.submit(zombie)).refusal
        assert isinstance(refused, Refused) and refused.reason == "FENCED"
    assert (await plane.append(row, status(WORKING))).refusal is None
    await plane.check(row)


async def test_the_clock_of_leases_moves_forward(plane: Plane) -> None:
    """C8: microseconds of the store's own clock, close to what it stamps on rows."""
    before = await plane.log.now()
    row = await plane.create()
    after = await plane.log.now()
    assert before - 2_000_000 <= row.created_at <= after + 2_000_000


async def test_held_names_the_leases_of_one_process_or_of_all(plane: Plane) -> None:
    """C8: run out or not; what a restarted store asks."""
    first = await plane.create(claim_for="p1", lease_until=1)
    second = await plane.create(claim_for="p2")
    await plane.queued()
    assert await plane.log.held("p1") == [Lease(first.uid, "p1", 1, 1)]
    assert {lease.task_uid for lease in await plane.log.held()} == {first.uid, second.uid}
    assert await plane.log.held("p\0") == []
