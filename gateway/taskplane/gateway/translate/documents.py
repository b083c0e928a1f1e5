"""Document tasks: whole tasks written by external runtimes, as JSON of either version and in either spelling."""

from typing import Any, Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import PARTIAL_KEYS
from taskplane.gateway.translate.fields import Fields
from taskplane.gateway.translate.parts import Parts, read_0_3, read_1_0
from taskplane.gateway.translate.reading import Reading
from taskplane.gateway.translate.requests import ROLES, STATES
from taskplane.gateway.translate.struct import fill_own_metadata
from taskplane.gateway.translate.timestamps import from_text
from taskplane.runtime.validation import invalid

# The spellings of states that runtimes write, in lower case with hyphens.
_STATES: Final[dict[str, int]] = {
    "unknown": a2a.TASK_STATE_UNSPECIFIED,
    "unspecified": a2a.TASK_STATE_UNSPECIFIED,
    "pending": a2a.TASK_STATE_SUBMITTED,
    "submitted": a2a.TASK_STATE_SUBMITTED,
    "running": a2a.TASK_STATE_WORKING,
    "working": a2a.TASK_STATE_WORKING,
    "success": a2a.TASK_STATE_COMPLETED,
    "completed": a2a.TASK_STATE_COMPLETED,
    "error": a2a.TASK_STATE_FAILED,
    "failed": a2a.TASK_STATE_FAILED,
    "canceled": a2a.TASK_STATE_CANCELED,
    "cancelled": a2a.TASK_STATE_CANCELED,
    "rejected": a2a.TASK_STATE_REJECTED,
    "input-required": a2a.TASK_STATE_INPUT_REQUIRED,
    "auth-required": a2a.TASK_STATE_AUTH_REQUIRED,
}
# The kinds of parts, in 0.3 and before.
_KINDS: Final = frozenset({"text", "file", "data"})


def state_of(name: str) -> int | None:
    """Return the state with this name, in any case and in 0.3, 1.0 or plain spelling; None if there is none."""
    plain = name.strip().lower().replace("_", "-").removeprefix("task-state-")
    return _STATES.get(plain)


def is_partial(message: a2a.Message) -> bool:
    """Return whether a message is a piece of a text that still grows, which is streamed but never part of a history."""
    fields = message.metadata.fields
    return any(name in fields and fields[name].bool_value for name in PARTIAL_KEYS)


def read_task(body: Any) -> a2a.Task:
    """Return a whole task. Its messages may have no id, and partial ones are left out of its history. Values that no
    database keeps are converted. Raise Invalid with every field that is wrong; `contextId` is required."""
    if not isinstance(body, dict):
        raise invalid({"": "must be a task, a JSON object"})
    bad = Reading(lenient=True)
    source = Fields(body, "", bad)  # pyright: ignore[reportUnknownArgumentType]
    task = a2a.Task(id=source.id("id"), context_id=source.id("contextId", required=True))
    status = source.inner("status", required=True)
    if status is not None:
        _read_status(status, task)
    for one in source.inners("artifacts"):
        _read_artifact(one, task.artifacts.add())
    task.history.extend(read_messages(source, "history"))
    fill_own_metadata(task.metadata, source)
    bad.check()
    return task


def read_messages(source: Fields, name: str) -> list[a2a.Message]:
    """Return a list of messages that a runtime stored. They may have no id, and partial ones are left out. Wrong
    fields are recorded."""
    messages: list[a2a.Message] = []
    for one in source.inners(name):
        message = a2a.Message()
        _read_message(one, message)
        if not is_partial(message):
            messages.append(message)
    return messages


def _read_status(source: Fields, task: a2a.Task) -> None:
    name = source.choice("state", STATES, required=True)
    state = state_of(name) if name else None
    if state is not None:
        task.status.state = a2a.TaskState.ValueType(state)
    elif name:
        source.wrong("state", "must be a task state")
    message = source.inner("message")
    if message is not None:
        _read_message(message, task.status.message)
    stamp = source.text("timestamp")
    if stamp:
        try:
            task.status.timestamp.CopyFrom(from_text(stamp))
        except (ValueError, OverflowError):
            source.wrong("timestamp", "must be an RFC 3339 time")


def _read_message(source: Fields, into: a2a.Message) -> None:
    into.message_id = source.text("messageId")
    into.context_id = source.text("contextId")
    into.task_id = source.text("taskId")
    role = source.choice("role", ROLES, required=True).lower().removeprefix("role_")
    if role in {"user", "agent"}:
        into.role = a2a.ROLE_USER if role == "user" else a2a.ROLE_AGENT
    elif role:
        source.wrong("role", "must be user or agent")
    _read_parts(source, into.parts)
    fill_own_metadata(into.metadata, source)
    into.extensions.extend(source.texts("extensions"))
    into.reference_task_ids.extend(source.texts("referenceTaskIds"))


def _read_artifact(source: Fields, into: a2a.Artifact) -> None:
    into.artifact_id = source.text("artifactId", required=True)
    into.name = source.text("name")
    into.description = source.text("description")
    _read_parts(source, into.parts)
    fill_own_metadata(into.metadata, source)
    into.extensions.extend(source.texts("extensions"))


def _read_parts(source: Fields, parts: Parts) -> None:
    for part in source.inners("parts"):
        kinded = _with_kind(part)
        if kinded is None:
            read_1_0(part, parts)
        else:
            read_0_3(kinded, parts)
        if media_type := part.text("mimeType"):
            parts[-1].media_type = parts[-1].media_type or media_type


def _with_kind(part: Fields) -> Fields | None:
    """Return a part with its `kind`; None if it has none. Older clients write `type` for it, and the members of a file
    beside it."""
    given = dict(part.source)
    if "kind" not in given:
        kind = given.get("type")
        if not isinstance(kind, str) or kind not in _KINDS:
            return None
        given["kind"] = kind
    if given["kind"] == "file" and "file" not in given:
        given["file"] = {name: given[name] for name in ("bytes", "uri", "name", "mimeType") if name in given}
    return Fields(given, part.at, part.bad)
