"""Conversion of the changes of an agent to changes of the task store."""

from collections.abc import MutableSequence, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from google.protobuf.struct_pb2 import Value

from taskplane.agents.agent import ArtifactChunk
from taskplane.agents.deep_messages import flatten
from taskplane.agents.errors import check_parts
from taskplane.api import growing_text
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import INVOCATION, KIND, PARTIAL, PARTIAL_KEYS, STATUS_TEXT, TOOL_KEYS
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime import final_message, message_times
from taskplane.runtime.plain_json import plain
from taskplane.runtime.storable import storable
from taskplane.runtime.struct_values import mark_converted, to_value

M = TypeVar("M", a2a.Message, a2a.Part)

MAX_CHUNK_BYTES: Final = 1024 * 1024
# A message travels in one request of at most 4 MiB.
MAX_MESSAGE_BYTES: Final = 3 * 1024 * 1024


class MessageFactory:
    """The messages of one turn: their ids, their role, and the invocation id in the metadata of each (R1)."""

    def __init__(self, *, task_id: str, context_id: str, invocation_id: str, fence: int) -> None:
        self._task_id = task_id
        self._context_id = context_id
        self.invocation_id = invocation_id
        self._fence = fence
        self._count = 0

    def new_id(self) -> str:
        """Return the next message id: unique per turn and attempt, and equal for calls in equal order."""
        self._count += 1
        return f"{self.invocation_id}-{self._fence}-{self._count}"

    def message(self, given: str | a2a.Message, message_id: str = "") -> a2a.Message:
        """Return a whole message of the agent. `message_id`: the id if `given` has no id.

        Values nested too deeply in its data become JSON text. ValueError: the message is larger than 3 MiB. NoContent:
        it has no parts, or a part without content. TypeError: it is neither text nor a Message.
        """
        if isinstance(given, str):
            made = a2a.Message()
            made.parts.add().text = storable(given)
        elif isinstance(given, a2a.Message):  # pyright: ignore[reportUnnecessaryIsInstance] - agents are not all typed
            check_parts("a message", given.parts)
            made = _copy_of(given)
            _make_storable(made.parts)
            for key in (*PARTIAL_KEYS, message_times.KEY):
                if key in made.metadata.fields:
                    del made.metadata.fields[key]
        else:
            raise TypeError(f"a message must be text or a Message, not {type(given).__name__}")
        if not made.message_id:
            made.message_id = message_id or self.new_id()
        made.role = a2a.ROLE_AGENT
        made.task_id, made.context_id = self._task_id, self._context_id
        made.metadata.fields[INVOCATION].string_value = self.invocation_id
        if made.ByteSize() > MAX_MESSAGE_BYTES:
            raise ValueError("a message must have at most 3 MiB")
        return made

    def tool(self, kind: str, data: dict[str, Any]) -> a2a.Message:
        """Return a message with one data part of `kind` `function_call` or `function_response`.

        ValueError as `message`.
        """
        message = self.message("")
        part = message.parts[0]
        value, converted = to_value(plain(data), "parts[0].data")
        part.data.CopyFrom(value)
        mark_converted(message.metadata, converted)
        for key in TOOL_KEYS:
            part.metadata.fields[key].string_value = kind
        return message

    def status_text(self, text: str) -> a2a.Message:
        """Return a progress line, marked so that it stays out of every history."""
        message = self.message(text)
        message.metadata.fields[KIND].string_value = STATUS_TEXT
        return message

    def partial(self, message_id: str, text: str, change: pb.Change) -> None:
        """Fill the empty `change` with the next piece of the growing text `message_id`."""
        update = change.status.status
        update.state = a2a.TASK_STATE_WORKING
        message = update.message
        message.message_id = message_id
        message.role = a2a.ROLE_AGENT
        message.parts.add(text=text)
        marks = message.metadata.fields
        marks[INVOCATION].string_value = self.invocation_id
        marks[PARTIAL].bool_value = True


@dataclass(frozen=True, slots=True)
class Ending:
    """The end or pause that follows the final message of a run. `state` 0: the state is not decided yet. `consumed`:
    the generation of the newest message of the user that the run has read."""

    state: "a2a.TaskState.ValueType" = a2a.TASK_STATE_UNSPECIFIED
    consumed: int = 0


@dataclass(slots=True)
class Status:
    """A change to `state`; `reason` becomes `metadata.reason` of the event. `ends`: the end or pause of the run follows
    with the same message. `cause`: of a failure, for operators only."""

    state: "a2a.TaskState.ValueType"
    message: a2a.Message | None = None
    reason: str = ""
    ends: Ending | None = None
    cause: str = ""

    def size(self) -> int:
        """Return the approximate bytes of the content."""
        return 0 if self.message is None else self.message.ByteSize()

    def fill(self, change: pb.Change) -> None:
        """Fill the empty `change`."""
        change.cause = storable(self.cause)
        update = change.status
        update.status.state = self.state
        if self.message is not None:
            update.status.message.CopyFrom(self.message)
        if self.reason:
            update.metadata.fields["reason"].string_value = self.reason
        if self.ends is not None:
            marks = update.metadata.fields
            marks[growing_text.ENDS].bool_value = True
            if self.ends.state:
                marks[final_message.STATE].string_value = a2a.TaskState.Name(self.ends.state)
                marks[final_message.READ].number_value = self.ends.consumed


@dataclass(slots=True)
class StatusTextChange:
    """A text of a StatusWriter."""

    message: a2a.Message

    def size(self) -> int:
        """Return the approximate bytes of the content."""
        return self.message.ByteSize()

    def fill(self, change: pb.Change) -> None:
        """Fill the empty `change`."""
        status = change.status_text.status
        status.state = a2a.TASK_STATE_WORKING
        status.message.CopyFrom(self.message)


@dataclass(slots=True)
class Data:
    """Bytes that only executors read. `field`: their field of the change, such as `checkpoint`."""

    field: str
    data: bytes

    def size(self) -> int:
        """Return the approximate bytes of the content."""
        return len(self.data)

    def fill(self, change: pb.Change) -> None:
        """Fill the empty `change`."""
        setattr(change, self.field, self.data)


Put = Status | StatusTextChange | Data
"""A change to which nothing is joined."""


def storable_chunk(chunk: ArtifactChunk) -> ArtifactChunk:
    """Return a chunk with texts that are `storable`; its data is made so by `value_of`."""
    news: dict[str, Any] = {}
    for name in ("text", "name", "description", "filename"):
        text = getattr(chunk, name)
        if text is not None and (kept := storable(text)) is not text:
            news[name] = kept
    if chunk.parts and any("\0" in part.text for part in chunk.parts):
        made = a2a.Artifact(parts=chunk.parts)
        _make_storable(made.parts)
        news["parts"] = made.parts
    return replace(chunk, **news) if news else chunk


def artifact(chunk: ArtifactChunk) -> pb.Change:
    """Return the change of one chunk.

    ValueError: it is too large.
    """
    change = pb.Change()
    update = change.artifact
    update.artifact.artifact_id = chunk.artifact_id
    if chunk.name is not None:
        update.artifact.name = chunk.name
    if chunk.description is not None:
        update.artifact.description = chunk.description
    update.append = chunk.append
    update.last_chunk = chunk.last
    update.artifact.parts.extend(parts_of(chunk))
    mark(update.artifact, chunk)
    if chunk.data is not None:
        mark_converted(update.artifact.metadata, to_value(plain(chunk.data), "parts[0].data")[1])
    return change


def mark(made: a2a.Artifact, chunk: ArtifactChunk) -> None:
    """Merge the metadata and the extensions of a chunk into its artifact."""
    if chunk.metadata:
        value, converted = to_value(plain(dict(chunk.metadata)), "metadata")
        made.metadata.MergeFrom(value.struct_value)
        mark_converted(made.metadata, converted)
    for uri in chunk.extensions:
        if uri not in made.extensions:
            made.extensions.append(uri)


def parts_of(chunk: ArtifactChunk) -> Sequence[a2a.Part]:
    """Return the content of a chunk. ValueError as `artifact`."""
    if chunk.parts is not None:
        return _checked([_copy_of(part) for part in chunk.parts])
    part = a2a.Part()
    if chunk.text is not None:
        part.text = chunk.text
    elif chunk.raw is not None:
        part.raw = chunk.raw
    elif chunk.url is not None:
        part.url = chunk.url
    else:
        part.data.CopyFrom(value_of(chunk.data))
    if chunk.filename is not None:
        part.filename = chunk.filename
    if chunk.media_type is not None:
        part.media_type = chunk.media_type
    return _checked((part,))


def is_plain_text(chunk: ArtifactChunk) -> bool:
    """Return whether a chunk is only a text, so that two such chunks can be joined to one text."""
    return chunk.text is not None and chunk.filename is None and chunk.media_type is None


def text_size(text: str) -> int:
    """Return the bytes of a text in UTF-8. UnicodeEncodeError: it has lone surrogates and cannot be stored."""
    return len(text) if text.isascii() else len(text.encode())


def value_of(data: Any) -> Value:
    """Return any Python value as a protobuf value, as `plain` makes JSON of it; never raises.

    A value nested too deeply becomes JSON text. An integer beyond the precision of a double becomes decimal text.
    """
    return to_value(plain(data))[0]


def data_message(data: Any, *before: a2a.Part, message_id: str = "") -> a2a.Message:
    """Return a message with any Python value as data, after other parts. Numbers that become texts are listed in it."""
    message = a2a.Message(message_id=message_id, parts=before)
    value, converted = to_value(plain(data), f"parts[{len(before)}].data")
    message.parts.add(data=value)
    mark_converted(message.metadata, converted)
    return message


def _checked(parts: Sequence[a2a.Part]) -> Sequence[a2a.Part]:
    if sum(map(_content_size, parts)) > MAX_CHUNK_BYTES:
        raise ValueError("a chunk of an artifact must have at most 1 MiB; send several chunks")
    return parts


def _content_size(part: a2a.Part) -> int:
    content = part.WhichOneof("content")
    if content == "text":
        return text_size(part.text)
    return len(part.raw) if content == "raw" else part.ByteSize()


def _copy_of(given: M) -> M:
    """Return a copy in which values nested too deeply are texts."""
    copy = type(given)()
    copy.CopyFrom(given)
    flatten(copy)
    return copy


def _make_storable(parts: MutableSequence[a2a.Part]) -> None:
    for part in parts:
        if "\0" in part.text:
            part.text = storable(part.text)
