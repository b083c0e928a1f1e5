"""Promises of TaskQueue: who runs what, for how long, what they are told, and what is taken back."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final, Protocol, cast

import pytest
from tests.tasks.plane import (
    ANN,
    FAILED,
    INPUT_REQUIRED,
    WORKING,
    Plane,
    Run,
    creation,
    eventually,
    follow_up,
    message,
    opened,
    status,
)

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Conflict, PermissionDenied
from taskplane.storage.engine import open_engine
from taskplane.tasks.queue import RESIDENT
from taskplane.tasks.sql import SqlTaskLog

SUBMITTED: Final = a2a.TASK_STATE_SUBMITTED


class Claiming(Protocol):
    """A claim stream as its client holds it."""

    async def __anext__(self) -> pb.ClaimResponse: ...
    def cancel(self) -> bool: ...


class Executor:
    """An executor process: a claim stream, and renewals of what it was given."""

    def __init__(
        self, plane: Plane, process_id: str, agents: Sequence[str], kind: str = "inprocess", **of_request: Any
    ) -> None:
        self.plane = plane
        self.process_id = process_id
        request = pb.ClaimRequest(process_id=process_id, agents=agents, **of_request)
        self.stream = cast("Claiming", plane.queue(kind=kind).Claim(request))

    async def assigned(self) -> pb.Assignment:
        """The next task; hints are passed over."""
        while True:
            response = await asyncio.wait_for(anext(self.stream), 30.0)
            if response.HasField("assignment"):
                return response.assignment

    async def assigned_while_renewing(self, *leases: pb.Lease) -> pb.Assignment:
        """The next task; renews at every sign of life of the store."""
        while True:
            await self.renew(*leases)
            response = await asyncio.wait_for(anext(self.stream), 30.0)
            if response.HasField("assignment"):
                return response.assignment

    async def told_to_renew(self) -> None:
        """Returns at the next hint to renew now."""
        while not (await asyncio.wait_for(anext(self.stream), 30.0)).hint.now:
            pass

    async def renew(self, *leases: pb.Lease) -> pb.RenewResponse:
        return await self.plane.queue().Renew(pb.RenewRequest(process_id=self.process_id, leases=leases))

    async def release(self, *leases: pb.Lease) -> None:
        await self.plane.queue().Release(pb.ReleaseRequest(process_id=self.process_id, leases=leases))


async def connected(
    plane: Plane,
    process_id: str = "p1",
    agents: Sequence[str] = ("demo",),
    *,
    kind: str = "inprocess",
    capacity: int = 10,
    **of_request: Any,
) -> Executor:
    """An executor that the store knows by now."""
    executor = Executor(plane, process_id, agents, kind, capacity=capacity, **of_request)
    assert (await anext(executor.stream)).HasField("hint")
    return executor


def lease(run: Run) -> pb.Lease:
    return pb.Lease(task_uid=run.uid, fence=run.fence)


def given(assignment: pb.Assignment) -> pb.Lease:
    return pb.Lease(task_uid=assignment.record.uid, fence=assignment.fence)


@pytest.mark.parametrize("kind", ["inprocess", "socket"])
async def test_a_queued_task_is_assigned_with_a_lease(plane: Plane, kind: str) -> None:
    """C8: fence, attempt and head generation come with it; the run can append under it at once."""
    executor = await connected(plane, kind=kind)
    run = await plane.create()
    assignment = await executor.assigned()
    assert assignment.record.uid == run.uid
    assert (assignment.fence, assignment.record.attempt, assignment.record.generation) == (1, 1, 1)
    run.fence = assignment.fence
    assert not (await run.append(status(WORKING))).HasField("refusal")
    executor.stream.cancel()


async def test_a_task_that_waited_is_assigned_to_the_first_executor_that_serves_its_agent(plane: Plane) -> None:
    run = await plane.create(agent="rare")
    other = await connected(plane, "p1", ["demo"])
    executor = await connected(plane, "p2", ["rare", "demo"])
    assert (await executor.assigned()).record.uid == run.uid
    assert (await other.renew(pb.Lease(task_uid=run.uid, fence=1))).leases[0].still_yours is False


async def test_an_executor_gets_at_most_as_many_tasks_as_it_has_free_slots(plane: Plane) -> None:
    """Used slots are its leases, those of `claim_for` included. A freed slot is used at once."""
    held = await plane.create(working=True)
    executor = await connected(plane, capacity=3)
    runs = [await plane.create() for _ in range(4)]
    first, second = await executor.assigned(), await executor.assigned()
    assert [first.record.uid, second.record.uid] == [run.uid for run in runs[:2]]
    waiting = asyncio.ensure_future(executor.assigned())
    done = await asyncio.wait({waiting}, timeout=0.5)
    assert not done[0]
    await held.complete()
    assert (await waiting).record.uid == runs[2].uid


async def test_a_task_queued_at_this_store_is_assigned_at_once(url: str) -> None:
    """A new task, a freed slot and an answered pause, without a poll."""
    async with opened(url, lease_ttl=60.0, poll_every=60.0) as plane:
        held = await plane.create(working=True)
        executor = await connected(plane, capacity=2)
        await plane.create()
        await executor.assigned()
        waiting = await plane.create()
        await held.append(status(INPUT_REQUIRED, message("which?", a2a.ROLE_AGENT)))
        assignment = await executor.assigned()
        assert assignment.record.uid == waiting.uid
        waiting.fence = assignment.fence
        await plane.store().AddMessage(follow_up(held.id))
        await waiting.append(status(WORKING))
        await waiting.complete()
        assert (await executor.assigned()).record.uid == held.uid
        executor.stream.cancel()


async def test_tasks_are_spread_over_executors_by_their_room(plane: Plane) -> None:
    executors = [await connected(plane, f"p{index}", capacity=2) for index in range(3)]
    runs = [await plane.create() for _ in range(6)]
    uids = [(await executor.assigned()).record.uid for executor in executors for _ in range(2)]
    assert sorted(uids) == sorted(run.uid for run in runs)


async def test_every_queued_task_is_assigned_exactly_once(plane: Plane) -> None:
    """C8: two hundred tasks, four executors, no task twice."""
    one: dict[str, Any] = {"shared_by": pb.SHARED_BY_ONE}
    executors = [await connected(plane, f"p{index}", capacity=50, **one) for index in range(4)]
    created = await asyncio.gather(*(plane.create() for _ in range(200)))
    uids: list[str] = []
    for executor in executors:
        uids.extend([(await executor.assigned()).record.uid for _ in range(50)])
    assert sorted(uids) == sorted(run.uid for run in created)


async def test_a_second_stream_of_a_process_replaces_the_first(plane: Plane) -> None:
    """C8: the first ends ABORTED, and no lease is lost."""
    first = await connected(plane)
    run = await plane.create()
    assignment = await first.assigned()
    second = await connected(plane)
    with pytest.raises(Conflict) as refused:
        await anext(first.stream)
    assert refused.value.reason == "REPLACED"
    assert (await second.renew(given(assignment))).leases[0].still_yours
    await plane.store().CancelTask(pb.CancelTaskRequest(task_id=run.id))
    await second.told_to_renew()
    second.stream.cancel()


async def test_an_assignment_that_nobody_took_goes_elsewhere_at_once(plane: Plane) -> None:
    gone = await connected(plane, "p1")
    runs = [await plane.create() for _ in range(3)]
    await gone.assigned()
    await eventually(lambda: state_of(plane, runs[2]), lambda found: found.fence == 1)
    gone.stream.cancel()
    executor = await connected(plane, "p2")
    assert (await executor.assigned()).record.uid in {run.uid for run in runs[1:]}


async def state_of(plane: Plane, run: Run) -> pb.TaskRecord:
    return (await plane.store().GetTask(pb.GetTaskRequest(task_id=run.id, history_length=0))).record


async def test_renew_tells_of_cancels_and_new_messages(plane: Plane) -> None:
    """C8: the control channel works without a claim stream."""
    runs = [await plane.create(working=True) for _ in range(3)]
    queue = plane.queue()
    await plane.store().CancelTask(pb.CancelTaskRequest(task_id=runs[0].id))
    await plane.store().AddMessage(follow_up(runs[1].id))
    response = await queue.Renew(pb.RenewRequest(process_id="p1", leases=[lease(run) for run in runs]))
    assert [(state.task_uid, state.still_yours) for state in response.leases] == [
        (runs[0].uid, False),
        (runs[1].uid, True),
        (runs[2].uid, True),
    ]
    assert [state.input_generation for state in response.leases[1:]] == [3, 1]
    assert response.lease_ttl == 60.0
    assert not response.drain
    stolen = await queue.Renew(pb.RenewRequest(process_id="p2", leases=[lease(runs[2])]))
    assert not stolen.leases[0].still_yours


async def test_a_thousand_leases_are_renewed_in_one_call(plane: Plane) -> None:
    runs: list[Run] = []
    for _ in range(10):
        runs += await asyncio.gather(*(plane.create(working=True) for _ in range(100)))
    response = await plane.queue().Renew(pb.RenewRequest(process_id="p1", leases=[lease(run) for run in runs]))
    assert [state.task_uid for state in response.leases] == [run.uid for run in runs]
    assert all(state.still_yours for state in response.leases)


async def test_a_repeated_creation_returns_the_remaining_time_of_its_lease(plane: Plane) -> None:
    """C10: so that no executor relies on the whole time of a lease that began long ago."""
    request = creation(working=True)
    first = await plane.store().CreateTask(request)
    again = await plane.store().CreateTask(request)
    later = await plane.store().CreateTask(request)
    assert (first.created, again.created, first.fence, again.fence) == (True, False, 1, 1)
    assert 60.0 == first.lease_ttl > again.lease_ttl > later.lease_ttl > 0.0
    await plane.store().CancelTask(pb.CancelTaskRequest(task_id=first.record.id))
    over = await plane.store().CreateTask(request)
    assert (over.fence, over.lease_ttl) == (0, 0.0)


@pytest.mark.parametrize("what", ["cancel", "message", "delete"])
async def test_the_holder_is_asked_to_renew_after_a_change_of_its_task(plane: Plane, what: str) -> None:
    executor = await connected(plane)
    run = await plane.create(working=True)
    if what == "cancel":
        await plane.store(ANN).CancelTask(pb.CancelTaskRequest(task_id=run.id))
    elif what == "message":
        await plane.store(ANN).AddMessage(follow_up(run.id))
    else:
        await plane.store(ANN._replace(service=True)).DeleteTask(pb.DeleteTaskRequest(task_id=run.id))
    await executor.told_to_renew()
    assert (await executor.renew(lease(run))).leases[0].still_yours is (what == "message")


async def test_the_holder_is_not_notified_of_its_own_completion(plane: Plane) -> None:
    executor = await connected(plane)
    finished, paused, canceled = [await plane.create(working=True) for _ in range(3)]
    await finished.complete()
    await paused.append(status(INPUT_REQUIRED, message("which?", a2a.ROLE_AGENT)))
    await plane.store().CancelTask(pb.CancelTaskRequest(task_id=canceled.id))
    hints = [await anext(executor.stream)]
    while not hints[-1].hint.now:
        hints.append(await anext(executor.stream))
    more = asyncio.ensure_future(executor.told_to_renew())
    assert not (await asyncio.wait({more}, timeout=0.4))[0]
    more.cancel()
    executor.stream.cancel()


async def test_an_answered_pause_is_assigned_again(plane: Plane) -> None:
    """C8: any executor of the agent may go on with it, under a new fence."""
    run = await plane.create(working=True)
    await run.append(status(INPUT_REQUIRED, message("which?", a2a.ROLE_AGENT)))
    executor = await connected(plane, "p2")
    await plane.store().AddMessage(follow_up(run.id))
    assignment = await executor.assigned()
    assert assignment.record.uid == run.uid
    assert assignment.fence > run.fence
    assert assignment.record.input_generation == 4
    assert (await run.append(status(WORKING))).refusal.reason == "FENCED"


async def test_releasing_a_run_that_had_not_started_queues_it_again(plane: Plane) -> None:
    """C14: at once, and the attempt does not count."""
    first = await connected(plane, "p1")
    run = await plane.create()
    assignment = await first.assigned()
    first.stream.cancel()
    second = await connected(plane, "p2")
    await first.release(given(assignment))
    again = await second.assigned()
    assert again.record.uid == run.uid
    assert again.record.attempt == 1
    assert again.fence > assignment.fence
    await first.release(given(assignment))
    assert (await second.renew(given(again))).leases[0].still_yours


async def test_the_attempt_of_a_lost_run_counts(plane: Plane) -> None:
    """C9: otherwise a run that is always lost would start for ever."""
    run = await plane.create(working=True, on_orphan=2, max_attempts=2)
    await plane.queue().Release(pb.ReleaseRequest(process_id="p1", leases=[lease(run)], lost=True))
    assert (await state_of(plane, run)).attempt == 1
    second = await connected(plane, "p2")
    again = await second.assigned()
    assert again.record.attempt == 2
    await plane.queue().Release(pb.ReleaseRequest(process_id="p2", leases=[given(again)], lost=True))
    task = (await run.record_now()).task
    assert task.status.message.metadata.fields["reason"].string_value == "POISON"


async def test_releasing_a_run_that_had_started_fails_it_by_its_own_policy(plane: Plane) -> None:
    """C9."""
    failing, rerunning = [await plane.create(working=True, on_orphan=policy) for policy in (1, 2)]
    await plane.queue().Release(pb.ReleaseRequest(process_id="p1", leases=[lease(failing), lease(rerunning)]))
    assert (await state_of(plane, failing)).state == FAILED
    assert (await state_of(plane, rerunning)).state == SUBMITTED


async def test_a_lease_that_is_not_renewed_is_taken_back_and_one_that_is_stays(url: str) -> None:
    """C8, C9: takeover within TTL and sweep, and never before the TTL."""
    async with opened(url) as plane:
        began = renewed = time.monotonic()
        lost, kept = [await plane.create(working=True, claim_for=owner) for owner in ("p1", "p2")]
        while (await state_of(plane, lost)).state != FAILED:
            asked = time.monotonic()
            response = await plane.queue().Renew(pb.RenewRequest(process_id="p2", leases=[lease(kept)]))
            if not response.leases[0].still_yours:
                # The machine stood still for so long that it was not renewed in time.
                assert time.monotonic() - renewed >= 1.0
                asked = time.monotonic()
                kept = await plane.create(working=True, claim_for="p2")
            renewed = asked
            assert time.monotonic() - began < 60.0
            await asyncio.sleep(0.1)
        assert time.monotonic() - began >= 1.0
        task = (await lost.record_now()).task
        assert task.status.message.metadata.fields["reason"].string_value == "EXECUTOR_LOST"
        refused = (await kept.append(status(WORKING))).HasField("refusal")
        assert not refused or time.monotonic() - renewed >= 1.0


async def test_a_lost_run_that_may_run_again_is_assigned_to_another_executor(url: str) -> None:
    """C9: also a run that never began, which leaves no event in the log."""
    async with opened(url) as plane:
        silent = await plane.create(claim_for="dead")
        begun = await plane.create(working=True, claim_for="dead", on_orphan=pb.ON_ORPHAN_RERUN)
        executor = await connected(plane, "alive")
        assigned: dict[str, pb.TaskRecord] = {}
        held: list[pb.Lease] = []
        while len(assigned) < 2:
            found = await executor.assigned_while_renewing(*held)
            held.append(given(found))
            assigned.setdefault(found.record.uid, found.record)
        assert assigned[silent.uid].generation == 1
        assert assigned[begun.uid].generation == 3
        assert {record.attempt for record in assigned.values()} == {2}


async def test_a_process_that_is_silent_for_a_lease_time_is_given_nothing(url: str) -> None:
    """C8, C9: a stopped process still has its stream open; its task must not come back to it until it is poison."""
    async with opened(url) as plane:
        stopped = await connected(plane, "stopped")
        run = await plane.create(claim_for="stopped", working=True, on_orphan=pb.ON_ORPHAN_RERUN)
        living = await connected(plane, "living")
        assignment = await living.assigned_while_renewing()
        assert assignment.record.attempt == 2
        # Now that the stopped one is heard of again, it could be given what the other one loses.
        await plane.store().CancelTask(pb.CancelTaskRequest(task_id=run.id))
        unread: list[pb.ClaimResponse] = []
        while not unread or not unread[-1].hint.now:
            await stopped.renew()
            unread.append(await asyncio.wait_for(anext(stopped.stream), 30.0))
            if len(unread) > 3:
                break
        assert not any(response.HasField("assignment") for response in unread)


async def test_a_resident_run_outlives_its_ttl_when_nothing_renews(url: str, engine_name: str) -> None:
    """The sweep leaves it alone on SQLite; on PostgreSQL, where other stores sweep, it expires like all others."""
    process_id = RESIDENT + "me"
    async with opened(url, resident=process_id) as plane:
        resident = await plane.create(working=True, claim_for=process_id)
        await plane.queue().Renew(pb.RenewRequest(process_id=process_id, leases=[lease(resident)]))
        other = await plane.create(working=True, claim_for="elsewhere")
        await eventually(lambda: state_of(plane, other), lambda found: found.state == FAILED)
        if engine_name == "sqlite":
            assert (await state_of(plane, resident)).state == WORKING
            assert not (await resident.append(status(WORKING))).HasField("refusal")
        else:
            await eventually(lambda: state_of(plane, resident), lambda found: found.state == FAILED)


async def test_the_next_start_orphans_residents_at_once_and_starts_other_leases_anew(
    url: str, engine_name: str
) -> None:
    """C8: a store alone on its database knows that who lived in its process is dead."""
    if engine_name != "sqlite":
        pytest.skip("on PostgreSQL another store process may be alive")
    async with opened(url, lease_ttl=60.0, resident=RESIDENT + "one") as plane:
        resident = await plane.create(working=True, claim_for=RESIDENT + "one")
        other = await plane.create(working=True, claim_for="elsewhere")
    async with open_engine(url) as engine, SqlTaskLog(engine) as log:
        before, (held,) = await log.row_by_uid(other.uid), await log.held("elsewhere")
    async with opened(url, lease_ttl=60.0, resident=RESIDENT + "two") as plane:
        assert (await state_of(plane, resident)).state == FAILED
        response = await plane.queue().Renew(pb.RenewRequest(process_id="elsewhere", leases=[lease(other)]))
        assert response.leases[0].still_yours
    async with open_engine(url) as engine, SqlTaskLog(engine) as log:
        assert await log.row_by_uid(other.uid) == before
        (again,) = await log.held("elsewhere")
        assert again.lease_until > held.lease_until


async def test_a_draining_store_tells_its_executors_and_assigns_nothing_more(plane: Plane) -> None:
    """C14."""
    executor = await connected(plane)
    run = await plane.create(working=True)
    draining = asyncio.ensure_future(plane.service.drain())
    await executor.told_to_renew()
    assert (await executor.renew(lease(run))).drain
    queued = await plane.create()
    with pytest.raises(StopAsyncIteration):
        while True:
            assert not (await anext(executor.stream)).HasField("assignment")
    await draining
    assert (await state_of(plane, queued)).fence == 0


async def test_a_claim_stream_is_never_silent_for_long(url: str) -> None:
    async with opened(url) as plane:
        executor = await connected(plane)
        quiet = 0
        while quiet < 3:
            response = await asyncio.wait_for(anext(executor.stream), 30.0)
            assert response.HasField("hint")
            # The store also says to renew when it has just begun to listen to others.
            quiet += not response.hint.now


async def test_the_queue_is_for_executors_only(plane: Plane) -> None:
    queue = plane.queue(ANN)
    with pytest.raises(PermissionDenied):
        await queue.Renew(pb.RenewRequest(process_id="p1"))
    with pytest.raises(PermissionDenied):
        await queue.Release(pb.ReleaseRequest(process_id="p1"))
    with pytest.raises(PermissionDenied):
        await anext(cast("Claiming", queue.Claim(pb.ClaimRequest(process_id="p1", agents=["demo"], capacity=1))))


async def test_claims_and_leases_of_two_stores_on_one_database_agree(url: str, engine_name: str) -> None:
    """Row locks order them: every task is assigned once, whichever store an executor is connected to."""
    if engine_name == "sqlite":
        pytest.skip("SQLite has one store process")
    async with opened(url, lease_ttl=60.0) as one, opened(url, lease_ttl=60.0) as two:
        settings: dict[str, Any] = {"capacity": 20, "shared_by": pb.SHARED_BY_ONE}
        executors = [await connected(one, "p1", **settings), await connected(two, "p2", **settings)]
        runs = await asyncio.gather(*(plane.create() for plane in (one, two) for _ in range(20)))
        uids: list[str] = []
        for executor in executors:
            uids.extend([(await executor.assigned()).record.uid for _ in range(20)])
        assert sorted(uids) == sorted(run.uid for run in runs)
