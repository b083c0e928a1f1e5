"""The five task states of the session routes, with a flag for tasks that wait for the user."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.translate.documents import state_of


class InfoState(NamedTuple):
    """A state: `name` is pending, working, completed, failed or cancelled. `paused`: the task waits for an answer or a
    login."""

    name: str
    paused: bool = False


_PENDING: Final = InfoState("pending")
_STATES: Final[dict[int, InfoState]] = {
    a2a.TASK_STATE_SUBMITTED: _PENDING,
    a2a.TASK_STATE_WORKING: InfoState("working"),
    a2a.TASK_STATE_INPUT_REQUIRED: InfoState("working", paused=True),
    a2a.TASK_STATE_AUTH_REQUIRED: InfoState("working", paused=True),
    a2a.TASK_STATE_COMPLETED: InfoState("completed"),
    a2a.TASK_STATE_FAILED: InfoState("failed"),
    a2a.TASK_STATE_REJECTED: InfoState("failed"),
    a2a.TASK_STATE_CANCELED: InfoState("cancelled"),
}


def info_state(state: int | str) -> InfoState:
    """Return the state for an A2A state, given as a number or by name in any case and spelling; pending if it is
    unknown."""
    number = state_of(state) if isinstance(state, str) else state
    return _STATES.get(number or 0, _PENDING)


def counts(states: Iterable[pb.StateCount]) -> dict[str, int]:
    """Return the number of tasks by state, without states that no task has."""
    found: Counter[str] = Counter()
    for one in states:
        found[info_state(one.state).name] += one.count
    return dict(found)
