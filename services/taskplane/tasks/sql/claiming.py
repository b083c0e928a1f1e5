"""Queued tasks in the order of their assignment to executors: the waiting principals take turns.

The queue is read along an index by principal, a few entries of each, so that a round costs the same however many tasks
one of them has queued.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, bindparam, func, or_, select, tuple_

from taskplane.runtime.sharing import Owner
from taskplane.storage.lists import one_of
from taskplane.tasks.sql.clock import LeaseClock
from taskplane.tasks.sql.statements import IN_ITS_WAY
from taskplane.tasks.store import Claimable, Room
from taskplane.tasks.tables import lease, task

# Principals of one round; the next one goes on after the last that was given something.
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
# It returns tasks that are not due yet, too, with the time until then.
_OF_PRINCIPAL: Final = (
    select(task.c.uid, task.c.ready_at)
    .where(
        *_queued,
        task.c.tenant == bindparam("tenant"),
        task.c.owner == bindparam("owner"),
        or_(task.c.in_turn.is_(False), IN_ITS_WAY.is_(None)),
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
    conn: Connection, clock: LeaseClock, agents: Sequence[str], limit: int, after: Owner, room: Room | None
) -> Claimable:
    """Implement `TaskLog.claimable`."""
    if not agents:
        return Claimable((), None)
    now = clock.now(conn)
    waiting = _Waiting(conn, agents, room)
    principals = waiting.look(after)
    running = _running(conn, principals) if len(principals) > 1 else {}
    order: list[tuple[int, int, int, str]] = []
    later: list[int] = []
    more = waiting.more
    for place, (tenant, owner) in enumerate(principals):
        share = max(1, limit // len(principals))
        of = {"agents": agents, "tenant": tenant, "owner": owner, "limit": share}
        count = running.get((tenant, owner), 0)
        found = conn.execute(_OF_PRINCIPAL, of).all()
        more = more or len(found) == share
        for uid, ready_at in found:
            if ready_at > now:
                later.append(ready_at - now)
                break
            order.append((count, place, ready_at, uid))
            count += 1
    due = sorted(order)[:limit]
    wait = min(later) / 1_000_000 if later else None
    passed_over = frozenset(waiting.passed_over)
    return Claimable([uid for *_, uid in due], wait, [principals[place] for _, place, *_ in due], passed_over, more)


class _Waiting:
    """The walk over the principals with queued tasks."""

    def __init__(self, conn: Connection, agents: Sequence[str], room: Room | None) -> None:
        self._conn = conn
        self._agents = agents
        self._room = room
        self._found: dict[Owner, None] = {}
        self.passed_over: set[Owner] = set()
        # There may be others.
        self.more = False

    def look(self, after: Owner) -> Sequence[Owner]:
        """Return the principals that wait and for whom there is room, beginning after that one, at most a few."""
        self._walk(after, None)
        if after != ("", "") and len(self._found) < _PRINCIPALS:
            self._walk(("", ""), after)
        self.more = len(self._found) == _PRINCIPALS
        return list(self._found)

    def _walk(self, at: Owner, last: Owner | None) -> None:
        """Look at one principal after another, up to the last one or to the end. Those without room cost a step for
        each owner that holds slots, or for each tenant that does."""
        statement, step = _NEXT_PRINCIPAL, {"agents": self._agents, "tenant": at[0], "owner": at[1]}
        while len(self._found) < _PRINCIPALS:
            row = self._conn.execute(statement, step).one_or_none()
            if row is None or (last is not None and tuple(row) > last):
                return
            tenant, owner = row
            statement, step = _NEXT_PRINCIPAL, {"agents": self._agents, "tenant": tenant, "owner": owner}
            if self._room is None or self._room.has_room((tenant, owner)):
                self._found[tenant, owner] = None
            elif self._room.tenant_has_room(tenant):
                self.passed_over.add((tenant, owner))
            else:
                self.passed_over.add((tenant, ""))
                statement, step = _NEXT_TENANT, {"agents": self._agents, "tenant": tenant}


def _running(conn: Connection, principals: Sequence[Owner]) -> dict[Owner, int]:
    return {(tenant, owner): count for tenant, owner, count in conn.execute(_RUNNING, {"principals": principals})}
