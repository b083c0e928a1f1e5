"""A2A 1.0 as JSON: ProtoJSON of its messages (A2A 1.0 section 5.5), written by hand because the library's printer takes
several times as long.

Each access to a field creates an object, so each field is accessed once. `[:]` of a repeated field copies it, which
avoids the IndexError that ends the iteration of the field itself.
"""

from typing import Any, Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.gateway.translate.dialect import Dialect, Encoded, Listing, Payload, Send, TaskQuery, Wait, newest
from taskplane.gateway.translate.fields import Fields, is_object, is_plain_id, params_of
from taskplane.gateway.translate.parts import plain_texts, read_1_0, to_1_0
from taskplane.gateway.translate.rewinds import expected_version, is_rewind
from taskplane.gateway.translate.struct import fill_metadata, to_dict
from taskplane.gateway.translate.timestamps import from_text, to_text
from taskplane.gateway.validation import MAX_PARTS, MAX_TOKEN_LENGTH, Violations, check_readable

STATES: Final[dict[int, str]] = {value: name for name, value in a2a.TaskState.items()}
ROLES: Final[dict[int, str]] = {value: name for name, value in a2a.Role.items()}
_STATE_NUMBERS: Final[dict[Any, int]] = {name: value for name, value in a2a.TaskState.items() if value}
# The members of a message that contains nothing but texts.
_PLAIN: Final = frozenset({"messageId", "contextId", "taskId", "role", "parts"})
_ROLE_NUMBERS: Final[dict[Any, a2a.Role.ValueType]] = {
    **{name: value for name, value in a2a.Role.items() if value},
    **{value: value for value in a2a.Role.values() if value},
}


# --- writing -------------------------------------------------------------------------------------------------------


def message(found: a2a.Message) -> Encoded:
    """Write a Message."""
    out: Encoded = {}
    if message_id := found.message_id:
        out["messageId"] = message_id
    if context_id := found.context_id:
        out["contextId"] = context_id
    if task_id := found.task_id:
        out["taskId"] = task_id
    if role := found.role:
        out["role"] = ROLES.get(role, role)
    if parts := found.parts:
        out["parts"] = [to_1_0(part) for part in parts[:]]
    if found.HasField("metadata"):
        out["metadata"] = to_dict(found.metadata)
    if extensions := found.extensions:
        out["extensions"] = list(extensions)
    if references := found.reference_task_ids:
        out["referenceTaskIds"] = list(references)
    return out


def artifact(found: a2a.Artifact) -> Encoded:
    """Write an Artifact."""
    out: Encoded = {}
    if artifact_id := found.artifact_id:
        out["artifactId"] = artifact_id
    if name := found.name:
        out["name"] = name
    if description := found.description:
        out["description"] = description
    if parts := found.parts:
        out["parts"] = [to_1_0(part) for part in parts[:]]
    if found.HasField("metadata"):
        out["metadata"] = to_dict(found.metadata)
    if extensions := found.extensions:
        out["extensions"] = list(extensions)
    return out


def status(found: a2a.TaskStatus) -> Encoded:
    """Write a TaskStatus."""
    out: Encoded = {}
    if state := found.state:
        out["state"] = STATES.get(state, state)
    if found.HasField("message"):
        out["message"] = message(found.message)
    if found.HasField("timestamp"):
        out["timestamp"] = to_text(found.timestamp)
    return out


def task(found: a2a.Task, history_length: int | None = None) -> Encoded:
    """Write a Task with at most `history_length` messages of its history."""
    out: Encoded = {}
    if task_id := found.id:
        out["id"] = task_id
    if context_id := found.context_id:
        out["contextId"] = context_id
    if found.HasField("status"):
        out["status"] = status(found.status)
    if artifacts := found.artifacts:
        out["artifacts"] = [artifact(one) for one in artifacts[:]]
    # The session task always has a history, even an empty one.
    if (history := newest(found.history, history_length)) or (found.id and found.id == found.context_id):
        out["history"] = [message(one) for one in history]
    if found.HasField("metadata"):
        out["metadata"] = to_dict(found.metadata)
    return out


def status_update(found: a2a.TaskStatusUpdateEvent) -> Encoded:
    """Write a TaskStatusUpdateEvent."""
    out: Encoded = {}
    if task_id := found.task_id:
        out["taskId"] = task_id
    if context_id := found.context_id:
        out["contextId"] = context_id
    if found.HasField("status"):
        out["status"] = status(found.status)
    if found.HasField("metadata"):
        out["metadata"] = to_dict(found.metadata)
    return out


def artifact_update(found: a2a.TaskArtifactUpdateEvent) -> Encoded:
    """Write a TaskArtifactUpdateEvent."""
    out: Encoded = {}
    if task_id := found.task_id:
        out["taskId"] = task_id
    if context_id := found.context_id:
        out["contextId"] = context_id
    if found.HasField("artifact"):
        out["artifact"] = artifact(found.artifact)
    if found.append:
        out["append"] = True
    if found.last_chunk:
        out["lastChunk"] = True
    if found.HasField("metadata"):
        out["metadata"] = to_dict(found.metadata)
    return out


def event(found: Payload, history_length: int | None = None) -> Encoded:
    """Write a StreamResponse, which has exactly one wrapper key."""
    if isinstance(found, a2a.TaskArtifactUpdateEvent):
        return {"artifactUpdate": artifact_update(found)}
    if isinstance(found, a2a.Task):
        return {"task": task(found, history_length)}
    if isinstance(found, a2a.TaskStatusUpdateEvent):
        return {"statusUpdate": status_update(found)}
    return {"message": message(found)}


# --- reading -------------------------------------------------------------------------------------------------------


def _read_plain(source: Any, into: a2a.Message) -> bool:
    """Read a message that has nothing but ids, a role and texts, as most do, in a fraction of the time. Return False,
    having read nothing, if it contains anything else or may be wrong."""
    if not is_object(source) or not source.keys() <= _PLAIN:
        return False
    role = source.get("role")
    number = _ROLE_NUMBERS.get(role) if type(role) is str else None
    message_id = source.get("messageId")
    context_id = source.get("contextId")
    task_id = source.get("taskId")
    texts = plain_texts(source.get("parts"))
    if not (
        number
        and texts
        and is_plain_id(message_id)
        and (context_id is None or is_plain_id(context_id))
        and (task_id is None or is_plain_id(task_id))
    ):
        return False
    into.message_id = message_id
    if context_id is not None:
        into.context_id = context_id
    if task_id is not None:
        into.task_id = task_id
    into.role = number
    for text in texts:
        into.parts.add().text = text
    return True


def _read_message(source: Fields, into: a2a.Message) -> None:
    complete = not is_rewind(source)
    into.message_id = source.id("messageId", required=complete)
    into.context_id = source.id("contextId")
    into.task_id = source.id("taskId")
    role = source.get("role")
    number = _ROLE_NUMBERS.get(role) if type(role) in (str, int) else None
    if number is None:
        source.wrong("role", "is required" if role is None else "must be ROLE_USER or ROLE_AGENT")
    else:
        into.role = number
    for part in source.inners("parts", required=complete, most=MAX_PARTS):
        read_1_0(part, into.parts)
    fill_metadata(into.metadata, source)
    into.extensions.extend(source.names("extensions"))
    into.reference_task_ids.extend(source.names("referenceTaskIds"))


def read_send(params: Any) -> Send:
    """Read the params of SendMessage and SendStreamingMessage."""
    bad = Violations()
    source = params_of(params, bad)
    submit = xb.SubmitRequest()
    request = submit.request
    if not _read_plain(source.get("message"), request.message):
        sent = source.inner("message", required=True)
        if sent is not None:
            _read_message(sent, request.message)
            submit.expected_version = expected_version(sent)
    at_once = has_push_config = False
    history_length: int | None = None
    asked = source.inner("configuration") if source.has("configuration") else None
    if asked is not None:
        at_once = asked.flag("returnImmediately") or False
        history_length = asked.count("historyLength")
        has_push_config = asked.inner("taskPushNotificationConfig") is not None
        request.configuration.return_immediately = at_once
        if history_length is not None:
            request.configuration.history_length = history_length
        request.configuration.accepted_output_modes.extend(asked.names("acceptedOutputModes"))
    if source.has("metadata"):
        fill_metadata(request.metadata, source)
    bad.check()
    check_readable(request, bad)
    return Send(submit, Wait.EXISTS if at_once else Wait.AT_REST, history_length, has_push_config)


def read_query(params: Any) -> TaskQuery:
    """Read the params of GetTask, CancelTask and SubscribeToTask."""
    bad = Violations()
    source = params_of(params, bad)
    task_id = source.id("id", required=True)
    history_length = source.count("historyLength")
    metadata = source.inner("metadata")
    bad.check()
    return TaskQuery(task_id, history_length, None if metadata is None else metadata.source)


def read_list(params: Any) -> a2a.ListTasksRequest:
    """Read the params of ListTasks (A2A 1.0 section 3.1.4)."""
    bad = Violations()
    source = params_of(params, bad)
    request = a2a.ListTasksRequest(context_id=source.id("contextId"), page_token=source.text("pageToken"))
    if len(request.page_token) > MAX_TOKEN_LENGTH:
        source.wrong("pageToken", "is none of this server")
    state = source.get("status")
    if state is not None:
        number = _STATE_NUMBERS.get(state) if isinstance(state, str) else None
        if number is None:
            source.wrong("status", "must be the name of a task state")
        else:
            request.status = a2a.TaskState.ValueType(number)
    page_size = source.number("pageSize")
    if page_size is not None:
        if not 1 <= page_size <= 100:
            source.wrong("pageSize", "must be between 1 and 100")
        request.page_size = page_size
    history_length = source.count("historyLength")
    if history_length is not None:
        request.history_length = history_length
    since = source.text("statusTimestampAfter")
    if since:
        try:
            request.status_timestamp_after.CopyFrom(from_text(since))
        except (ValueError, OverflowError):
            source.wrong("statusTimestampAfter", "must be an RFC 3339 time")
    include = source.flag("includeArtifacts")
    if include is not None:
        request.include_artifacts = include
    bad.check()
    return request


def listing(found: Listing, *, include_artifacts: bool, history_length: int | None) -> Encoded:
    """Write the result of ListTasks with its default values (all four members are required); if artifacts are included,
    every task has the key `artifacts`."""
    tasks = [task(one, history_length) for one in found.tasks]
    if include_artifacts:
        for one in tasks:
            one.setdefault("artifacts", [])
    else:
        for one in tasks:
            one.pop("artifacts", None)
    return {
        "tasks": tasks,
        "nextPageToken": found.next_page_token,
        "pageSize": found.page_size,
        "totalSize": found.total_size,
    }


V1_0: Final = Dialect(
    version="1.0",
    read_send=read_send,
    read_query=read_query,
    task=task,
    reply=event,
    event=event,
    stream_history=None,
)
