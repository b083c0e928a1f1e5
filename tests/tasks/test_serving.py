"""A task that waits for an agent that no process runs is told so, by the processes that the store knows."""

from collections.abc import Sequence
from typing import Final

import pytest
from sqlalchemy import Connection
from tests.tasks.plane import ANN, BOB, EXECUTOR, Plane, Run, creation, opened

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2_grpc as pb_grpc
from taskplane.runtime.errors import NotFound
from taskplane.runtime.principal import Principal

OPERATOR: Final = Principal("tenant", "olga", "user:olga", operator=True)


async def waiting(plane: Plane, agent: str = "far", **fields: object) -> Run:
    """A task of ann that has been in the queue for a while."""
    store = plane.store(EXECUTOR._replace(owner="ann"))
    run = Run(plane, await store.CreateTask(creation(agent=agent, **fields)))
    aged = f"UPDATE task SET ready_at = ready_at - 60000000 WHERE uid = '{run.uid}'"
    await plane.engine.write(lambda conn: conn.exec_driver_sql(aged))
    return run


async def unserved(plane: Plane, run: Run) -> bool:
    """What the owner and the operator of the tenant are told, which is the same."""
    found = await plane.store(ANN, "socket").GetTask(pb.GetTaskRequest(task_id=run.id))
    operations = pb_grpc.TaskOperationsStub(plane.channel(OPERATOR, "socket"))
    seen = await operations.GetTenantTask(pb.GetTenantTaskRequest(task_id=run.id))
    assert seen.task.record.unserved is found.record.unserved
    return found.record.unserved


async def queues(plane: Plane) -> dict[str, bool]:
    operations = pb_grpc.TaskOperationsStub(plane.channel(OPERATOR, "socket"))
    return {each.agent: each.unserved for each in (await operations.GetOverview(pb.GetOverviewRequest())).queue}


async def announced(plane: Plane, process_id: str, agents: Sequence[str], capacity: int = 1) -> pb.ClaimResponse:
    """A process that the store knows, whose stream has broken since."""
    request = pb.ClaimRequest(process_id=process_id, agents=agents, capacity=capacity)
    claim = plane.queue().Claim(request)
    try:
        return await anext(aiter(claim))
    finally:
        claim.cancel()


async def changed(plane: Plane, statement: str) -> None:
    def change(conn: Connection) -> None:
        conn.exec_driver_sql(statement)

    await plane.engine.write(change)


async def test_a_task_is_marked_as_unserved_until_a_process_runs_its_agent(plane: Plane) -> None:
    """C8, V4: a process of another agent, without slots, or no longer alive does not count."""
    run = await waiting(plane)
    assert await unserved(plane, run) and await queues(plane) == {"far": True}
    await announced(plane, "p1", ["near"])
    await announced(plane, "p2", ["far"], capacity=0)
    assert await unserved(plane, run) and await queues(plane) == {"far": True}
    await plane.create(agent="far", claim_for="p3", working=True)
    await announced(plane, "p3", ["far", "near"])
    assert not await unserved(plane, run) and await queues(plane) == {"far": False}
    await changed(plane, "UPDATE executor SET alive_until = 1 WHERE process_id = 'p3'")
    assert await unserved(plane, run) and await queues(plane) == {"far": True}
    await plane.queue().Renew(pb.RenewRequest(process_id="p3"))
    assert not await unserved(plane, run) and await queues(plane) == {"far": False}


async def test_a_process_that_an_older_store_recorded_may_run_any_agent(plane: Plane) -> None:
    """C8: until it says which agents it runs, when it opens its stream again."""
    run = await waiting(plane)
    await announced(plane, "p1", ["near"])
    await changed(plane, "UPDATE executor SET agents = NULL")
    assert not await unserved(plane, run) and await queues(plane) == {"far": False}
    await announced(plane, "p1", ["near"])
    assert await unserved(plane, run) and await queues(plane) == {"far": True}


async def test_only_a_task_that_waits_for_a_moment_costs_a_look_at_the_processes(plane: Plane) -> None:
    """A task that was just sent, one at work and one that ended are read as before."""
    fresh = await plane.create(agent="far")
    at_work = await plane.create(agent="far", working=True)
    ended = await plane.create(agent="far", working=True)
    await ended.complete()
    del plane.engine.reads[:]
    store = plane.store()
    for run in (fresh, at_work, ended):
        assert not (await store.GetTask(pb.GetTaskRequest(task_id=run.id))).record.unserved
    assert "unserved_of" not in plane.engine.reads
    run = await waiting(plane)
    assert await unserved(plane, run)
    assert plane.engine.reads.count("unserved_of") == 2


async def test_tasks_of_others_tell_nothing(plane: Plane) -> None:
    """V3: neither that they wait, nor for which agent."""
    run = await waiting(plane)
    with pytest.raises(NotFound):
        await plane.store(BOB).GetTask(pb.GetTaskRequest(task_id=run.id))
    elsewhere = pb_grpc.TaskOperationsStub(plane.channel(OPERATOR._replace(tenant="elsewhere"), "socket"))
    assert not (await elsewhere.GetOverview(pb.GetOverviewRequest())).queue


async def test_processes_at_two_stores_are_known_to_both(url: str, engine_name: str) -> None:
    """C8: any replica tells the same."""
    if engine_name == "sqlite":
        pytest.skip("SQLite has one store process")
    async with opened(url, lease_ttl=60.0) as one, opened(url, lease_ttl=60.0) as two:
        run = await waiting(one)
        assert await unserved(two, run)
        await one.create(agent="far", claim_for="p1", working=True)
        await announced(one, "p1", ["far"])
        assert not await unserved(two, run)
