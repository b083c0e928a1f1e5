"""Tables of sessions, turns and tasks for a terminal."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from taskplane.cli.model.cut import Turn
from taskplane.cli.model.session_tasks import SessionTasks, TaskInfo
from taskplane.cli.render import one_line, time_text
from taskplane.client.states import state_of


def session_table(sessions: Iterable[dict[str, Any]]) -> list[list[str]]:
    """Return a table of sessions with a header."""
    return [["SESSION", "UPDATED", "AGENT", "STATE", "TASKS", "TITLE"], *map(_session_row, sessions)]


def session_lines(sessions: Sequence[dict[str, Any]], current: str) -> list[list[str]]:
    """Return a table of sessions to choose from: numbered from 1, the `current` one marked."""
    marks = ["*" if session["id"] == current else "" for session in sessions]
    rows = [_session_row(session)[1:] for session in sessions]
    return [[f"{number}{mark}", *row] for number, (mark, row) in enumerate(zip(marks, rows, strict=True), start=1)]


def turn_lines(turns: Iterable[Turn]) -> list[str]:
    """Return the turns of a session with their numbers and invocations."""
    return [f"turn {turn.number:<3} {turn.message.invocation_id}  {one_line(turn.message.text, 60)}" for turn in turns]


def info_table(session: SessionTasks) -> list[list[str]]:
    """Return a table of the tasks of a session with their times, with a header."""
    return [["TASK", "STATE", "CREATED", "TOOK", "ERROR"], *map(_info_row, session.tasks)]


def _session_row(session: dict[str, Any]) -> list[str]:
    last = session.get("lastState")
    state = "input-required" if session.get("paused") else str(state_of(last)) if last else "-"
    return [
        str(session["id"]),
        time_text(str(session.get("updatedAt") or "")),
        str(session.get("agent") or "-"),
        state,
        str(session.get("taskCount") or 0),
        one_line(str(session.get("title") or ""), 60),
    ]


def _info_row(task: TaskInfo) -> list[str]:
    return [task.id, task.state, time_text(task.created_at), _took(task), one_line(task.error)]


def _took(task: TaskInfo) -> str:
    """Return the time from the task's creation to its end."""
    if not (task.created_at and task.completed_at):
        return "-"
    seconds = (datetime.fromisoformat(task.completed_at) - datetime.fromisoformat(task.created_at)).total_seconds()
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)} min {int(seconds % 60)} s"
