"""The model of a session: its tasks, oldest first (M1, M2, M3, M10).

Messages are in `conversation`. `read_session_tasks` reads the JSON of a server's list and of older clients.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from taskplane.client.events import read_object, read_objects, read_text
from taskplane.client.states import ACTIVE, TERMINAL, State, state_of


@dataclass(frozen=True, slots=True)
class StateChange:
    """A state and the time it began, as ISO-8601; empty if it is not known."""

    state: State
    at: str = ""


@dataclass(slots=True)
class TaskInfo:
    """A task of the session: its last known state, its error, and its times as ISO-8601 if they are known."""

    id: str
    state: State
    error: str = ""
    created_at: str = ""
    updated_at: str = ""
    completed_at: str = ""
    superseded: bool = False
    changes: list[StateChange] = field(default_factory=list[StateChange])


class SessionTasks:
    """The tasks of one session, oldest first, each id once."""

    def __init__(self, context_id: str = "", agent_endpoint: str = "", tasks: Iterable[TaskInfo] = ()) -> None:
        """Create a session; `context_id` is empty until it is known. Of two tasks with one id the first is kept."""
        self.context_id = context_id
        self.agent_endpoint = agent_endpoint
        first: dict[str, TaskInfo] = {}
        for task in tasks:
            first.setdefault(task.id, task)
        self.tasks = list(first.values())

    @property
    def latest(self) -> TaskInfo | None:
        """Return the newest task."""
        return self.tasks[-1] if self.tasks else None

    @property
    def latest_incomplete(self) -> TaskInfo | None:
        """Return the newest task that is not terminal, the only one worth resubscribing to (M3, M5)."""
        return next((task for task in reversed(self.tasks) if task.state not in TERMINAL), None)

    @property
    def running(self) -> bool:
        """Return whether a task is submitted or working."""
        return any(task.state in ACTIVE for task in self.tasks)

    def find(self, task_id: str) -> TaskInfo | None:
        """Return the task with this id, if it is known."""
        return next((task for task in self.tasks if task.id == task_id), None)

    def add(self, task_id: str, state: State, at: str = "") -> TaskInfo:
        """Add a task as the newest one, or update it if it is known already."""
        if self.find(task_id) is None:
            self.tasks.append(TaskInfo(task_id, state, created_at=at, updated_at=at, changes=[StateChange(state, at)]))
        return self.update(task_id, state, at=at)

    def update(self, task_id: str, state: State, error: str = "", at: str = "") -> TaskInfo:
        """Record the state of a known task and why it failed. Terminal states are final (M4). Raise KeyError for an
        unknown task."""
        task = self.find(task_id)
        if task is None:
            raise KeyError(task_id)
        if task.state in TERMINAL and state != task.state:
            return task
        if task.state != state:
            task.changes.append(StateChange(state, at))
        task.state = state
        task.updated_at = at or task.updated_at
        if state in TERMINAL:
            task.completed_at = task.completed_at or at
        if state in ("failed", "rejected"):
            task.error = error or task.error
        return task

    def remove(self, task_ids: Iterable[str]) -> None:
        """Remove tasks, as after a rewind."""
        gone = set(task_ids)
        self.tasks = [task for task in self.tasks if task.id not in gone]


def read_session_tasks(stored: object) -> SessionTasks:
    """Return the session for its JSON, `{contextId, agentEndpoint, tasks}`, written by a server or a client of any
    version.

    A client that knew one task per session stored its `taskId`; an older one stored none. Unreadable tasks are left
    out.
    """
    body = read_object(stored) or {}
    tasks = body.get("tasks")
    if not isinstance(tasks, list):
        tasks = [{"taskId": body.get("taskId"), "state": body.get("state")}]
    infos = map(read_task_info, cast("list[object]", tasks))
    return SessionTasks(
        read_text(body, "contextId"), read_text(body, "agentEndpoint"), (info for info in infos if info is not None)
    )


def read_task_info(stored: object) -> TaskInfo | None:
    """Return the TaskInfo for its JSON; None without an id. A working task that is `paused` waits for the user; a
    failed task that is `rejected` was never begun."""
    body = read_object(stored) or {}
    task_id = read_text(body, "taskId") or read_text(body, "id")
    if not task_id:
        return None
    return TaskInfo(
        id=task_id,
        state=_state(body),
        error=read_text(body, "error"),
        created_at=read_text(body, "createdAt"),
        updated_at=read_text(body, "updatedAt"),
        completed_at=read_text(body, "completedAt"),
        superseded=body.get("superseded") is True,
        changes=[
            StateChange(_state(change), read_text(change, "at"))
            for change in read_objects(body.get("changes"))
            if change
        ],
    )


def _state(body: Mapping[str, object]) -> State:
    state = state_of(body.get("state"))
    if body.get("rejected") is True:
        return "rejected"
    return "input-required" if body.get("paused") is True and state in ACTIVE else state
