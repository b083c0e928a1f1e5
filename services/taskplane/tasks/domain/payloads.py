"""The payloads of events, made of requests as they were sent and of the fields that the store sets."""

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime import message_times
from taskplane.runtime.times import set_time


def new_task(
    task_id: str,
    context_id: str,
    state: int,
    at: int,
    message: bytes,
    metadata: bytes | None,
    *,
    timed: bool = False,
) -> a2a.Task:
    """Return a Task that begins with one serialized message, at `at` (microseconds).

    So does the message, unless it is `timed` already.
    """
    task = a2a.Task(id=task_id, context_id=context_id)
    task.status.state = state  # type: ignore[assignment]
    set_time(task.status.timestamp, at)
    said = task.history.add()
    said.MergeFromString(message)
    _name(said, task_id, context_id, None if timed else at)
    if metadata is not None:
        task.metadata.MergeFromString(metadata)
    return task


def message_payload(message: bytes, task_id: str, context_id: str, at: int) -> bytes:
    """Return the serialized StreamResponse of a serialized Message, at `at` (microseconds)."""
    response = a2a.StreamResponse()
    response.message.MergeFromString(message)
    _name(response.message, task_id, context_id, at)
    return response.SerializeToString()


def artifact_payload(update: bytes, task_id: str, context_id: str) -> bytes:
    """Return the serialized StreamResponse of a serialized TaskArtifactUpdateEvent."""
    response = a2a.StreamResponse()
    artifact = response.artifact_update
    artifact.MergeFromString(update)
    artifact.task_id, artifact.context_id = task_id, context_id
    return response.SerializeToString()


def status_payload(
    update: bytes,
    task_id: str,
    context_id: str,
    at: int,
    *,
    timed: bool = False,
    role: int | None = None,
    metadata: bytes = b"",
) -> bytes:
    """Return the serialized StreamResponse of a serialized TaskStatusUpdateEvent, at `at` (microseconds).

    Its message, if there is one, gets the `role`, if one is given, serialized `metadata` beside its own, and the time,
    unless it is `timed` already or has none.
    """
    response = a2a.StreamResponse()
    shown = response.status_update
    shown.MergeFromString(update)
    shown.task_id, shown.context_id = task_id, context_id
    status = shown.status
    if status.HasField("message"):
        message = status.message
        if role is not None:
            message.role = role  # type: ignore[assignment]
        if metadata:
            message.metadata.MergeFromString(metadata)
        _name(message, task_id, context_id, None if timed else at)
    set_time(status.timestamp, at)
    return response.SerializeToString()


def reopening(message: bytes, state: int) -> bytes:
    """Return a serialized TaskStatusUpdateEvent with a serialized Message."""
    update = a2a.TaskStatusUpdateEvent()
    update.status.state = state  # type: ignore[assignment]
    update.status.message.MergeFromString(message)
    return update.SerializeToString()


def _name(message: a2a.Message, task_id: str, context_id: str, at: int | None) -> None:
    """Set the ids of the task, and the time if one is given."""
    message.task_id, message.context_id = task_id, context_id
    if at is not None:
        message.metadata.MergeFromString(message_times.serialized(at))
