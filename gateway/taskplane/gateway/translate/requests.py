"""Requests of A2A 1.0 in JSON, read into protobuf.

A reader records what only JSON can have wrong: a type, an unknown name, an encoding, a value that would be too costly
to convert. `a2a.checks` checks the rest on protobuf, for every binding.
"""

from collections.abc import Mapping
from typing import Any, Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.limits import MAX_PARTS
from taskplane.gateway.translate.dialect import Read, Reader, Wait
from taskplane.gateway.translate.fields import Fields, is_object
from taskplane.gateway.translate.metadata import of_request
from taskplane.gateway.translate.parts import Parts, plain_texts, read_1_0
from taskplane.gateway.translate.struct import fill_metadata, fill_own_metadata
from taskplane.gateway.translate.timestamps import from_text

STATES: Final[dict[int, str]] = {value: name for name, value in a2a.TaskState.items()}
ROLES: Final[dict[int, str]] = {value: name for name, value in a2a.Role.items()}
_STATE_NUMBERS: Final[dict[str, int]] = {name: value for name, value in a2a.TaskState.items() if value}
_IDS: Final = {"messageId": "message_id", "contextId": "context_id", "taskId": "task_id"}
# The members of a message that contains nothing but texts.
_PLAIN: Final = frozenset({*_IDS, "role", "parts"})
_ROLE_NUMBERS: Final[dict[str, a2a.Role.ValueType]] = {name: value for name, value in a2a.Role.items() if value}


class Requests:
    """The readers of A2A 1.0, and the parts that the other version shares with it."""

    roles: Mapping[str, a2a.Role.ValueType] = _ROLE_NUMBERS
    role_rule = "must be ROLE_USER or ROLE_AGENT"
    push_field = "taskPushNotificationConfig"

    def __init__(self) -> None:
        # By operation; one that is not here reads no params.
        self.readers: Mapping[str, Reader] = {
            "SendMessage": self.send,
            "SendStreamingMessage": self.send,
            "GetTask": self.get,
            "ListTasks": self.listing,
            "CancelTask": self.cancel,
            "SubscribeToTask": self.subscribe,
        }

    def send(self, source: Fields) -> Read:
        """Read the params of a send, with or without a stream."""
        request = a2a.SendMessageRequest()
        if not self._read_plain(source.get("message"), request.message):
            request.ClearField("message")
            sent = source.inner("message")
            if sent is not None:
                request.message.SetInParent()
                self._read_message(sent, request.message)
        asked = source.inner("configuration") if source.has("configuration") else None
        wait = self.wait(asked, request)
        if asked is not None:
            history_length = asked.number("historyLength")
            if asked.inner(self.push_field) is not None:
                request.configuration.task_push_notification_config.SetInParent()
            if history_length is not None:
                request.configuration.history_length = history_length
            request.configuration.accepted_output_modes.extend(asked.names("acceptedOutputModes"))
        if source.has("metadata"):
            fill_own_metadata(request.metadata, source, kept=of_request)
        return Read(request, wait)

    def get(self, source: Fields) -> Read:
        """Read the params of GetTask."""
        request = a2a.GetTaskRequest(id=source.text("id"))
        _read_history_length(source, request)
        source.inner("metadata")
        return Read(request)

    def cancel(self, source: Fields) -> Read:
        """Read the params of CancelTask."""
        request = a2a.CancelTaskRequest(id=source.text("id"))
        fill_metadata(request.metadata, source)
        return Read(request)

    def subscribe(self, source: Fields) -> Read:
        """Read the params of SubscribeToTask."""
        request = a2a.SubscribeToTaskRequest(id=source.text("id"))
        source.inner("metadata")
        return Read(request)

    def listing(self, source: Fields) -> Read:
        """Read the params of ListTasks (A2A 1.0 section 3.1.4)."""
        request = a2a.ListTasksRequest(context_id=source.text("contextId"), page_token=source.text("pageToken"))
        if state := source.choice("status", STATES):
            if (number := _STATE_NUMBERS.get(state)) is None:
                source.wrong("status", "must be a task state, by its name or its number")
            else:
                request.status = a2a.TaskState.ValueType(number)
        page_size = source.number("pageSize")
        if page_size is not None:
            request.page_size = page_size
        _read_history_length(source, request)
        since = source.text("statusTimestampAfter")
        if since:
            try:
                request.status_timestamp_after.CopyFrom(from_text(since))
            except (ValueError, OverflowError):
                source.wrong("statusTimestampAfter", "must be an RFC 3339 time")
        include = source.flag("includeArtifacts")
        if include is not None:
            request.include_artifacts = include
        return Read(request)

    def wait(self, asked: Fields | None, request: a2a.SendMessageRequest) -> Wait | None:
        """Read when a send is answered, from its configuration, if it has one."""
        if asked is not None:
            request.configuration.return_immediately = asked.flag("returnImmediately") or False
        return None

    def read_part(self, source: Fields, parts: Parts) -> None:
        """Append one part."""
        read_1_0(source, parts)

    def _read_message(self, source: Fields, into: a2a.Message) -> None:
        into.message_id = source.text("messageId")
        into.context_id = source.text("contextId")
        into.task_id = source.text("taskId")
        role = source.choice("role", ROLES)
        if (number := self.roles.get(role)) is not None:
            into.role = number
        elif role:
            source.wrong("role", self.role_rule)
        for part in source.elements("parts", most=MAX_PARTS):
            if part is None:
                # The checks of the protobuf name each part by its index.
                into.parts.add()
            else:
                self.read_part(part, into.parts)
        fill_own_metadata(into.metadata, source)
        into.extensions.extend(source.names("extensions"))
        into.reference_task_ids.extend(source.names("referenceTaskIds"))

    def _read_plain(self, source: Any, into: a2a.Message) -> bool:
        """Read a message that has nothing but ids, a role and texts, as most do, in a fraction of the time. Return
        False if it contains anything else or cannot be read."""
        if not is_object(source) or not source.keys() <= _PLAIN:
            return False
        role = source.get("role")
        number = self.roles.get(role) if type(role) is str else None
        texts = plain_texts(source.get("parts"))
        if not (number and texts):
            return False
        into.role = number
        for name, field in _IDS.items():
            value = source.get(name)
            if value is not None:
                if type(value) is not str or not value.isprintable():
                    return False
                setattr(into, field, value)
        for text in texts:
            into.parts.add().text = text
        return True


def _read_history_length(source: Fields, request: a2a.GetTaskRequest | a2a.ListTasksRequest) -> None:
    history_length = source.number("historyLength")
    if history_length is not None:
        request.history_length = history_length
