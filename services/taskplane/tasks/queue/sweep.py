"""Takes leases back that ran out, and ends tasks that waited too long."""

import asyncio
import logging
import random
import time
from typing import Final

from taskplane.runtime.errors import PlaneError
from taskplane.tasks.domain.commands import Done, Orphan, TimeOut
from taskplane.tasks.metrics import LEASES_LOST
from taskplane.tasks.queue.leases import Leases, settled
from taskplane.tasks.store import QueueLog

_log = logging.getLogger(__name__)
_MAX_ORPHANS: Final = 1000
_MAX_OVERDUE: Final = 1000


class Sweeper:
    """Looks every `every` seconds (give or take a quarter) for expired leases, and for tasks that waited too long. Any
    number of stores may do so.

    A sweeper that wakes late grants one TTL: where its last successful pass is longer ago than half of that (the store
    just started, was stopped, or had a database that could not be reached or took no writes), the executors could not
    renew either, and a lease that was half over before may have run out meanwhile, so it takes nothing back for one
    TTL. Nor does it end a task that waits: nobody could take it or answer it either.
    """

    def __init__(self, log: QueueLog, leases: Leases, *, every: float) -> None:
        self._log = log
        self._leases = leases
        self._every = every
        # With a longer interval a sweep could not detect its own lateness.
        self._late = min(leases.ttl, max(leases.ttl / 2, 2 * every))
        self._passed: float | None = None
        self._grace_until = 0.0

    async def run(self) -> None:
        """Sweep until it is cancelled."""
        while True:
            try:
                await self.sweep()
                await self.end_overdue()
            except PlaneError as error:
                _log.warning("the sweep of leases failed: %s", error)
            await asyncio.sleep(self._every * random.uniform(0.75, 1.25))

    async def sweep(self) -> int:
        """Look once; return the number of leases taken back. Unavailable: the pass does not count."""
        began = time.monotonic()
        # Leases can be read where nobody can renew them.
        await self._log.check_writable()
        if self._passed is None or began - self._passed > self._late:
            self._grace_until = began + self._leases.ttl
        before = await self._log.now()
        lost = [lease for lease in await self._log.expired(_MAX_ORPHANS) if not self._leases.spared(lease)]
        taken = 0
        if lost and began >= self._grace_until:
            orphans = [
                Orphan(task_uid=lease.task_uid, process_id=lease.owner, fence=lease.fence, expired_before=before)
                for lease in lost
            ]
            for lease, answer in zip(lost, settled(await self._log.submit_all(orphans)), strict=True):
                if isinstance(answer, PlaneError):
                    _log.error("the lost task %s could not be recovered: %s", lease.task_uid, answer)
                elif answer is not None:
                    taken += 1
            if taken:
                LEASES_LOST.inc(taken)
                _log.warning("%d tasks lost their executor: its lease expired", taken)
        self._passed = time.monotonic()
        return taken

    async def end_overdue(self) -> int:
        """Fail the tasks that waited too long, for an executor or for their user; return how many. After `sweep`."""
        if time.monotonic() < self._grace_until:
            return 0
        found = await self._log.overdue(_MAX_OVERDUE)
        ended = 0
        if found:
            timed_out = await self._log.submit_all([TimeOut(task_uid=uid) for uid in found])
            for uid, answer in zip(found, settled(timed_out), strict=True):
                if isinstance(answer, PlaneError):
                    _log.error("task %s exceeded its waiting limit but could not be ended: %s", uid, answer)
                elif isinstance(answer, Done):
                    ended += 1
            if ended:
                _log.warning("%d tasks ended: they exceeded their time limit in the queue or for an answer", ended)
        return ended
