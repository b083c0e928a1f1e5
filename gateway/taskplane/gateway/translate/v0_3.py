"""A2A 0.3 as JSON: `kind` discriminators, lower-case states and roles (A2A 0.3.0 section 6)."""

from typing import Any, Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.gateway.translate.dialect import Dialect, Encoded, Payload, Send, TaskQuery, Wait, newest
from taskplane.gateway.translate.fields import Fields, params_of
from taskplane.gateway.translate.parts import read_0_3, to_0_3
from taskplane.gateway.translate.rewinds import expected_version, is_rewind
from taskplane.gateway.translate.struct import fill_metadata, to_dict
from taskplane.gateway.translate.timestamps import to_text
from taskplane.gateway.validation import MAX_PARTS, Violations, check_readable

STATES: Final[dict[int, str]] = {
    a2a.TASK_STATE_UNSPECIFIED: "unknown",
    **{
        value: name.removeprefix("TASK_STATE_").lower().replace("_", "-")
        for name, value in a2a.TaskState.items()
        if value
    },
}
_ROLE_NUMBERS: Final[dict[Any, int]] = {
    "user": a2a.ROLE_USER,
    "agent": a2a.ROLE_AGENT,
    "ROLE_USER": a2a.ROLE_USER,
    "ROLE_AGENT": a2a.ROLE_AGENT,
}
# States in which a status event has `final`: the agent is done or waits for the user.
_FINAL: Final = frozenset(
    {
        a2a.TASK_STATE_COMPLETED,
        a2a.TASK_STATE_FAILED,
        a2a.TASK_STATE_CANCELED,
        a2a.TASK_STATE_REJECTED,
        a2a.TASK_STATE_INPUT_REQUIRED,
    }
)


# --- writing -------------------------------------------------------------------------------------------------------


def message(found: a2a.Message) -> Encoded:
    """Write a Message with its `kind`."""
    out: Encoded = {
        "kind": "message",
        "messageId": found.message_id,
        "role": "user" if found.role == a2a.ROLE_USER else "agent",
        "parts": [to_0_3(part) for part in found.parts[:]],
    }
    if context_id := found.context_id:
        out["contextId"] = context_id
    if task_id := found.task_id:
        out["taskId"] = task_id
    if found.HasField("metadata"):
        out["metadata"] = to_dict(found.metadata)
    if extensions := found.extensions:
        out["extensions"] = list(extensions)
    if references := found.reference_task_ids:
        out["referenceTaskIds"] = list(references)
    return out


def artifact(found: a2a.Artifact) -> Encoded:
    """Write an Artifact."""
    out: Encoded = {"artifactId": found.artifact_id, "parts": [to_0_3(part) for part in found.parts[:]]}
    if name := found.name:
        out["name"] = name
    if description := found.description:
        out["description"] = description
    if found.HasField("metadata"):
        out["metadata"] = to_dict(found.metadata)
    if extensions := found.extensions:
        out["extensions"] = list(extensions)
    return out


def status(found: a2a.TaskStatus) -> Encoded:
    """Write a TaskStatus."""
    out: Encoded = {"state": STATES.get(found.state, "unknown")}
    if found.HasField("message"):
        out["message"] = message(found.message)
    if found.HasField("timestamp"):
        out["timestamp"] = to_text(found.timestamp)
    return out


def task(found: a2a.Task, history_length: int | None = None) -> Encoded:
    """Write a Task with its `kind` and at most `history_length` messages of its history."""
    out: Encoded = {"kind": "task", "id": found.id, "contextId": found.context_id, "status": status(found.status)}
    if artifacts := found.artifacts:
        out["artifacts"] = [artifact(one) for one in artifacts[:]]
    # The session task always has a history, even an empty one.
    if (history := newest(found.history, history_length)) or (found.id and found.id == found.context_id):
        out["history"] = [message(one) for one in history]
    if found.HasField("metadata"):
        out["metadata"] = to_dict(found.metadata)
    return out


def status_update(found: a2a.TaskStatusUpdateEvent) -> Encoded:
    """Write a status update; `final` says that the agent is done or waits for the user."""
    out: Encoded = {
        "kind": "status-update",
        "taskId": found.task_id,
        "contextId": found.context_id,
        "status": status(found.status),
        "final": found.status.state in _FINAL,
    }
    if found.HasField("metadata"):
        out["metadata"] = to_dict(found.metadata)
    return out


def artifact_update(found: a2a.TaskArtifactUpdateEvent) -> Encoded:
    """Write an artifact update."""
    out: Encoded = {
        "kind": "artifact-update",
        "taskId": found.task_id,
        "contextId": found.context_id,
        "artifact": artifact(found.artifact),
        "append": found.append,
        "lastChunk": found.last_chunk,
    }
    if found.HasField("metadata"):
        out["metadata"] = to_dict(found.metadata)
    return out


def event(found: Payload, history_length: int | None = None) -> Encoded:
    """Write an element of a stream, identified by its `kind`."""
    if isinstance(found, a2a.TaskArtifactUpdateEvent):
        return artifact_update(found)
    if isinstance(found, a2a.Task):
        return task(found, history_length)
    if isinstance(found, a2a.TaskStatusUpdateEvent):
        return status_update(found)
    return message(found)


# --- reading -------------------------------------------------------------------------------------------------------


def read_message(source: Fields, into: a2a.Message) -> None:
    """Read a Message into `into`; violations are recorded."""
    complete = not is_rewind(source)
    into.message_id = source.id("messageId", required=complete)
    into.context_id = source.id("contextId")
    into.task_id = source.id("taskId")
    role = source.get("role")
    number = _ROLE_NUMBERS.get(role) if isinstance(role, str) else None
    if number is None:
        source.wrong("role", "is required" if role is None else "must be user or agent")
    else:
        into.role = a2a.Role.ValueType(number)
    for part in source.inners("parts", required=complete, most=MAX_PARTS):
        read_0_3(part, into.parts)
    fill_metadata(into.metadata, source)
    into.extensions.extend(source.names("extensions"))
    into.reference_task_ids.extend(source.names("referenceTaskIds"))


def read_send(params: Any) -> Send:
    """Read the params of message/send and message/stream."""
    bad = Violations()
    source = params_of(params, bad)
    submit = xb.SubmitRequest()
    request = submit.request
    sent = source.inner("message", required=True)
    if sent is not None:
        read_message(sent, request.message)
        submit.expected_version = expected_version(sent)
    wait = Wait.GRACE
    has_push_config = False
    history_length: int | None = None
    asked = source.inner("configuration")
    if asked is not None:
        blocking = asked.flag("blocking")
        if blocking is not None:
            wait = Wait.AT_REST if blocking else Wait.EXISTS
            request.configuration.return_immediately = not blocking
        history_length = asked.count("historyLength")
        has_push_config = asked.inner("pushNotificationConfig") is not None
        if history_length is not None:
            request.configuration.history_length = history_length
        request.configuration.accepted_output_modes.extend(asked.names("acceptedOutputModes"))
    fill_metadata(request.metadata, source)
    bad.check()
    check_readable(request, bad)
    return Send(submit, wait, history_length, has_push_config)


def read_query(params: Any) -> TaskQuery:
    """Read the params of tasks/get, tasks/cancel and tasks/resubscribe."""
    bad = Violations()
    source = params_of(params, bad)
    task_id = source.id("id", required=True)
    history_length = source.count("historyLength")
    metadata = source.inner("metadata")
    bad.check()
    return TaskQuery(task_id, history_length, None if metadata is None else metadata.source)


# A stream's first Task has no history by default: clients of this version replace their whole conversation by any
# full Task that has one.
V0_3: Final = Dialect(
    version="0.3",
    read_send=read_send,
    read_query=read_query,
    task=task,
    reply=event,
    event=event,
    stream_history=0,
)
