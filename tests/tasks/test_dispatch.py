"""Assignments of tasks while something else happens at the same moment."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from tests.conftest import Migrated
from tests.tasks.plane import creating, creation

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Unavailable
from taskplane.runtime.sharing import Owner, Slots
from taskplane.storage.engine import open_engine
from taskplane.tasks import wire
from taskplane.tasks.committed import Changed, Committed
from taskplane.tasks.domain.commands import Cancel, Done, Orphan
from taskplane.tasks.domain.task import Scope
from taskplane.tasks.queue import Claims, Leases
from taskplane.tasks.sql import SqlTaskLog
from taskplane.tasks.store import Claimable, FreeSlots

Stream = AsyncGenerator[pb.ClaimResponse, None]
SCOPE: Final = Scope(tenant="tenant", owner="ann", actor="executor")


async def created(log: SqlTaskLog, **fields: Any) -> str:
    """The uid of a new task, queued unless it is `working`."""
    request = creation(**fields)
    uid = request.invocation_id
    until = await log.now() + 60_000_000
    await log.submit(creating(request, SCOPE, uid, until))
    return uid


class Late(SqlTaskLog):
    """A log on which something happens right after it was read who holds what, once it holds anything."""

    happens: Callable[[], Awaitable[object]] | None = None
    looked: Callable[[], object] = staticmethod(lambda: None)

    async def claimable(
        self, agents: Sequence[str], limit: int, after: Owner = ("", ""), slots: FreeSlots | None = None
    ) -> Claimable:
        """See `TaskLog.claimable`."""
        found = await super().claimable(agents, limit, after, slots)
        self.looked()
        return found

    async def loads(self, process_ids: Sequence[str]) -> Mapping[str, Mapping[Owner, int]]:
        """See `TaskLog.loads`."""
        loads = await super().loads(process_ids)
        if any(loads.values()) and self.happens is not None:
            happens, self.happens = self.happens, None
            await happens()
        return loads


@asynccontextmanager
async def unpolled(
    url: str, capacity: int = 10, earlier: Callable[[Late], Awaitable[object]] | None = None
) -> AsyncGenerator[tuple[Late, Claims, Stream], None]:
    """A log, a dispatcher over it that is not running yet and never polls, and an executor that listens: "p1".

    `earlier`: what happened before there was a dispatcher.
    """

    told: list[Claims] = []

    def commit(committed: Committed) -> None:
        for claims in told:
            claims.committed(committed)

    async with open_engine(url) as engine, Late(engine, on_commit=commit) as log:
        claims = Claims(log, Leases(log, ttl=60.0), wire.Wire(await log.epoch()), poll_every=60.0)
        if earlier is not None:
            await earlier(log)
        await claims.load()
        told.append(claims)
        stream = claims.stream("p1", ["demo"], Slots(capacity))
        await anext(stream)
        yield log, claims, stream
        await stream.aclose()


async def assigned(stream: Stream) -> pb.Assignment:
    """The next one, long before a poll."""
    async with asyncio.timeout(30.0):
        while not (response := await anext(stream)).HasField("assignment"):
            pass
    return response.assignment


@asynccontextmanager
async def dispatching(claims: Claims) -> AsyncGenerator[None, None]:
    """The dispatcher runs beside the body."""
    running = asyncio.create_task(claims.run())
    yield
    running.cancel()


async def test_a_slot_that_is_freed_while_slots_are_counted_is_not_overlooked(migrated: Migrated) -> None:
    """Without any poll: the commit came after the count and before the dispatcher knew that it had too little."""
    async with unpolled(await migrated("taskplane.tasks"), capacity=1) as (log, claims, stream):
        held = await created(log, working=True)
        log.happens = lambda: log.submit(Cancel(scope=SCOPE, task_id=held))
        async with dispatching(claims):
            waiting = await created(log)
            assert (await assigned(stream)).record.uid == waiting


async def test_a_task_that_is_not_ready_yet_is_assigned_when_it_is(migrated: Migrated) -> None:
    """C9: a task that lost its executor twice waits about a second, and not for a poll."""
    async with unpolled(await migrated("taskplane.tasks")) as (log, claims, stream), dispatching(claims):
        uid = await created(log)
        for attempt in (1, 2):
            fence = (await assigned(stream)).fence
            assert (await log.row_by_uid(uid)).attempt == attempt
            lost_at = await log.now()
            lost = await log.submit(Orphan(task_uid=uid, process_id="p1", fence=fence))
            assert isinstance(lost, Done)
            ready_at = lost.row.ready_at or 0
        assert ready_at > lost_at + 500_000
        assert (await assigned(stream)).record.attempt == 3


async def test_a_new_dispatcher_knows_the_tasks_that_wait_for_their_session(migrated: Migrated) -> None:
    """The end of a task starts the next one, even if both are older than this dispatcher."""
    uids: list[str] = []

    async def earlier(log: Late) -> None:
        for _ in range(2):
            uids.append(await created(log, working=True, strategy=pb.STRATEGY_QUEUE))

    async with unpolled(await migrated("taskplane.tasks"), earlier=earlier) as (log, claims, stream):
        looks = asyncio.Semaphore(0)
        log.looked = looks.release
        listening = asyncio.create_task(assigned(stream))
        async with dispatching(claims):
            # One of its own, and one because an executor came; then it waits.
            for _ in range(2):
                await looks.acquire()
            await log.submit(Cancel(scope=SCOPE, task_id=uids[0]))
            assert (await listening).record.uid == uids[1]


@pytest.mark.parametrize("engine_name", ["sqlite"])
async def test_a_dispatcher_that_failed_tries_again_by_itself(migrated: Migrated) -> None:
    """The wake-up that it had is not lost with the attempt."""

    # It looks once of its own, and once because an executor came.
    failures = iter(range(2))

    async def fail() -> None:
        if next(failures, None) is not None:
            log.happens = fail
            raise Unavailable("not now")

    async with unpolled(await migrated("taskplane.tasks")) as (log, claims, stream):
        await created(log, working=True)
        waiting = await created(log)
        log.happens = fail
        async with dispatching(claims):
            assert (await assigned(stream)).record.uid == waiting
        assert log.happens is None


@pytest.mark.parametrize("engine_name", ["sqlite"])
async def test_a_stream_that_is_cancelled_during_a_notification_ends(migrated: Migrated) -> None:
    """In either order: no task is assigned to an executor that has gone."""
    async with unpolled(await migrated("taskplane.tasks")) as (log, claims, stream):
        await stream.aclose()
        held = await log.row_by_uid(await created(log, working=True))
        for turns in range(8):
            listening = asyncio.create_task(_listening(claims))
            while not len(claims):
                await asyncio.sleep(0)
            await log.held()
            # The holder has news; what it does with them takes a few turns of the loop.
            claims.committed(Committed([Changed(held._replace(lease_owner=None), holder="p1")]))
            for _ in range(turns):
                await asyncio.sleep(0)
            listening.cancel()
            await asyncio.wait({listening}, timeout=30.0)
            assert listening.cancelled() and not len(claims), turns
            claims.committed(Committed([Changed(held)]))


async def _listening(claims: Claims) -> None:
    stream = claims.stream("p1", ["demo"], Slots(10))
    try:
        async for _ in stream:
            pass
    finally:
        await stream.aclose()
