"""Leases: how long they last, renewing them, giving them up."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from taskplane.runtime.errors import DeadlineExceeded, Exhausted, PlaneError, Unavailable
from taskplane.runtime.failpoints import afp
from taskplane.tasks.domain.commands import Answer, Created, Orphan
from taskplane.tasks.domain.task import Lease
from taskplane.tasks.store import Held, QueueLog, Renewed

# The beginning of the id of an executor in the process of a store that is alone on its database.
RESIDENT: Final = "resident:"


@dataclass(frozen=True, slots=True)
class _Renewal:
    """One Renew call of the resident executor: its time by the clock of leases, and its leases."""

    at: int
    uids: frozenset[str]


class Leases:
    """The leases of all executors, by the clock of the log.

    `resident`: the process id of the executor in the process of this store, if there is one. A lease that it still
    renews is never taken away, since a blocked event loop is not a lost process.
    """

    def __init__(self, log: QueueLog, *, ttl: float, resident: str | None = None) -> None:
        self._log = log
        self._resident = resident
        self._renewals: tuple[_Renewal, ...] = ()
        self.ttl = ttl

    async def until(self) -> int:
        """Return the end of a lease taken now, by the clock of the log, microseconds."""
        return await self._log.now() + self._ttl_us

    @property
    def _ttl_us(self) -> int:
        return int(self.ttl * 1_000_000)

    async def left(self, uid: str, created: Created) -> float:
        """Return for how many seconds from now the lease lasts that a creation was answered with."""
        return self.ttl if created.created else await self._log.lease_left(uid, created.fence)

    async def announce(self, process_id: str, capacity: int, agents: Collection[str]) -> None:
        """Note that the process takes tasks of these agents from the queue from now on, and how many it runs at
        once."""
        await self._log.announce(process_id, await self.until(), capacity, agents)

    async def renew(self, process_id: str, held: Sequence[Held]) -> Sequence[Renewed]:
        """Extend each lease that is still this process's; return the results, in the order given."""
        now = await self._log.now()
        if process_id == self._resident:
            self._renewals = (*self._renewals[-1:], _Renewal(now, frozenset(uid for uid, _ in held)))
        await afp("renew.before_write")
        return await self._log.renew(process_id, held, now + self._ttl_us)

    async def release(self, process_id: str, held: Sequence[Held], *, lost: bool = False) -> None:
        """Give up the leases.

        Leases that the process no longer holds are not changed. `lost`: the attempts count. Raise Unavailable or
        Exhausted.
        """
        settled(
            await self._log.submit_all(
                [Orphan(task_uid=uid, process_id=process_id, fence=fence, released=not lost) for uid, fence in held]
            )
        )

    async def adopt(self) -> None:
        """Take over the leases of a store that is alone on its database, before it serves.

        Executors in an earlier process of this store are lost, so their tasks are orphans at once. Every other lease
        starts again, because the clock that it was written by is gone.
        """
        dead = [each for each in await self._log.held() if each.owner.startswith(RESIDENT)]
        orphans = [Orphan(task_uid=each.task_uid, process_id=each.owner, fence=each.fence) for each in dead]
        settled(await self._log.submit_all(orphans))
        await self._log.restart_leases(await self.until())

    def spared(self, lease: Lease) -> bool:
        """Return whether this lease stays although it ran out.

        True for the resident executor, unless it has left the task out of its last two renewals, both made since the
        lease was taken or last renewed: then it does not know of the lease, or has given it up.
        """
        if self._resident is None or lease.owner != self._resident:
            return False
        taken = lease.lease_until - self._ttl_us
        missing = [each for each in self._renewals if each.at > taken and lease.task_uid not in each.uids]
        return len(missing) < 2


def settled(answers: Sequence[Answer | PlaneError]) -> list[Answer | PlaneError]:
    """Return the answers.

    An error of a single operation is its answer. Raise the first error that is not about its operation; then all
    operations may be repeated.
    """
    for answer in answers:
        if isinstance(answer, (Unavailable, Exhausted, DeadlineExceeded)):
            raise answer
    return list(answers)
