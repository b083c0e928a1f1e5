"""Leases that have run out, and who takes them back, without a store around them."""

from types import SimpleNamespace
from typing import Final

import pytest
from tests.tasks.plane import FAILED, creating, creation, eventually

from taskplane.storage.engine import open_engine
from taskplane.tasks.domain.task import Lease, Scope
from taskplane.tasks.queue import RESIDENT, Leases, Sweeper
from taskplane.tasks.sql import SqlTaskLog

SCOPE: Final = Scope(tenant="tenant", owner="ann", actor="executor")


async def test_a_sweeper_that_wakes_late_grants_one_ttl(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """C8: a store that just started, or could not sweep for half a TTL, takes nothing back for one TTL.

    A lease is renewed twice in its time, so that one of a living process may run out in such a pause.
    """
    now = 100.0
    monkeypatch.setattr("taskplane.tasks.queue.sweep.time", SimpleNamespace(monotonic=lambda: now))
    async with open_engine(url) as engine, SqlTaskLog(engine) as log:
        sweeper = Sweeper(log, Leases(log, ttl=15.0), every=1.0)
        for _ in range(2):
            uid = await lapsed(log)
            for seconds in (0.0, 7.4, 7.4, 0.1):
                now += seconds
                assert await sweeper.sweep() == 0
            now += 0.2
            assert await sweeper.sweep() == 1
            assert (await log.row_by_uid(uid)).state == FAILED
            # Awake, it takes back at once.
            for seconds in (0.0, 7.4):
                now += seconds
                await lapsed(log)
                assert await sweeper.sweep() == 1
            now += 7.6


async def lapsed(log: SqlTaskLog, process_id: str = "p1") -> str:
    """The uid of a task that runs under a lease which has run out."""
    request = creation(working=True, claim_for=process_id)
    uid = request.invocation_id
    await log.submit(creating(request, SCOPE, uid, await log.now()))
    await eventually(lambda: log.expired(1000), lambda leases: uid in {lease.task_uid for lease in leases})
    return uid


async def lease_of(log: SqlTaskLog, uid: str) -> Lease:
    (lease,) = [each for each in await log.held() if each.task_uid == uid]
    return lease


async def test_a_lease_of_the_resident_executor_stays_while_it_is_listed(url: str) -> None:
    """A busy event loop is no death: what the last renewals name is not taken back, however old the lease."""
    async with open_engine(url) as engine, SqlTaskLog(engine) as log:
        leases = Leases(log, ttl=0.05, resident=RESIDENT + "me")
        listed, forgotten, never = [await lapsed(log, RESIDENT + "me") for _ in range(3)]
        before = [await lease_of(log, uid) for uid in (listed, forgotten, never)]
        assert all(map(leases.spared, before))
        await leases.renew(RESIDENT + "me", [(listed, 1), (forgotten, 1)])
        assert all(map(leases.spared, before))
        await leases.renew(RESIDENT + "me", [(listed, 1)])
        # The first renewal extended this lease; one renewal without it is not enough.
        assert leases.spared(await lease_of(log, forgotten))
        assert not leases.spared(await lease_of(log, never))
        await leases.renew(RESIDENT + "me", [(listed, 1)])
        assert leases.spared(await lease_of(log, listed))
        assert not leases.spared(await lease_of(log, forgotten))
        assert not leases.spared(await lease_of(log, await lapsed(log, "elsewhere")))
