"""Queued tasks in the order in which they are given to executors: the principals who wait take turns.

The queue is read along an index by principal, a few entries of each, so that a round costs the same however many tasks
one of them has queued.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, bindparam, func, or_, select, tuple_

from taskplane.storage.lists import one_of
from taskplane.tasks.sql.clock import LeaseClock
from taskplane.tasks.sql.statements import IN_ITS_WAY
from taskplane.tasks.store import Claimable
from taskplane.tasks.tables import lease, task

Principal = tuple[str, str]
# Principals of one round; the next one goes on after the last that was given something.
_PRINCIPALS: Final = 32

_queued: Final = (one_of(task.c.agent, "agents"), task.c.ready_at.is_not(None))
_NEXT_PRINCIPAL: Final = (
    select(task.c.tenant, task.c.owner)
    .where(*_queued, tuple_(task.c.tenant, task.c.owner) > tuple_(bindparam("tenant"), bindparam("owner")))
    .order_by(task.c.tenant, task.c.owner)
    .limit(1)
)
# It returns tasks whose time has not come, too, to tell how long that takes.
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


def claimable(conn: Connection, clock: LeaseClock, agents: Sequence[str], limit: int, after: Principal) -> Claimable:
    """Implement `TaskLog.claimable`."""
    if not agents:
        return Claimable((), None)
    now = clock.now(conn)
    principals = _waiting(conn, agents, after)
    running = _running(conn, principals) if len(principals) > 1 else {}
    order: list[tuple[int, int, int, str]] = []
    later: list[int] = []
    for place, (tenant, owner) in enumerate(principals):
        of = {"agents": agents, "tenant": tenant, "owner": owner, "limit": max(1, limit // len(principals))}
        count = running.get((tenant, owner), 0)
        for uid, ready_at in conn.execute(_OF_PRINCIPAL, of):
            if ready_at > now:
                later.append(ready_at - now)
                break
            order.append((count, place, ready_at, uid))
            count += 1
    due = sorted(order)[:limit]
    wait = min(later) / 1_000_000 if later else None
    return Claimable([uid for *_, uid in due], wait, [principals[place] for _, place, *_ in due])


def _waiting(conn: Connection, agents: Sequence[str], after: Principal) -> Sequence[Principal]:
    """Return principals with queued tasks, those after the given one first."""
    found: dict[Principal, None] = {}
    at, wrapped = after, after == ("", "")
    while len(found) < _PRINCIPALS:
        row = conn.execute(_NEXT_PRINCIPAL, {"agents": agents, "tenant": at[0], "owner": at[1]}).one_or_none()
        if row is not None and (row[0], row[1]) not in found:
            at = (row[0], row[1])
            found[at] = None
        elif row is None and not wrapped:
            at, wrapped = ("", ""), True
        else:
            break
    return list(found)


def _running(conn: Connection, principals: Sequence[Principal]) -> dict[Principal, int]:
    return {(tenant, owner): count for tenant, owner, count in conn.execute(_RUNNING, {"principals": principals})}
