"""What an entry carries, as it is stored: a serialized `Entry` of the contract in which only the payload is set."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from google.protobuf.message import DecodeError, EncodeError

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.runtime.errors import Invalid
from taskplane.sessions.domain.limits import is_id

INVOCATION_KEY = "kagent_invocation_id"


def pack(entry: pb.Entry) -> bytes | None:
    """The payload of `entry` as it is stored, None if it has none.

    Invalid `UNREADABLE`: it is nested so deeply that a reply which holds it could not be read, ours or another's.
    """
    which = entry.WhichOneof("payload")
    try:
        if which == "message":
            payload = pb.Entry(message=entry.message).SerializeToString()
        elif which == "data":
            payload = pb.Entry(data=entry.data).SerializeToString()
        elif which == "pushed":
            payload = pb.Entry(pushed=entry.pushed).SerializeToString()
        else:
            return None
        pb.ListEntriesResponse.FromString(_as_entries(payload))
    except (DecodeError, EncodeError) as error:
        raise Invalid(
            f"the payload of entry {entry.id} is nested too deeply",
            reason="UNREADABLE",
            fields={"entries": "may be nested some 24 levels deep"},
        ) from error
    return payload


def _as_entries(payload: bytes) -> bytes:
    """A serialized reply whose one entry (field 1, length-delimited) has this payload."""
    size = len(payload)
    prefix = bytearray(b"\x0a")
    while size > 0x7F:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    prefix.append(size)
    return bytes(prefix) + payload


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
    """The invocation that each message names in its metadata, or nothing, a line each."""
    return "".join(f"{_invocation(message)}\n" for message in pushed.messages)


def _invocation(message: a2a.Message) -> str:
    if not message.HasField("metadata"):
        return ""
    fields = message.metadata.fields
    return _id(fields[INVOCATION_KEY].string_value) if INVOCATION_KEY in fields else ""


class RuntimeEvent(NamedTuple):
    """What the history reads in the event of an agent runtime; "" where it says nothing about it."""

    invocation_id: str
    rewinds_before: str


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
    )


def _field(thing: object, *spellings: str) -> object:
    if not isinstance(thing, dict):
        return None
    fields = cast("Mapping[str, Any]", thing)
    return next((fields[name] for name in spellings if fields.get(name)), None)


def _id(value: object) -> str:
    """An id as one is stored; what could be none (a lone surrogate, say) says nothing."""
    return value if isinstance(value, str) and is_id(value) else ""
