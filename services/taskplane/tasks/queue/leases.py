"""Leases: how long they last, renewing them, giving them up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from taskplane.runtime.errors import DeadlineExceeded, Exhausted, PlaneError, Unavailable
from taskplane.tasks.domain.commands import Answer, Orphan, Renew, Renewed
from taskplane.tasks.domain.task import Row
from taskplane.tasks.store import QueueLog

# How the id of an executor begins that lives in the process of a store that is alone on its database.
RESIDENT: Final = "resident:"
Held = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Renewal:
    """One Renew of the resident executor: when, by the clock of leases, and what it named."""

    at: int
    uids: frozenset[str]


class Leases:
    """The leases of all executors, by the clock of the log.

    `resident`: the process id of the executor that lives and dies with this store, if there is one; a lease of it that
    it still lists is never taken away, since a busy event loop is no death.
    """

    def __init__(self, log: QueueLog, *, ttl: float, resident: str | None = None) -> None:
        self._log = log
        self._resident = resident
        self._renewals: tuple[_Renewal, ...] = ()
        self.ttl = ttl

    async def until(self) -> int:
        """The end of a lease taken now, by the clock of the log, microseconds."""
        return await self._log.now() + self._ttl_us

    @property
    def _ttl_us(self) -> int:
        return int(self.ttl * 1_000_000)

    async def renew(self, process_id: str, held: Sequence[Held]) -> list[Renewed]:
        """Extends each lease (uid, fence) that is still this process's; in the order given.

        An error of one is an error of all: nobody is told that a lease is lost which may not be.
        """
        now = await self._log.now()
        if process_id == self._resident:
            self._renewals = (*self._renewals[-1:], _Renewal(now, frozenset(uid for uid, _ in held)))
        operations = [
            Renew(task_uid=uid, process_id=process_id, fence=fence, lease_until=now + self._ttl_us)
            for uid, fence in held
        ]
        return [_renewed(answer) for answer in await self._log.submit_all(operations)]

    async def release(self, process_id: str, held: Sequence[Held], *, lost: bool = False) -> None:
        """Gives the leases up; those that are no longer this process's are left alone. `lost`: the attempts count.

        Unavailable, Exhausted.
        """
        settled(
            await self._log.submit_all(
                [Orphan(task_uid=uid, process_id=process_id, fence=fence, released=not lost) for uid, fence in held]
            )
        )

    async def adopt(self) -> None:
        """What a store that is alone on its database does before it serves.

        Executors that lived in a process of before are dead, so their tasks are orphans at once. Every other lease
        starts again, because the clock that it was written by is gone.
        """
        rows = await self._log.held(None)
        until = await self.until()
        settled(await self._log.submit_all([_adopted(row, until) for row in rows]))

    def spared(self, row: Row) -> bool:
        """Whether this lease stays although it ran out.

        True for the resident executor, unless it has left the task out of its last two renewals, both made since the
        lease was taken or last renewed: then it does not know of the lease, or has given it up.
        """
        if self._resident is None or row.lease_owner != self._resident:
            return False
        taken = (row.lease_until or 0) - self._ttl_us
        missing = [renewal for renewal in self._renewals if renewal.at > taken and row.uid not in renewal.uids]
        return len(missing) < 2


def settled(answers: Sequence[Answer | PlaneError]) -> list[Answer | PlaneError]:
    """The answers; raises the first error that says nothing about its operation, so that all may be tried again.

    Other errors concern one operation only and stand among the answers.
    """
    for answer in answers:
        if isinstance(answer, (Unavailable, Exhausted, DeadlineExceeded)):
            raise answer
    return list(answers)


def _renewed(answer: Answer | PlaneError) -> Renewed:
    if isinstance(answer, PlaneError):
        raise answer
    if not isinstance(answer, Renewed):
        raise TypeError(f"the log answered a renewal with {type(answer).__name__}")
    return answer


def _adopted(row: Row, until: int) -> Orphan | Renew:
    owner = row.lease_owner or ""
    if owner.startswith(RESIDENT):
        return Orphan(task_uid=row.uid, process_id=owner, fence=row.fence)
    return Renew(task_uid=row.uid, process_id=owner, fence=row.fence, lease_until=until)
