"""What an entry carries, as it is stored: a serialized `Entry` of the contract in which only the payload is set."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from google.protobuf.message import DecodeError, EncodeError

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.runtime.errors import Invalid
from taskplane.runtime.nesting import MOST_NESTED
from taskplane.sessions.domain.ids import is_id
from taskplane.sessions.domain.session import REDUCED

INVOCATION_KEY = "kagent_invocation_id"


def pack(entry: pb.Entry, which: str | None) -> bytes | None:
    """The payload of `entry`, which is the field `which`, as it is stored; None if it has none.

    Invalid `UNREADABLE`: it is nested so deeply that a reply which holds it could not be read, ours or another's.
    """
    if which is None:
        return None
    if which == "data":
        return _delimited(_DATA, entry.data.encode())
    try:
        if which == "message":
            payload = _delimited(_MESSAGE, entry.message.SerializeToString())
        else:
            payload = _delimited(_PUSHED, entry.pushed.SerializeToString())
        # A nested message takes at least two bytes, so that a small payload cannot be too deep.
        if len(payload) > 2 * (MOST_NESTED - 1):
            pb.WatchEntriesResponse.FromString(_delimited(_WATCHED, _delimited(_ENTRIES, payload)))
    except (DecodeError, EncodeError) as error:
        raise Invalid(
            f"the payload of entry {entry.id} is nested too deeply",
            reason="UNREADABLE",
            fields={"entries": "may be nested some 24 levels deep"},
        ) from error
    return payload


def _delimited(number: int, content: bytes) -> bytes:
    """A serialized message whose one field, of this number (at most 15), is a text, bytes or a message."""
    prefix = [number << 3 | 2]
    size = len(content)
    while size > 0x7F:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    prefix.append(size)
    return bytes(prefix) + content


_MESSAGE: Final = pb.Entry.MESSAGE_FIELD_NUMBER
_DATA: Final = pb.Entry.DATA_FIELD_NUMBER
_PUSHED: Final = pb.Entry.PUSHED_FIELD_NUMBER
_ENTRIES: Final = pb.Entries.ENTRIES_FIELD_NUMBER
_WATCHED: Final = pb.WatchEntriesResponse.ENTRIES_FIELD_NUMBER


def move_messages(payload: bytes | None, context_id: str) -> bytes:
    """A stored payload whose messages are in another session, and in no task."""
    entry = pb.Entry.FromString(payload or b"")
    for message in [entry.message] if entry.HasField("message") else entry.pushed.messages:
        message.context_id, message.task_id = context_id, ""
    return entry.SerializeToString()


def messages(payload: bytes | None) -> Sequence[a2a.Message]:
    """The A2A messages in a stored payload, in order."""
    entry = pb.Entry.FromString(payload or b"")
    if entry.HasField("message"):
        return [entry.message]
    return list(entry.pushed.messages)


def keep_messages(payload: bytes | None, kept: Sequence[int]) -> bytes:
    """A stored pushed history with those of its messages alone whose indexes are `kept`, in order."""
    entry = pb.Entry.FromString(payload or b"")
    if len(kept) == len(entry.pushed.messages):
        return payload or b""
    pushed = pb.Messages(messages=[entry.pushed.messages[index] for index in kept])
    return pb.Entry(pushed=pushed).SerializeToString()


def listed(pushed: pb.Messages) -> str:
    """The invocation that each message names in its metadata, or nothing, a line each; `REDUCED` before it where it
    was reduced."""
    names = map(invocation_in, pushed.messages)
    reduced = set(pushed.reduced_invocation_ids)
    return "".join(f"{REDUCED if name in reduced else ''}{name}\n" for name in names)


def invocation_in(message: a2a.Message) -> str:
    """The invocation that a message names in its metadata; "" if it names none."""
    if not message.HasField("metadata"):
        return ""
    fields = message.metadata.fields
    return _id(fields[INVOCATION_KEY].string_value) if INVOCATION_KEY in fields else ""


class RuntimeEvent(NamedTuple):
    """What the history reads in the event of an agent runtime; "" where it says nothing about it."""

    invocation_id: str
    rewinds_before: str
    # As they were written; None: there is none.
    state_delta: object = None
    artifact_delta: object = None


def read_event(data: str) -> RuntimeEvent:
    """Reads an event of ADK or a runtime that writes as it does, in either spelling; anything else says nothing."""
    try:
        event: object = json.loads(data)
    except (ValueError, RecursionError):
        return RuntimeEvent("", "")
    actions = _field(event, "actions")
    return RuntimeEvent(
        _id(_field(event, "invocation_id", "invocationId")),
        _id(_field(actions, "rewind_before_invocation_id", "rewindBeforeInvocationId")),
        _given(actions, "state_delta", "stateDelta"),
        _given(actions, "artifact_delta", "artifactDelta"),
    )


def _field(thing: object, *spellings: str) -> object:
    if not isinstance(thing, dict):
        return None
    fields = cast("Mapping[str, Any]", thing)
    return next((fields[name] for name in spellings if fields.get(name)), None)


def _given(thing: object, *spellings: str) -> object:
    """Like `_field`, but what is false is something, too."""
    if not isinstance(thing, dict):
        return None
    fields = cast("Mapping[str, Any]", thing)
    return next((fields[name] for name in spellings if fields.get(name) is not None), None)


def _id(value: object) -> str:
    """An id as one is stored; what could be none (a lone surrogate, say) says nothing."""
    return value if isinstance(value, str) and is_id(value) else ""
