"""Counts of tasks that have not ended, each from an index of only those."""

from typing import Final

from sqlalchemy import Connection, bindparam, func, select, text

from taskplane.tasks.domain.task import PAUSED
from taskplane.tasks.sql.clock import LeaseClock
from taskplane.tasks.store import OpenTasks, Queued
from taskplane.tasks.tables import UNCOPIED, WAITING, executor, lease, task

_QUEUED: Final = (
    select(task.c.agent, func.count(), func.min(task.c.ready_at))
    .where(task.c.ready_at.is_not(None))
    .group_by(task.c.agent)
)
_LEASED: Final = select(func.count()).select_from(lease)
_PAUSED: Final = select(task.c.state, func.count()).where(text(WAITING)).group_by(task.c.state)
_UNCOPIED: Final = select(func.count()).select_from(task).where(text(UNCOPIED))
_EXECUTORS: Final = select(func.count()).select_from(executor).where(executor.c.alive_until > bindparam("now"))


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
