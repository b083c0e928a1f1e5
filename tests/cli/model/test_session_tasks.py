"""The model of a session: its tasks and their states."""

from typing import Any

import pytest

from taskplane.cli.model.session_tasks import SessionTasks, StateChange, TaskInfo, read_session_tasks, read_task_info
from taskplane.client.states import State


def states(session: SessionTasks) -> list[tuple[str, State]]:
    return [(task.id, task.state) for task in session.tasks]


def test_m10_tasks_are_added_updated_with_their_error_and_found() -> None:
    session = SessionTasks("c", "http://127.0.0.1:8080")
    session.add("t1", "submitted", "2030-01-01T00:00:00Z")
    session.update("t1", "working", at="2030-01-01T00:00:01Z")
    session.update("t1", "failed", "out of luck", "2030-01-01T00:00:03Z")
    session.add("t2", "submitted")
    assert states(session) == [("t1", "failed"), ("t2", "submitted")]
    first = session.find("t1")
    assert first is not None
    assert (first.error, first.created_at, first.completed_at) == (
        "out of luck",
        "2030-01-01T00:00:00Z",
        "2030-01-01T00:00:03Z",
    )
    assert [change.state for change in first.changes] == ["submitted", "working", "failed"]
    assert session.find("t3") is None
    with pytest.raises(KeyError):
        session.update("t3", "working")


def test_m3_the_latest_incomplete_task_is_the_newest_pending_or_working_one() -> None:
    session = SessionTasks("c")
    assert (session.latest, session.latest_incomplete) == (None, None)
    session.add("t1", "input-required")
    session.add("t2", "completed")
    assert session.latest is session.find("t2")
    assert session.latest_incomplete is session.find("t1")
    assert not session.running
    session.update("t1", "canceled")
    assert session.latest_incomplete is None


@pytest.mark.parametrize("late", ["submitted", "working", "input-required", "completed", "unknown"])
def test_m4_a_terminal_state_is_final_against_later_states(late: State) -> None:
    session = SessionTasks("c")
    session.add("t1", "canceled", "2030-01-01T00:00:00Z")
    session.add("t1", late, "2030-01-01T00:00:09Z")
    (task,) = session.tasks
    assert (task.state, task.updated_at) == ("canceled", "2030-01-01T00:00:00Z")
    assert task.changes == [StateChange("canceled", "2030-01-01T00:00:00Z")]


def test_m9_two_turns_make_two_tasks_and_the_newest_is_the_incomplete_one() -> None:
    session = SessionTasks("c")
    session.add("t1", "working")
    session.update("t1", "completed")
    assert session.latest_incomplete is None
    session.add("t2", "working")
    assert states(session) == [("t1", "completed"), ("t2", "working")]
    assert session.latest_incomplete is session.find("t2")


def test_m10_a_listed_session_is_read_with_times_and_pauses() -> None:
    """M1, M2: a task that waits for the user is `working` with `paused`."""
    changes = [{"state": "pending", "at": "a"}, {"state": "working", "at": "b"}, "junk"]
    session = read_session_tasks(
        {
            "contextId": "c",
            "agentEndpoint": "http://x",
            "tasks": [
                {"taskId": "t1", "state": "failed", "createdAt": "a", "completedAt": "b", "error": "broken"},
                {"taskId": "t2", "state": "working", "paused": True, "changes": changes},
                {"taskId": "t3", "state": "cancelled", "superseded": True},
            ],
        }
    )
    assert (session.context_id, session.agent_endpoint) == ("c", "http://x")
    assert states(session) == [("t1", "failed"), ("t2", "input-required"), ("t3", "canceled")]
    assert (session.tasks[0].error, session.tasks[0].completed_at) == ("broken", "b")
    assert session.tasks[1].changes == [StateChange("submitted", "a"), StateChange("working", "b")]
    assert session.tasks[2].superseded


@pytest.mark.parametrize(
    ("stored", "tasks"),
    [
        ({"contextId": "c", "taskId": "t1"}, [("t1", "unknown")]),
        ({"contextId": "c", "taskId": "t1", "state": "TASK_STATE_COMPLETED"}, [("t1", "completed")]),
        ({"contextId": "c", "taskId": "t0", "tasks": [{"taskId": "t1", "state": "completed"}]}, [("t1", "completed")]),
        ({"contextId": "c", "taskId": "t1", "tasks": None}, [("t1", "unknown")]),
        ({"contextId": "c"}, []),
        ({"contextId": "c", "tasks": []}, []),
        (
            {"contextId": "c", "tasks": [None, 7, {}, {"taskId": 7}, {"id": "t1", "state": "success"}]},
            [("t1", "completed")],
        ),
        ({"contextId": "c", "tasks": [{"taskId": "t1", "state": "failed"}, {"taskId": "t1"}]}, [("t1", "failed")]),
    ],
)
def test_m10_a_session_stored_by_an_older_client_is_read(
    stored: dict[str, Any], tasks: list[tuple[str, State]]
) -> None:
    """M6: a session without tasks is read as empty, not refused."""
    session = read_session_tasks(stored)
    assert (session.context_id, states(session)) == ("c", tasks)


@pytest.mark.parametrize("stored", [None, 7, "text", [], {}])
def test_m10_json_that_is_not_a_session_is_read_as_an_empty_session(stored: object) -> None:
    session = read_session_tasks(stored)
    assert (session.context_id, session.tasks) == ("", [])


def test_a_task_info_without_an_id_is_ignored() -> None:
    assert read_task_info({"state": "working"}) is None
    assert read_task_info({"taskId": "t", "state": "working"}) == TaskInfo("t", "working")
