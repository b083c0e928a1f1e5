"""Who is given what, where something else happens at the same moment."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from tests.conftest import Migrated
from tests.tasks.plane import creating, creation

from taskplane.storage.engine import open_engine
from taskplane.tasks import wire
from taskplane.tasks.domain.operations import Cancel
from taskplane.tasks.domain.task import Row, Scope
from taskplane.tasks.queue import Claims, Leases
from taskplane.tasks.sql import SqlTaskLog
from taskplane.tasks.store import Committed

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

    async def held(self, process_id: str | None = None) -> Sequence[Row]:
        """See `TaskLog.held`."""
        rows = await super().held(process_id)
        if rows and self.happens is not None:
            happens, self.happens = self.happens, None
            await happens()
        return rows


async def test_a_slot_that_is_freed_while_room_is_counted_is_not_overlooked(migrated: Migrated) -> None:
    """Without any poll: the commit came after the count and before the dispatcher knew that it had too little."""

    def commit(committed: Committed) -> None:
        claims.committed(committed)

    url = await migrated("taskplane.tasks")
    async with open_engine(url) as engine, Late(engine, on_commit=commit) as log:
        claims = Claims(log, Leases(log, ttl=60.0), wire.Wire(await log.epoch()), poll_every=60.0)
        stream = claims.stream("p1", ["demo"], 1)
        await anext(stream)
        held = await created(log, working=True)
        log.happens = lambda: log.submit(Cancel(scope=SCOPE, task_id=held))
        async with asyncio.timeout(5.0):
            dispatching = asyncio.create_task(claims.run())
            waiting = await created(log)
            while not (response := await anext(stream)).HasField("assignment"):
                pass
        assert response.assignment.record.uid == waiting
        dispatching.cancel()
        await stream.aclose()
