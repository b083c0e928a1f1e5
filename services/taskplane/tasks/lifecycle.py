"""The life of tasks, as operators see it: a line in the log for each state, and counters of managed tasks."""

import logging
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime import tracing
from taskplane.runtime.plain_metrics import Counter, Histogram
from taskplane.tasks.committed import Committed
from taskplane.tasks.domain.kinds import CREATED
from taskplane.tasks.domain.task import MANAGED, TERMINAL, Event, Row

_log = logging.getLogger(__name__)

_CREATED: Final = Counter("taskplane_tasks_created", "Tasks created through this process, by agent.", ["agent"])
_ENDED: Final = Counter("taskplane_tasks_ended", "Tasks ended through this process, by state.", ["state"])
_SECONDS: Final = Histogram(
    "taskplane_task_seconds",
    "Seconds from the creation of a task to its end.",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800, 3600, 86_400),
).labels()


class Lifecycle:
    """Logs each state and counts each beginning and each end once, in the process whose commit it was."""

    def committed(self, commit: Committed) -> None:
        """Take in one commit."""
        for change in (*commit.changes, *commit.deleted):
            for event in change.events:
                if event.changed_to is not None:
                    _noted(change.row, event, event.changed_to)


def _noted(row: Row, event: Event, state: int) -> None:
    fields = _fields(row, event, state)
    if event.kind == CREATED:
        _CREATED.labels(row.agent).value += 1
        _log.info("task created", extra=fields)
    elif row.origin == MANAGED and state in TERMINAL:
        seconds = (event.created_at - row.created_at) / 1_000_000
        _ENDED.labels(state_name(state)).value += 1
        _SECONDS.observe(seconds)
        _log.info("task ended", extra={**fields, "ms": round(seconds * 1000, 1)})
    elif event.generation == 1:
        _log.info("task stored", extra=fields)
    else:
        _log.info("task state changed", extra=fields)


def _fields(row: Row, event: Event, state: int) -> dict[str, object]:
    trace = tracing.trace_id_of(tracing.unpack(event.trace))
    return {
        "task_id": row.id,
        "context_id": row.context_id,
        "agent": row.agent,
        "attempt": row.attempt,
        "state": state_name(state),
        "trace_id": trace,
    }


def state_name(state: int) -> str:
    """Return the name of a task state as clients of A2A 0.3 write it, for example `input-required`."""
    name = a2a.TaskState.Name(a2a.TaskState.ValueType(state))
    return name.removeprefix("TASK_STATE_").lower().replace("_", "-")
