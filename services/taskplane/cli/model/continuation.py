"""The task that the next message belongs to: a task that waits or runs, or a new task (I3, I6)."""

from collections.abc import Sequence
from dataclasses import dataclass

from taskplane.cli.model.session_tasks import TaskInfo
from taskplane.client.states import TERMINAL


@dataclass(frozen=True, slots=True)
class Continuation:
    """The references of a message to earlier tasks; at most one of the two is set."""

    task_id: str = ""
    reference_task_ids: Sequence[str] = ()


def continuation(last: TaskInfo | None) -> Continuation:
    """Return the references of the next message, by the last known state of the session's newest task.

    Paused (`input-required`, `auth-required`): the message is the answer, so it names that task. Submitted or working:
    it names that task too, which gives it a further turn before it may complete. Terminal: the message begins a new
    task that refers to the last one, since a terminal task takes no message. No task yet, as after direct answers only:
    neither. An unknown state counts as running: if it is not, the server refuses and nothing is changed.
    """
    if last is None:
        return Continuation()
    if last.state in TERMINAL:
        return Continuation(reference_task_ids=(last.id,))
    return Continuation(task_id=last.id)
