"""What a new task does about those of its agent in its session that are SUBMITTED or WORKING."""

from typing import Final

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import PlaneError, Refused
from taskplane.tasks.domain.commands import Create, Found, Write
from taskplane.tasks.domain.ending import canceled
from taskplane.tasks.domain.task import ACTIVE

PARALLEL: Final = int(pb.STRATEGY_PARALLEL)
QUEUE: Final = int(pb.STRATEGY_QUEUE)
REJECT: Final = int(pb.STRATEGY_REJECT)
INTERRUPT: Final = int(pb.STRATEGY_INTERRUPT)


def session_busy(op: Create) -> PlaneError:
    """Why no second task is begun."""
    return Refused(
        f"{op.agent} is at work in this session already",
        reason="SESSION_BUSY",
        suggestion="wait until its task has ended, or cancel it",
    )


def interrupted(found: Found, op: Create, now: int) -> list[Write]:
    """The others, each as it ends."""
    writes: list[Write] = []
    for other in found.others:
        row = other.row
        if row is not None and row.state in ACTIVE:
            draft = canceled(row, op.scope.actor, now, other.open_text)
            writes.append(draft.write(draft.finished(), None, refold=True))
    return writes
