"""Continue a task or begin a new one: the destination of the next message."""

import pytest

from taskplane.cli.model.continuation import Continuation, continuation
from taskplane.cli.model.session_tasks import TaskInfo
from taskplane.client.states import State


@pytest.mark.parametrize("state", ["completed", "failed", "canceled", "rejected"])
def test_i6_after_a_terminal_task_the_message_makes_a_new_task_that_refers_to_the_old_one(state: State) -> None:
    """I3: `referenceTaskIds` names the last task."""
    assert continuation(TaskInfo("t", state)) == Continuation(reference_task_ids=("t",))


@pytest.mark.parametrize("state", ["input-required", "auth-required"])
def test_i6_a_paused_task_is_answered_under_its_own_id(state: State) -> None:
    """I1: a message that names a paused task resumes it."""
    assert continuation(TaskInfo("t", state)) == Continuation(task_id="t")


@pytest.mark.parametrize("state", ["submitted", "working", "unknown"])
def test_i6_a_message_to_a_running_task_is_a_further_turn_of_that_task(state: State) -> None:
    """I1: a message to a running task is answered before the task may complete."""
    assert continuation(TaskInfo("t", state)) == Continuation(task_id="t")


def test_i6_without_a_task_the_message_names_no_task() -> None:
    assert continuation(None) == Continuation()
