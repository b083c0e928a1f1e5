"""TaskOperations as operators know it, over a socket: the tasks of all owners of their tenant, and nothing else."""

import secrets
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from sqlalchemy import Connection
from tests.conftest import Migrated
from tests.tasks.plane import (
    ANN,
    BOB,
    COMPLETED,
    EXECUTOR,
    FAILED,
    INPUT_REQUIRED,
    WORKING,
    Plane,
    Run,
    creation,
    document,
    follow_up,
    message,
    opened,
    status,
)

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2_grpc as pb_grpc
from taskplane.runtime.errors import Invalid, NotFound, PermissionDenied
from taskplane.runtime.principal import Principal

SUBMITTED = a2a.TASK_STATE_SUBMITTED
OPERATOR = Principal("tenant", "olga", "user:olga", operator=True)
ELSEWHERE = Principal("elsewhere", "olga", "user:olga", operator=True)
AGENT = a2a.ROLE_AGENT


@pytest.fixture
async def plane(migrated: Migrated) -> AsyncGenerator[Plane, None]:
    """A store whose sweep does not come, so that a lost lease stays as it is."""
    async with opened(await migrated("taskplane.tasks"), lease_ttl=60.0, sweep_every=3600.0) as plane:
        yield plane


def operations(plane: Plane, who: Principal = OPERATOR) -> pb_grpc.TaskOperationsStub:
    return pb_grpc.TaskOperationsStub(plane.channel(who, "socket"))


async def begun(plane: Plane, owner: str, **fields: Any) -> Run:
    """A task of an owner of the tenant, running under a lease of "p1" unless said otherwise."""
    store = plane.store(EXECUTOR._replace(owner=owner))
    return Run(plane, await store.CreateTask(creation(working=True, **fields)))


async def queued(plane: Plane, owner: str, **fields: Any) -> Run:
    return Run(plane, await plane.store(EXECUTOR._replace(owner=owner)).CreateTask(creation(**fields)))


async def overview(plane: Plane, who: Principal = OPERATOR) -> pb.GetOverviewResponse:
    return await operations(plane, who).GetOverview(pb.GetOverviewRequest())


async def listed(plane: Plane, who: Principal = OPERATOR, **filters: Any) -> list[pb.TenantTask]:
    """All pages of a list, two tasks each."""
    found: list[pb.TenantTask] = []
    token = ""
    while True:
        asked = pb.ListTenantTasksRequest(page_size=2, page_token=token, **filters)
        page = await operations(plane, who).ListTenantTasks(asked)
        found += page.tasks
        token = page.next_page_token
        if not token:
            return found


def ids(found: list[pb.TenantTask]) -> list[str]:
    return [each.record.id for each in found]


def lose_lease(conn: Connection, uid: str) -> None:
    """Let the lease of a task have run out, which the triggers would refuse."""
    if conn.dialect.name == "sqlite":
        named = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'lease'"
        for trigger in conn.exec_driver_sql(named).scalars().all():
            conn.exec_driver_sql(f"DROP TRIGGER {trigger}")
    else:
        conn.exec_driver_sql("ALTER TABLE lease DISABLE TRIGGER USER")
    conn.exec_driver_sql(f"UPDATE lease SET lease_until = 1 WHERE task_uid = '{uid}'")


async def test_the_overview_counts_running_waiting_paused_and_ended_tasks(plane: Plane) -> None:
    """V1: by agent and state, of all owners; also expired leases, queues, and messages missing in sessions."""
    empty = await overview(plane)
    assert (list(empty.tasks), list(empty.queue), list(empty.executors), empty.uncopied) == ([], [], [], 0)
    assert not empty.HasField("durations") and not empty.HasField("queued") and not empty.bounded
    assert len(empty.minutes) == 61
    await begun(plane, "ann")
    lost = await begun(plane, "bob", agent="other", claim_for="p2")
    await plane.engine.write(lose_lease, lost.uid)
    await queued(plane, "ann")
    await queued(plane, "bob")
    await queued(plane, "bob", agent="other")
    paused = await begun(plane, "ann")
    await paused.append(status(INPUT_REQUIRED, message("Which?", AGENT)))
    done = await begun(plane, "bob")
    await done.append(status(COMPLETED, message("done", AGENT)), copied=0)
    copied = await begun(plane, "bob")
    await copied.append(status(WORKING, message("done", AGENT)))
    await copied.append(status(COMPLETED), copied=3)
    failed = await begun(plane, "ann")
    await failed.append(status(FAILED))
    canceled = await begun(plane, "ann")
    await plane.store(ANN).CancelTask(pb.CancelTaskRequest(task_id=canceled.id))
    for run in (failed, canceled):
        await plane.store().MarkCopied(pb.MarkCopiedRequest(task_uid=run.uid, generation=1))
    await plane.store(ANN).PutTask(pb.PutTaskRequest(task=document("d1"), agent="runtime"))
    # Another tenant has as much, and counts for nothing.
    there = plane.store(Principal("elsewhere", "ann", "executor", service=True))
    await there.CreateTask(creation(working=True))
    await there.CreateTask(creation())

    found = await overview(plane)
    assert {(each.agent, each.state): each.count for each in found.tasks} == {
        ("demo", SUBMITTED): 2,
        ("other", SUBMITTED): 1,
        ("demo", WORKING): 1,
        ("other", WORKING): 1,
        ("demo", INPUT_REQUIRED): 1,
        ("demo", COMPLETED): 2,
        ("demo", FAILED): 1,
        ("demo", a2a.TASK_STATE_CANCELED): 1,
    }
    assert {each.agent: each.queued for each in found.queue} == {"demo": 2, "other": 1}
    assert all(0 <= each.oldest < 60 for each in found.queue)
    assert {each.process_id: (list(each.agents), each.leases, each.running) for each in found.executors} == {
        "p1": (["demo"], 1, 1),
        "p2": (["other"], 1, 0),
    }
    behind = (await plane.store().ListUncopied(pb.ListUncopiedRequest())).tasks
    assert {each.task_id for each in behind} == {paused.id, done.id}
    assert found.uncopied == 2
    assert sum(each.begun for each in found.minutes) == 10
    assert sum(each.ended for each in found.minutes) == 4
    assert sum(each.failed for each in found.minutes) == 1
    assert found.durations.p95 >= found.durations.p50 > 0
    assert 0 <= found.queued.p50 <= found.queued.p95 < 60
    assert not found.bounded
    assert found.since == found.minutes[0].at

    elsewhere = await overview(plane, ELSEWHERE)
    assert {(each.agent, each.state): each.count for each in elsewhere.tasks} == {
        ("demo", SUBMITTED): 1,
        ("demo", WORKING): 1,
    }


async def test_an_executor_is_seen_while_it_renews(plane: Plane) -> None:
    """V1: a process that announced itself is alive until its renewals stay out, busy or not."""
    claim = plane.queue().Claim(pb.ClaimRequest(process_id="p1", agents=["nobody"], capacity=1))
    try:
        await anext(aiter(claim))
        (seen,) = (await overview(plane)).executors
        assert (seen.process_id, seen.alive, seen.leases, seen.running) == ("p1", True, 0, 0)
        assert seen.last_seen < 60
        await plane.engine.write(lambda conn: conn.exec_driver_sql("UPDATE executor SET alive_until = 70000000"))
        (seen,) = (await overview(plane)).executors
        assert not seen.alive and seen.last_seen > 3600
        await plane.queue().Renew(pb.RenewRequest(process_id="p1"))
        (seen,) = (await overview(plane)).executors
        assert seen.alive and seen.last_seen < 60
    finally:
        claim.cancel()


async def test_the_overview_names_the_owners_of_the_used_slots(plane: Plane) -> None:
    """L2: owners of the tenant by name, other tenants by number; only slots of a process that is alive."""
    for _ in range(2):
        await begun(plane, "ann")
    await begun(plane, "bob", agent="other")
    await begun(plane, "bob", claim_for="gone")
    await plane.store(Principal("elsewhere", "eve", "executor", service=True)).CreateTask(creation(working=True))
    claim = plane.queue().Claim(pb.ClaimRequest(process_id="p1", agents=["nobody"], capacity=8))
    try:
        await anext(aiter(claim))
        found = await overview(plane)
        assert {each.process_id: (each.capacity, each.leases) for each in found.executors} == {
            "gone": (0, 1),
            "p1": (8, 3),
        }
        capacity = found.capacity
        assert (capacity.slots, capacity.held, capacity.held_by_others) == (8, 3, 1)
        assert [(each.owner, each.slots) for each in capacity.holders] == [("ann", 2), ("bob", 1)]
        there = (await overview(plane, ELSEWHERE)).capacity
        assert (there.slots, there.held, there.held_by_others) == (8, 1, 3)
        assert [(each.owner, each.slots) for each in there.holders] == [("eve", 1)]
    finally:
        claim.cancel()


async def test_tasks_of_all_owners_are_listed_newest_change_first(plane: Plane) -> None:
    """V1: with owner, attempt, fence, executor and the end of its lease, in pages; each filter selects."""
    running = await begun(plane, "ann")
    waiting = await queued(plane, "bob", agent="other")
    failed = await begun(plane, "bob", agent="other")
    await failed.append(status(FAILED, message("no luck", AGENT)))
    rejected = await begun(plane, "ann", claim_for="p2")
    await rejected.append(status(a2a.TASK_STATE_REJECTED, message("not mine", AGENT)))
    other = await begun(plane, "bob", claim_for="p2")
    await plane.store(ANN).PutTask(pb.PutTaskRequest(task=document("d1", FAILED), agent="runtime"))
    whole = await listed(plane)
    assert ids(whole) == ["d1", other.id, rejected.id, failed.id, waiting.id, running.id]
    assert [each.record.owner for each in whole] == ["ann", "bob", "ann", "bob", "bob", "ann"]
    assert [each.error for each in whole] == ["", "", "not mine", "no luck", "", ""]
    assert [each.executor for each in whole] == ["", "p2", "", "", "", "p1"]
    assert [each.HasField("lease_until") for each in whole] == [False, True, False, False, False, True]
    assert [each.HasField("queued_at") for each in whole] == [False, False, False, False, True, False]
    assert (whole[1].record.attempt, whole[1].record.fence) == (1, 1)
    assert ids(await listed(plane, states=[FAILED, a2a.TASK_STATE_REJECTED])) == ["d1", rejected.id, failed.id]
    assert ids(await listed(plane, states=[WORKING])) == [other.id, running.id]
    assert ids(await listed(plane, owner="bob")) == [other.id, failed.id, waiting.id]
    assert ids(await listed(plane, owner="bob", states=[FAILED])) == [failed.id]
    assert ids(await listed(plane, agent="other")) == [failed.id, waiting.id]
    assert ids(await listed(plane, agent="demo")) == [other.id, rejected.id, running.id]
    assert ids(await listed(plane, executor="p2")) == [other.id]
    assert ids(await listed(plane, executor="p2", owner="ann")) == []
    assert ids(await listed(plane, executor="p1", states=[WORKING], agent="demo")) == [running.id]
    assert ids(await listed(plane, ELSEWHERE)) == []


async def test_a_task_is_shown_with_the_beginning_of_its_first_message(plane: Plane) -> None:
    """V1: even after later messages; empty if there is no text within reach."""
    run = await begun(plane, "ann", message=message("Summarize this, please"))
    await run.append(status(INPUT_REQUIRED, message("Which?", AGENT)))
    await plane.store(ANN).AddMessage(follow_up(run.id, "The second"))
    long = await queued(plane, "ann", message=message("ä" * 5_000))
    file = a2a.Part(raw=bytes(100_000), filename="a file")
    after = message("")
    after.parts.insert(0, file)
    with_files = [message("Look at these"), after, message("Too large")]
    with_files[0].parts.append(file)
    with_files[2].parts.append(a2a.Part(raw=bytes(1024 * 1024)))
    filed = [await queued(plane, "bob", message=each) for each in with_files]
    await plane.store(ANN).PutTask(pb.PutTaskRequest(task=document("d1"), agent="runtime"))
    asked = {run.id: "Summarize this, please", long.id: "ä" * 200, filed[0].id: "Look at these"}
    whole = await listed(plane)
    assert {each.record.id: each.asked for each in whole if each.asked} == asked
    assert len(whole) == 6
    for task_id in (run.id, "d1"):
        found = await operations(plane).GetTenantTask(pb.GetTenantTaskRequest(task_id=task_id))
        assert found.task.asked == asked.get(task_id, "")


async def test_a_page_token_belongs_to_its_operator_and_its_filters(plane: Plane) -> None:
    """V3: nobody goes on with the list of somebody else."""
    for _ in range(3):
        await queued(plane, "ann")
    page = await operations(plane).ListTenantTasks(pb.ListTenantTasksRequest(page_size=1))
    asked = pb.ListTenantTasksRequest(page_size=1, page_token=page.next_page_token)
    assert len((await operations(plane).ListTenantTasks(asked)).tasks) == 1
    for who, more in ((ELSEWHERE, {}), (OPERATOR, {"owner": "ann"})):
        with pytest.raises(Invalid) as refused:
            await operations(plane, who).ListTenantTasks(
                pb.ListTenantTasksRequest(page_size=1, page_token=page.next_page_token, **more)  # type: ignore[arg-type]
            )
        assert refused.value.reason == "BAD_PAGE_TOKEN"


async def test_a_task_is_shown_with_its_whole_log(plane: Plane) -> None:
    """V1, V2: attempts, fences and actors of every event, in pages. An operator that cancels is the actor."""
    run = await begun(plane, "bob")
    await run.append(status(WORKING, message("so far", AGENT)))
    await plane.store(BOB._replace(actor="user:olga")).CancelTask(pb.CancelTaskRequest(task_id=run.id))
    found = await operations(plane).GetTenantTask(pb.GetTenantTaskRequest(task_id=run.id, limit=3))
    assert [each.generation for each in found.events] == [1, 2, 3] and found.next_after == 3
    more = await operations(plane).GetTenantTask(pb.GetTenantTaskRequest(task_id=run.id, after_generation=3))
    assert [each.generation for each in more.events] == [4] and more.next_after == 0
    told = [(each.attempt, each.fence, each.actor) for each in [*found.events, *more.events]]
    assert told == [(1, 1, "executor"), (1, 1, "executor"), (1, 1, "executor"), (1, 2, "user:olga")]
    assert found.task.record.state == a2a.TASK_STATE_CANCELED and found.task.record.owner == "bob"
    over = await operations(plane).GetTenantTask(pb.GetTenantTaskRequest(task_id=run.id, after_generation=9))
    assert not over.events and over.next_after == 0


@pytest.mark.parametrize("who", [ANN, EXECUTOR, Principal("tenant", "olga", "user:olga")])
async def test_a_caller_that_is_not_an_operator_is_refused(plane: Plane, who: Principal) -> None:
    """V3: a user and a service, for each request. An operator of another tenant finds nothing."""
    run = await begun(plane, "ann")
    stub = operations(plane, who)
    for call in (
        stub.GetOverview(pb.GetOverviewRequest()),
        stub.ListTenantTasks(pb.ListTenantTasksRequest()),
        stub.GetTenantTask(pb.GetTenantTaskRequest(task_id=run.id)),
    ):
        with pytest.raises(PermissionDenied) as refused:
            await call
        assert refused.value.reason == "OPERATORS_ONLY"
    for task_id in (run.id, secrets.token_hex(16)):
        with pytest.raises(NotFound):
            await operations(plane, ELSEWHERE).GetTenantTask(pb.GetTenantTaskRequest(task_id=task_id))


async def test_an_invalid_request_of_an_operator_is_refused_by_its_field(plane: Plane) -> None:
    """V1: it is not reported as a fault of the store."""
    stub = operations(plane)
    for field, call in (
        ("states", stub.ListTenantTasks(pb.ListTenantTasksRequest(states=[99]))),  # type: ignore[list-item]
        ("agent", stub.ListTenantTasks(pb.ListTenantTasksRequest(agent="a\0"))),
        ("page_size", stub.ListTenantTasks(pb.ListTenantTasksRequest(page_size=1001))),
        ("task_id", stub.GetTenantTask(pb.GetTenantTaskRequest())),
        ("after_generation", stub.GetTenantTask(pb.GetTenantTaskRequest(task_id="t", after_generation=-1))),
        ("limit", stub.GetTenantTask(pb.GetTenantTaskRequest(task_id="t", limit=1001))),
    ):
        with pytest.raises(Invalid) as refused:
            await call
        assert set(refused.value.fields) == {field}
