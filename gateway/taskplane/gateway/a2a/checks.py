"""The limits and the required fields of requests, checked on protobuf, once for every binding.

A binding that reads JSON has recorded before what only JSON can have wrong; both make one error. Fields are named by
their JSON paths.
"""

from google.protobuf.struct_pb2 import Struct

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import REWIND_BEFORE
from taskplane.gateway.limits import (
    MAX_METADATA_BYTES,
    MAX_NAMES,
    MAX_PARTS,
    MAX_TOKEN_LENGTH,
    NO_CONTENT,
    REQUIRED,
    TOO_LARGE,
    TOO_MANY_NAMES,
    TOO_MANY_PARTS,
)
from taskplane.gateway.translate.metadata import EXPECTED_GENERATION, EXPECTED_VERSION
from taskplane.gateway.translate.rewinds import (
    broken_number_rule,
    broken_rewind_rule,
    expected,
    is_rewind,
)
from taskplane.runtime.validation import MAX_ID, WrongFields, broken_id_rule

_MAX_PAGE = 100
_OF_TASKS = "needs a taskId, and no rewind"


def send(request: a2a.SendMessageRequest, bad: WrongFields) -> None:
    """Check a send, with or without a stream."""
    if request.HasField("message"):
        _message(request.message, bad)
    else:
        _wrong(bad, "message", REQUIRED)
    if request.HasField("configuration"):
        configuration = request.configuration
        if configuration.history_length < 0:
            _wrong(bad, "configuration.historyLength", "must be at least 0")
        if len(configuration.accepted_output_modes) > MAX_NAMES:
            _wrong(bad, "configuration.acceptedOutputModes", TOO_MANY_NAMES)
    if request.HasField("metadata"):
        _metadata("metadata", request.metadata, bad)


def get(request: a2a.GetTaskRequest, bad: WrongFields) -> None:
    """Check a GetTask."""
    _id("id", request.id, bad, required=True)
    _history_length(request, bad)


def listing(request: a2a.ListTasksRequest, bad: WrongFields) -> None:
    """Check a ListTasks."""
    _id("contextId", request.context_id, bad)
    if len(request.page_token) > MAX_TOKEN_LENGTH:
        _wrong(bad, "pageToken", "is not a valid page token: use one from an earlier page")
    if request.status not in a2a.TaskState.values():
        _wrong(bad, "status", "must be a task state, by its name or its number")
    if request.HasField("page_size") and not 1 <= request.page_size <= _MAX_PAGE:
        _wrong(bad, "pageSize", f"must be 1 to {_MAX_PAGE}")
    _history_length(request, bad)


def cancel(request: a2a.CancelTaskRequest, bad: WrongFields) -> None:
    """Check a CancelTask."""
    _id("id", request.id, bad, required=True)
    if request.HasField("metadata"):
        _metadata("metadata", request.metadata, bad)


def subscribe(request: a2a.SubscribeToTaskRequest, bad: WrongFields) -> None:
    """Check a SubscribeToTask."""
    _id("id", request.id, bad, required=True)


def _message(message: a2a.Message, bad: WrongFields) -> None:
    """Check a message. Most pass without a call of another function."""
    complete = True
    if message.HasField("metadata"):
        if is_rewind(message):
            complete = False
            _rule(bad, f"message.metadata.{REWIND_BEFORE}", broken_rewind_rule(message))
        for key in (EXPECTED_VERSION, EXPECTED_GENERATION):
            _rule(bad, f"message.metadata.{key}", broken_number_rule(message, key))
        if expected(message, EXPECTED_GENERATION) and (not message.task_id or not complete):
            _wrong(bad, f"message.metadata.{EXPECTED_GENERATION}", _OF_TASKS)
        _metadata("message.metadata", message.metadata, bad)
    message_id = message.message_id
    if not (message_id and message_id.isprintable() and len(message_id) <= MAX_ID):
        _id("message.messageId", message_id, bad, required=complete)
    for path, value in (("message.contextId", message.context_id), ("message.taskId", message.task_id)):
        if not (value.isprintable() and len(value) <= MAX_ID):
            _id(path, value, bad)
    role = message.role
    if role not in (a2a.ROLE_USER, a2a.ROLE_AGENT):
        _wrong(bad, "message.role", "must be ROLE_USER or ROLE_AGENT" if role else REQUIRED)
    parts = message.parts
    if len(parts) > MAX_PARTS:
        _wrong(bad, "message.parts", TOO_MANY_PARTS)
    elif not parts and complete:
        _wrong(bad, "message.parts", "must not be empty")
    for index, part in enumerate(parts if len(parts) <= MAX_PARTS else ()):
        if part.WhichOneof("content") is None:
            _wrong(bad, f"message.parts[{index}]", NO_CONTENT)
        if part.HasField("metadata"):
            _metadata(f"message.parts[{index}].metadata", part.metadata, bad)
    if len(message.extensions) > MAX_NAMES:
        _wrong(bad, "message.extensions", TOO_MANY_NAMES)
    if len(message.reference_task_ids) > MAX_NAMES:
        _wrong(bad, "message.referenceTaskIds", TOO_MANY_NAMES)


def _history_length(request: a2a.GetTaskRequest | a2a.ListTasksRequest, bad: WrongFields) -> None:
    if request.history_length < 0:
        _wrong(bad, "historyLength", "must be at least 0")


def _id(path: str, value: str, bad: WrongFields, *, required: bool = False) -> None:
    _rule(bad, path, broken_id_rule(value) if value or not required else REQUIRED)


def _metadata(path: str, metadata: Struct, bad: WrongFields) -> None:
    if metadata.ByteSize() > MAX_METADATA_BYTES:
        _wrong(bad, path, TOO_LARGE)


def _rule(bad: WrongFields, path: str, broken: str) -> None:
    if broken:
        _wrong(bad, path, broken)


def _wrong(bad: WrongFields, path: str, rule: str) -> None:
    """Add a wrong field, unless a reader found it wrong, one in it or one around it: then it is not as it was sent."""
    if not any(_is_within(path, told) or _is_within(told, path) for told in bad.found):
        bad.add(path, rule)


def _is_within(path: str, outer: str) -> bool:
    return path.startswith(outer) and path[len(outer) : len(outer) + 1] in ("", ".", "[")
