"""Finds tasks that wait although no process runs their agent."""

from typing import Final

from taskplane.tasks.domain.task import Row
from taskplane.tasks.store import ServingLog

# Microseconds in the queue before anything is asked: a task that is taken at once costs nothing.
_MOMENT: Final = 1_000_000


async def is_unserved(log: ServingLog, row: Row) -> bool:
    """Return whether the task has been queued for a second or more and no living process runs its agent."""
    if row.ready_at is None or await log.now() - row.ready_at < _MOMENT:
        return False
    return bool(await log.unserved([row.agent]))
