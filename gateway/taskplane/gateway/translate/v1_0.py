"""A2A 1.0 as JSON: ProtoJSON of its messages (A2A 1.0 section 5.5), written by hand because the library's printer takes
several times as long.

Each access to a field creates an object, so each field is accessed once. `[:]` of a repeated field copies it, which
avoids the IndexError that ends the iteration of the field itself.
"""

from collections.abc import Mapping
from typing import Any, Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.gateway.limits import MAX_PARTS, MAX_TOKEN_LENGTH
from taskplane.gateway.translate.dialect import Encoded, Listing, Payload, Send, TaskQuery, Wait, newest
from taskplane.gateway.translate.fields import Fields, is_object, is_plain_id, params_of
from taskplane.gateway.translate.metadata import CURSOR, add_metadata
from taskplane.gateway.translate.parts import Parts, plain_texts, read_1_0, to_1_0
from taskplane.gateway.translate.reading import Reading, check_readable
from taskplane.gateway.translate.rewinds import expected_version, is_rewind
from taskplane.gateway.translate.struct import fill_own_metadata
from taskplane.gateway.translate.timestamps import from_text, to_text
from taskplane.runtime.json_values import to_dict

STATES: Final[dict[int, str]] = {value: name for name, value in a2a.TaskState.items()}
ROLES: Final[dict[int, str]] = {value: name for name, value in a2a.Role.items()}
_STATE_NUMBERS: Final[dict[str, int]] = {name: value for name, value in a2a.TaskState.items() if value}
# The members of a message that contains nothing but texts.
_PLAIN: Final = frozenset({"messageId", "contextId", "taskId", "role", "parts"})
_ROLE_NUMBERS: Final[dict[str, a2a.Role.ValueType]] = {name: value for name, value in a2a.Role.items() if value}


class Dialect:
    """A2A 1.0, and the parts that the other version shares with it. Readers take the `params` of a call and raise
    Invalid with every wrong field. Writers take `history_length`: None for the whole history, 0 for none, n for the n
    newest messages."""

    version = "1.0"
    # Default `historyLength` of a stream's first task.
    stream_history: int | None = None

    _roles: Mapping[str, a2a.Role.ValueType] = _ROLE_NUMBERS
    _role_rule = "must be ROLE_USER or ROLE_AGENT"
    _push_field = "taskPushNotificationConfig"
    # The point at which a send without a configuration is answered.
    _wait = Wait.AT_REST

    def part(self, found: a2a.Part) -> Encoded:
        """Write a Part."""
        return to_1_0(found)

    def role(self, role: int) -> str | int:
        """Write a role that is set."""
        return ROLES.get(role, role)

    def state(self, state: int) -> str | int:
        """Write a state."""
        return STATES.get(state, state)

    def message(self, found: a2a.Message) -> Encoded:
        """Write a Message."""
        out: Encoded = {}
        if message_id := found.message_id:
            out["messageId"] = message_id
        if context_id := found.context_id:
            out["contextId"] = context_id
        if task_id := found.task_id:
            out["taskId"] = task_id
        if role := found.role:
            out["role"] = self.role(role)
        if parts := found.parts:
            out["parts"] = [self.part(part) for part in parts[:]]
        if found.HasField("metadata"):
            out["metadata"] = to_dict(found.metadata)
        if extensions := found.extensions:
            out["extensions"] = list(extensions)
        if references := found.reference_task_ids:
            out["referenceTaskIds"] = list(references)
        return out

    def artifact(self, found: a2a.Artifact) -> Encoded:
        """Write an Artifact."""
        out: Encoded = {}
        if artifact_id := found.artifact_id:
            out["artifactId"] = artifact_id
        if name := found.name:
            out["name"] = name
        if description := found.description:
            out["description"] = description
        if parts := found.parts:
            out["parts"] = [self.part(part) for part in parts[:]]
        if found.HasField("metadata"):
            out["metadata"] = to_dict(found.metadata)
        if extensions := found.extensions:
            out["extensions"] = list(extensions)
        return out

    def status(self, found: a2a.TaskStatus) -> Encoded:
        """Write a TaskStatus."""
        out: Encoded = {"state": self.state(found.state)}
        if found.HasField("message"):
            out["message"] = self.message(found.message)
        if found.HasField("timestamp"):
            out["timestamp"] = to_text(found.timestamp)
        return out

    def task(self, found: a2a.Task, history_length: int | None = None, cursor: str = "") -> Encoded:
        """Write a Task with at most `history_length` messages of its history, and with its cursor if that is given."""
        out: Encoded = {}
        if task_id := found.id:
            out["id"] = task_id
        if context_id := found.context_id:
            out["contextId"] = context_id
        if found.HasField("status"):
            out["status"] = self.status(found.status)
        if artifacts := found.artifacts:
            out["artifacts"] = [self.artifact(one) for one in artifacts[:]]
        # The session task always has a history, even an empty one.
        if (history := newest(found.history, history_length)) or (found.id and found.id == found.context_id):
            out["history"] = [self.message(one) for one in history]
        if found.HasField("metadata"):
            out["metadata"] = to_dict(found.metadata)
        add_metadata(out, CURSOR, cursor)
        return out

    def status_update(self, found: a2a.TaskStatusUpdateEvent) -> Encoded:
        """Write a TaskStatusUpdateEvent."""
        out: Encoded = {}
        if task_id := found.task_id:
            out["taskId"] = task_id
        if context_id := found.context_id:
            out["contextId"] = context_id
        if found.HasField("status"):
            out["status"] = self.status(found.status)
        if found.HasField("metadata"):
            out["metadata"] = to_dict(found.metadata)
        return out

    def artifact_update(self, found: a2a.TaskArtifactUpdateEvent) -> Encoded:
        """Write a TaskArtifactUpdateEvent."""
        out: Encoded = {}
        if task_id := found.task_id:
            out["taskId"] = task_id
        if context_id := found.context_id:
            out["contextId"] = context_id
        if found.HasField("artifact"):
            out["artifact"] = self.artifact(found.artifact)
        if found.append:
            out["append"] = True
        if found.last_chunk:
            out["lastChunk"] = True
        if found.HasField("metadata"):
            out["metadata"] = to_dict(found.metadata)
        return out

    def event(self, found: Payload, history_length: int | None = None, cursor: str = "") -> Encoded:
        """Write a StreamResponse, which has exactly one wrapper key; a Task with its cursor if that is given."""
        if isinstance(found, a2a.TaskArtifactUpdateEvent):
            return {"artifactUpdate": self.artifact_update(found)}
        if isinstance(found, a2a.Task):
            return {"task": self.task(found, history_length, cursor)}
        if isinstance(found, a2a.TaskStatusUpdateEvent):
            return {"statusUpdate": self.status_update(found)}
        return {"message": self.message(found)}

    def read_send(self, params: Any) -> Send:
        """Read the params of a send, with or without a stream."""
        bad = Reading()
        source = params_of(params, bad)
        submit = xb.SubmitRequest()
        request = submit.request
        if not self._read_plain(source.get("message"), request.message):
            sent = source.inner("message", required=True)
            if sent is not None:
                self._read_message(sent, request.message)
                submit.expected_version = expected_version(sent)
        wait = self._wait
        has_push_config = False
        history_length: int | None = None
        asked = source.inner("configuration") if source.has("configuration") else None
        if asked is not None:
            wait = self._read_wait(asked, request.configuration)
            history_length = asked.count("historyLength")
            has_push_config = asked.inner(self._push_field) is not None
            if history_length is not None:
                request.configuration.history_length = history_length
            request.configuration.accepted_output_modes.extend(asked.names("acceptedOutputModes"))
        if source.has("metadata"):
            fill_own_metadata(request.metadata, source)
        bad.check()
        check_readable(request, bad)
        return Send(submit, wait, history_length, has_push_config, bad.told)

    def read_query(self, params: Any) -> TaskQuery:
        """Read the params of a call about one task: to get, cancel or subscribe to it."""
        bad = Reading()
        source = params_of(params, bad)
        task_id = source.id("id", required=True)
        history_length = source.count("historyLength")
        metadata = source.inner("metadata")
        bad.check()
        return TaskQuery(task_id, history_length, None if metadata is None else metadata.source)

    def _read_message(self, source: Fields, into: a2a.Message) -> None:
        complete = not is_rewind(source)
        into.message_id = source.id("messageId", required=complete)
        into.context_id = source.id("contextId")
        into.task_id = source.id("taskId")
        role = source.choice("role", ROLES, required=True)
        if (number := self._roles.get(role)) is not None:
            into.role = number
        elif role:
            source.wrong("role", self._role_rule)
        for part in source.inners("parts", required=complete, most=MAX_PARTS):
            self._read_part(part, into.parts)
        fill_own_metadata(into.metadata, source)
        into.extensions.extend(source.names("extensions"))
        into.reference_task_ids.extend(source.names("referenceTaskIds"))

    def _read_part(self, source: Fields, parts: Parts) -> None:
        read_1_0(source, parts)

    def _read_wait(self, asked: Fields, configuration: a2a.SendMessageConfiguration) -> Wait:
        configuration.return_immediately = asked.flag("returnImmediately") or False
        return Wait.EXISTS if configuration.return_immediately else Wait.AT_REST

    def _read_plain(self, source: Any, into: a2a.Message) -> bool:
        """Read a message that has nothing but ids, a role and texts, as most do, in a fraction of the time. Return
        False, having read nothing, if it contains anything else or may be wrong."""
        if not is_object(source) or not source.keys() <= _PLAIN:
            return False
        role = source.get("role")
        number = self._roles.get(role) if type(role) is str else None
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


V1_0: Final = Dialect()


def read_list(params: Any) -> a2a.ListTasksRequest:
    """Read the params of ListTasks (A2A 1.0 section 3.1.4)."""
    bad = Reading()
    source = params_of(params, bad)
    request = a2a.ListTasksRequest(context_id=source.id("contextId"), page_token=source.text("pageToken"))
    if len(request.page_token) > MAX_TOKEN_LENGTH:
        source.wrong("pageToken", "is not a valid page token: use one from an earlier page")
    if state := source.choice("status", STATES):
        if (number := _STATE_NUMBERS.get(state)) is None:
            source.wrong("status", "must be a task state, by its name or its number")
        else:
            request.status = a2a.TaskState.ValueType(number)
    page_size = source.number("pageSize")
    if page_size is not None:
        if not 1 <= page_size <= 100:
            source.wrong("pageSize", "must be 1 to 100")
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
    tasks = [V1_0.task(one, history_length, cursor) for one, cursor in found.tasks]
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
