"""Counts of tasks that have not ended, each from an index that has only such tasks."""

from typing import Final

from sqlalchemy import Connection, bindparam, func, select, text

from taskplane.tasks.domain.commands import QueueLimits
from taskplane.tasks.domain.task import PAUSED
from taskplane.tasks.sql.clock import LeaseClock
from taskplane.tasks.store import OpenTasks, Queued
from taskplane.tasks.tables import UNCOPIED, WAITING, executor, lease, task

_QUEUED: Final = (
    select(task.c.agent, func.count(), func.min(task.c.ready_at))
    .where(task.c.ready_at.is_not(None))
    .group_by(task.c.agent)
)
_some = select(task.c.uid).where(task.c.ready_at.is_not(None), task.c.tenant == bindparam("tenant"))
_OF_TENANT: Final = select(func.count()).select_from(_some.limit(bindparam("limit")).subquery())
_OF_OWNER: Final = select(func.count()).select_from(
    _some.where(task.c.owner == bindparam("owner")).limit(bindparam("limit")).subquery()
)
_LEASED: Final = select(func.count()).select_from(lease)
_PAUSED: Final = select(task.c.state, func.count()).where(text(WAITING)).group_by(task.c.state)
_UNCOPIED: Final = select(func.count()).select_from(task).where(text(UNCOPIED))
_EXECUTORS: Final = select(func.count()).select_from(executor).where(executor.c.alive_until > bindparam("now"))


def queued(conn: Connection, tenant: str, owner: str, limits: QueueLimits) -> QueueLimits:
    """Return how many tasks of an owner and of its tenant are queued, each counted up to its limit."""
    counts = [
        conn.execute(query, {"tenant": tenant, "owner": owner, "limit": limit}).scalar_one() if limit else 0
        for query, limit in zip((_OF_OWNER, _OF_TENANT), limits, strict=True)
    ]
    return QueueLimits(*counts)


def open_tasks(conn: Connection, clock: LeaseClock) -> OpenTasks:
    """Implement `TaskLog.open_tasks`."""
    now = clock.now(conn)
    return OpenTasks(
        queued=[
            Queued(agent, tasks, max(0, now - ready_at) / 1_000_000) for agent, tasks, ready_at in conn.execute(_QUEUED)
        ],
        leased=conn.execute(_LEASED).scalar_one(),
        paused={**dict.fromkeys(PAUSED, 0), **dict(conn.execute(_PAUSED).all())},
        uncopied=conn.execute(_UNCOPIED).scalar_one(),
        executors=conn.execute(_EXECUTORS, {"now": now}).scalar_one(),
    )
