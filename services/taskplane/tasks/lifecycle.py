"""The life of tasks, as operators see it: lines in the log, and counters of managed tasks."""

import logging
from collections import OrderedDict
from functools import cache
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime import tracing
from taskplane.runtime.plain_metrics import Counter, Histogram
from taskplane.tasks.committed import Changed, Committed
from taskplane.tasks.domain.kinds import CREATED
from taskplane.tasks.domain.task import MANAGED, TERMINAL, Event, Row

_log = logging.getLogger(__name__)

_MOST_TASKS: Final = 10_000

_CREATED: Final = Counter("taskplane_tasks_created", "Tasks created through this process, by agent.", ["agent"])
_ENDED: Final = Counter("taskplane_tasks_ended", "Tasks ended through this process, by state.", ["state"])
_SECONDS: Final = Histogram(
    "taskplane_task_seconds",
    "Seconds from the creation of a task to its end.",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800, 3600, 86_400),
).labels()


class Lifecycle:
    """Logs and counts each creation and each end of a task once, in the process that committed it.

    WORKING is not logged at INFO, since every task passes it: the line of the end names the states that this process
    has seen. A pause is logged.
    """

    def __init__(self) -> None:
        # The states of live tasks, by uid, the oldest task first.
        self._passed: OrderedDict[str, list[str]] = OrderedDict()

    def committed(self, commit: Committed) -> None:
        """Take in one commit."""
        for change in commit.changes:
            self._noted(change)
        for change in commit.deleted:
            self._noted(change)
            self._passed.pop(change.row.uid, None)

    def _noted(self, change: Changed) -> None:
        row = change.row
        for event in change.events:
            state = event.changed_to
            if state is None:
                continue
            name = state_name(state)
            if row.origin != MANAGED:
                _line("task stored" if event.generation == 1 else "task state changed", row, event, name)
            elif event.kind == CREATED:
                _CREATED.labels(row.agent).value += 1
                self._pass(row.uid, name)
                _line("task created", row, event, name)
            elif state in TERMINAL:
                seconds = (event.created_at - row.created_at) / 1_000_000
                _ENDED.labels(name).value += 1
                _SECONDS.observe(seconds)
                passed = [*self._passed.pop(row.uid, ()), name]
                _line("task ended", row, event, name, states=" ".join(passed), ms=round(seconds * 1000, 1))
            else:
                self._pass(row.uid, name)
                level = logging.DEBUG if state == a2a.TASK_STATE_WORKING else logging.INFO
                _line("task state changed", row, event, name, level)

    def _pass(self, uid: str, name: str) -> None:
        passed = self._passed.get(uid)
        if passed is not None:
            passed.append(name)
            return
        self._passed[uid] = [name]
        if len(self._passed) > _MOST_TASKS:
            # Tasks that ended in another process are never removed.
            self._passed.popitem(last=False)


def _line(text: str, row: Row, event: Event, state: str, level: int = logging.INFO, **more: object) -> None:
    if _log.isEnabledFor(level):
        fields = {**_fields(row, event, state), **more}
        # Without the search for the caller that `log` makes: no line of ours names it.
        _log.handle(_log.makeRecord(_log.name, level, __file__, 0, text, (), None, extra=fields))


def _fields(row: Row, event: Event, state: str) -> dict[str, object]:
    trace = tracing.trace_id_of(tracing.unpack(event.trace)) if event.trace is not None else ""
    return {
        "task_id": row.id,
        "context_id": row.context_id,
        "agent": row.agent,
        "attempt": row.attempt,
        "state": state,
        "trace_id": trace,
    }


@cache
def state_name(state: int) -> str:
    """Return the name of a task state as clients of A2A 0.3 write it, for example `input-required`."""
    name = a2a.TaskState.Name(a2a.TaskState.ValueType(state))
    return name.removeprefix("TASK_STATE_").lower().replace("_", "-")
