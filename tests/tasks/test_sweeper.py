"""A sweep that comes late, and the leases of those who live."""

import asyncio

from tests.conftest import Migrated
from tests.tasks.test_queue import lapsed, swept_after

from taskplane.storage.engine import open_engine
from taskplane.tasks.domain.task import FAILED
from taskplane.tasks.queue import Leases, Sweeper
from taskplane.tasks.sql import SqlTaskLog


async def test_a_pause_of_half_a_ttl_ends_no_lease(migrated: Migrated) -> None:
    """C8: a lease is renewed twice in its time, so that one of a living process may run out in such a pause."""
    async with open_engine(await migrated("taskplane.tasks")) as engine, SqlTaskLog(engine) as log:
        sweeper = Sweeper(log, Leases(log, ttl=0.4), every=0.01)
        await lapsed(log)
        await swept_after(sweeper)
        uid = await lapsed(log)
        await asyncio.sleep(0.3)
        assert await sweeper.sweep() == 0
        await swept_after(sweeper)
        assert (await log.row_by_uid(uid)).state == FAILED
