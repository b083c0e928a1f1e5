"""Queued tasks in the order of their assignment to executors: the waiting principals are served in rotation.

The queue is read by an index on the principal, a few tasks of each. So a round costs the same, however many tasks one
principal has queued.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, bindparam, func, or_, select, tuple_

from taskplane.runtime.sharing import Owner
from taskplane.storage.lists import one_of
from taskplane.tasks.sql.clock import LeaseClock
from taskplane.tasks.sql.statements import EARLIER_TASK
from taskplane.tasks.store import Claimable, FreeSlots
from taskplane.tasks.tables import lease, task

# Number of principals in one round. The next round begins after the last principal that got a task.
_PRINCIPALS: Final = 32

_queued: Final = (one_of(task.c.agent, "agents"), task.c.ready_at.is_not(None))
_NEXT_PRINCIPAL: Final = (
    select(task.c.tenant, task.c.owner)
    .where(*_queued, tuple_(task.c.tenant, task.c.owner) > tuple_(bindparam("tenant"), bindparam("owner")))
    .order_by(task.c.tenant, task.c.owner)
    .limit(1)
)
_NEXT_TENANT: Final = (
    select(task.c.tenant, task.c.owner)
    .where(*_queued, task.c.tenant > bindparam("tenant"))
    .order_by(task.c.tenant, task.c.owner)
    .limit(1)
)
# Tasks that are not due yet are returned, too; they are due at `ready_at`.
_OF_PRINCIPAL: Final = (
    select(task.c.uid, task.c.ready_at)
    .where(
        *_queued,
        task.c.tenant == bindparam("tenant"),
        task.c.owner == bindparam("owner"),
        or_(task.c.in_turn.is_(False), EARLIER_TASK.is_(None)),
    )
    .order_by(task.c.ready_at)
    .limit(bindparam("limit"))
)
_RUNNING: Final = (
    select(task.c.tenant, task.c.owner, func.count())
    .select_from(lease.join(task, task.c.uid == lease.c.task_uid))
    .where(tuple_(task.c.tenant, task.c.owner).in_(bindparam("principals", expanding=True)))
    .group_by(task.c.tenant, task.c.owner)
)


def claimable(
    conn: Connection, clock: LeaseClock, agents: Sequence[str], limit: int, after: Owner, slots: FreeSlots | None
) -> Claimable:
    """Implement `TaskLog.claimable`."""
    if not agents:
        return Claimable((), None)
    now = clock.now(conn)
    walk = _PrincipalWalk(conn, agents, slots)
    principals = walk.look(after)
    running = _running(conn, principals) if len(principals) > 1 else {}
    order: list[tuple[int, int, int, str]] = []
    later: list[int] = []
    more = walk.more
    for place, (tenant, owner) in enumerate(principals):
        most_each = max(1, limit // len(principals))
        of = {"agents": agents, "tenant": tenant, "owner": owner, "limit": most_each}
        count = running.get((tenant, owner), 0)
        found = conn.execute(_OF_PRINCIPAL, of).all()
        more = more or len(found) == most_each
        for uid, ready_at in found:
            if ready_at > now:
                later.append(ready_at - now)
                break
            order.append((count, place, ready_at, uid))
            count += 1
    due = sorted(order)[:limit]
    wait = min(later) / 1_000_000 if later else None
    passed_over = frozenset(walk.passed_over)
    return Claimable([uid for *_, uid in due], wait, [principals[place] for _, place, *_ in due], passed_over, more)


class _PrincipalWalk:
    """A search for principals with queued tasks, in their order."""

    def __init__(self, conn: Connection, agents: Sequence[str], slots: FreeSlots | None) -> None:
        self._conn = conn
        self._agents = agents
        self._slots = slots
        self._found: dict[Owner, None] = {}
        self.passed_over: set[Owner] = set()
        # True if there may be more principals.
        self.more = False

    def look(self, after: Owner) -> Sequence[Owner]:
        """Return up to 32 principals that have queued tasks and may have one more slot, beginning after `after`."""
        self._walk(after, None)
        if after != ("", "") and len(self._found) < _PRINCIPALS:
            self._walk(("", ""), after)
        self.more = len(self._found) == _PRINCIPALS
        return list(self._found)

    def _walk(self, at: Owner, last: Owner | None) -> None:
        """Find principals after `at`, up to `last` or to the end.

        A principal that may not have a slot is skipped; a tenant that may not have one is skipped in one step.
        """
        statement, step = _NEXT_PRINCIPAL, {"agents": self._agents, "tenant": at[0], "owner": at[1]}
        while len(self._found) < _PRINCIPALS:
            row = self._conn.execute(statement, step).one_or_none()
            if row is None or (last is not None and tuple(row) > last):
                return
            tenant, owner = row
            statement, step = _NEXT_PRINCIPAL, {"agents": self._agents, "tenant": tenant, "owner": owner}
            if self._slots is None or self._slots.may_have_slot((tenant, owner)):
                self._found[tenant, owner] = None
            elif self._slots.tenant_may_have_slot(tenant):
                self.passed_over.add((tenant, owner))
            else:
                self.passed_over.add((tenant, ""))
                statement, step = _NEXT_TENANT, {"agents": self._agents, "tenant": tenant}


def _running(conn: Connection, principals: Sequence[Owner]) -> dict[Owner, int]:
    return {(tenant, owner): count for tenant, owner, count in conn.execute(_RUNNING, {"principals": principals})}
