"""CreateTask.strategy over real channels: what becomes of a second task of an agent in a session."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from tests.conftest import Migrated
from tests.tasks.plane import CANCELED, INPUT_REQUIRED, WORKING, Plane, creation, message, opened, status, until
from tests.tasks.test_queue import Executor, connected

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Invalid, Refused

QUEUE = pb.STRATEGY_QUEUE


@pytest.fixture
async def plane(migrated: Migrated) -> AsyncGenerator[Plane, None]:
    """A store that looks for work when it hears of some, and hardly ever by itself."""
    async with opened(await migrated("taskplane.tasks"), lease_ttl=120.0, poll_every=60.0) as plane:
        yield plane
        await until(lambda: not len(plane.service.claims))


async def soon(executor: Executor) -> pb.Assignment:
    """The next assignment, long before the store looks by itself."""
    async with asyncio.timeout(20):
        return await executor.assigned()


@pytest.mark.parametrize("kind", ["inprocess", "socket"])
async def test_a_task_in_turn_is_assigned_as_soon_as_the_one_before_it_is_at_rest(plane: Plane, kind: str) -> None:
    """QUEUE: an end, a pause or a deletion lets the next one through; nothing waits for a sweep."""
    executor = await connected(plane, "p1", kind=kind)
    first = await plane.create(working=True, strategy=QUEUE)
    assert first.fence == 1
    rest = [await plane.create(working=True, strategy=QUEUE) for _ in range(3)]
    for run in rest:
        assert (run.fence, run.record.state, run.record.generation) == (0, a2a.TASK_STATE_SUBMITTED, 1)
    await first.complete()
    second = await soon(executor)
    assert (second.record.id, second.fence) == (rest[0].id, 1)
    rest[0].fence = second.fence
    await rest[0].append(status(WORKING), status(INPUT_REQUIRED, message("?", a2a.ROLE_AGENT)))
    assert (await soon(executor)).record.id == rest[1].id
    await plane.store().DeleteTask(pb.DeleteTaskRequest(task_id=rest[1].id))
    assert (await soon(executor)).record.id == rest[2].id
    executor.stream.cancel()


async def test_a_busy_session_refuses_a_second_task(plane: Plane) -> None:
    """REJECT."""
    run = await plane.create(working=True)
    with pytest.raises(Refused) as refused:
        await plane.create(working=True, strategy=pb.STRATEGY_REJECT)
    assert refused.value.reason == "SESSION_BUSY"
    await run.complete()
    assert (await plane.create(working=True, strategy=pb.STRATEGY_REJECT)).fence == 1


async def test_a_new_task_interrupts_the_one_at_work(plane: Plane) -> None:
    """INTERRUPT: its watchers see it canceled."""
    run = await plane.create(working=True)
    watch = plane.watch(run.id, stop_at=[CANCELED])
    await anext(watch)
    await plane.create(working=True, strategy=pb.STRATEGY_INTERRUPT)
    ended = [each async for each in watch][-1].end
    assert ended.record.task.status.state == CANCELED


async def test_an_unknown_strategy_is_refused(plane: Plane) -> None:
    with pytest.raises(Invalid):
        await plane.store().CreateTask(creation(strategy=9))
