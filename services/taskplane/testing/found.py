"""The outcome of a turn, read from the stores."""

import json
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

from taskplane.agents import agent as port
from taskplane.agents.states import AT_REST
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import USAGE
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.executor.session_log import SessionLog
from taskplane.executor.task_log import PAGE
from taskplane.runtime.errors import NotFound
from taskplane.runtime.json_values import text_in, to_dict
from taskplane.testing.plane import CONTEXT, Plane
from taskplane.testing.result import MadeArtifact

_STATES: Final = {
    a2a.TASK_STATE_COMPLETED: "completed",
    a2a.TASK_STATE_FAILED: "failed",
    a2a.TASK_STATE_REJECTED: "rejected",
    a2a.TASK_STATE_CANCELED: "canceled",
    a2a.TASK_STATE_INPUT_REQUIRED: "input-required",
    a2a.TASK_STATE_AUTH_REQUIRED: "auth-required",
}


async def at_rest(plane: Plane, task_id: str) -> None:
    """Wait until a task has ended or waits for its user."""
    request = tasks.WatchTaskRequest(task_id=task_id, stop_at=sorted(AT_REST), end_only=True)
    async for _ in plane.tasks.WatchTask(request):
        pass


async def read_task(plane: Plane, task_id: str) -> a2a.Task:
    """Return a task as its user reads it. NotFound."""
    return (await plane.tasks.GetTask(tasks.GetTaskRequest(task_id=task_id))).record.task


def message_ids(task: a2a.Task) -> Set[str]:
    """Return the ids of all messages of a task."""
    return {message.message_id for message in (*task.history, task.status.message)}


async def found_of_task(plane: Plane, task: a2a.Task, before: Set[str]) -> dict[str, Any]:
    """Return the fields of a result that the task has. `before`: ids of the messages of earlier turns."""
    said = [
        message
        for message in (*task.history, task.status.message)
        if message.role == a2a.ROLE_AGENT and message.message_id not in before
    ]
    return {
        "state": _STATES[task.status.state],
        "text": "\n".join(text for message in said if (text := port.text_of(message))),
        "messages": tuple(said),
        "reason": await _reason(plane, task.id),
        "task": task,
        "artifacts": {artifact.artifact_id: _artifact(artifact) for artifact in task.artifacts},
        "status_texts": await _status_texts(plane, task.id),
        "usage": _usage(task),
        "checkpoint": await _checkpoint(plane, task.id),
    }


async def found_of_session(plane: Plane) -> dict[str, Any]:
    """Return the fields of a result that come from the session; empty if the turn was refused before it was saved."""
    log = SessionLog(plane.sessions)
    try:
        entries = await log.runtime_events(CONTEXT)
        state = to_dict(await log.state(CONTEXT))
    except NotFound:
        return {"session_events": [], "session_state": {}}
    return {"session_events": [json.loads(entry.data) for entry in entries], "session_state": state}


async def _newest(plane: Plane, task_id: str, kind: "tasks.EventKind.ValueType") -> tasks.Event | None:
    request = tasks.ListEventsRequest(task_id=task_id, kinds=[kind], newest_first=True, limit=1)
    events = (await plane.store.ListEvents(request)).events
    return events[0] if events else None


async def _reason(plane: Plane, task_id: str) -> str:
    event = await _newest(plane, task_id, tasks.EVENT_KIND_STATUS)
    return "" if event is None else text_in(event.event.status_update.metadata, "reason")


async def _checkpoint(plane: Plane, task_id: str) -> Any:
    event = await _newest(plane, task_id, tasks.EVENT_KIND_CHECKPOINT)
    return json.loads(event.checkpoint) if event is not None else None


async def _status_texts(plane: Plane, task_id: str) -> Sequence[str]:
    texts: list[str] = []
    request = tasks.ListEventsRequest(task_id=task_id, status_messages=True, limit=PAGE)
    while True:
        page = (await plane.store.ListEvents(request)).events
        texts += [port.text_of(event.event.status_update.status.message) for event in page]
        if len(page) < PAGE:
            return tuple(texts)
        request.after_generation = page[-1].generation


def _usage(task: a2a.Task) -> Mapping[str, float]:
    fields = task.metadata.fields
    return to_dict(fields[USAGE].struct_value) if USAGE in fields else {}


def _artifact(artifact: a2a.Artifact) -> MadeArtifact:
    return MadeArtifact(
        id=artifact.artifact_id,
        name=artifact.name,
        description=artifact.description,
        parts=tuple(artifact.parts),
        metadata=to_dict(artifact.metadata),
    )
