"""The strategies for a new task if its session has SUBMITTED or WORKING tasks of the same agent."""

from taskplane.runtime.errors import PlaneError, Refused
from taskplane.tasks.domain.commands import Create, Found, Write
from taskplane.tasks.domain.ending import canceled
from taskplane.tasks.domain.task import ACTIVE


def session_busy(op: Create) -> PlaneError:
    """Return the error for a second task where the strategy is REJECT."""
    return Refused(
        f"{op.agent} is running in this session already",
        reason="SESSION_BUSY",
        suggestion="wait for the end of its task, or cancel it",
    )


def interrupted(found: Found, op: Create, now: int) -> list[Write]:
    """Return the writes that cancel the other tasks."""
    writes: list[Write] = []
    for other in found.others:
        row = other.row
        if row is not None and row.state in ACTIVE:
            draft = canceled(row, op.scope, now, other.open_text)
            writes.append(draft.write(draft.finished(), None, refold=True))
    return writes
