"""The stored form of a payload: a serialized `Entry` of the contract with the payload as its only field.

Replies contain this form without another copy. No other module of the rules knows the messages of the contract.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from google.protobuf.message import EncodeError
from google.protobuf.struct_pb2 import Value

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import INVOCATION, INVOCATION_KEYS
from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.runtime import json_reading, message_times, nesting
from taskplane.runtime.json_values import text_in
from taskplane.runtime.message_content import digests, words_of
from taskplane.runtime.validation import is_id
from taskplane.sessions.domain.deleting import DeletedWords, Digests, listed_lines
from taskplane.sessions.domain.session import EVENT, REDUCED, Entry


def pack(entry: pb.Entry, which: str | None) -> bytes | None:
    """Return the field `which` of `entry` in its stored form; None if there is no such field.

    Raise Invalid `TOO_DEEP` if no server or client could read a reply with it.
    """
    if which is None:
        return None
    if which == "data":
        return _delimited(_DATA, entry.data.encode())
    try:
        if which == "message":
            payload = _delimited(_MESSAGE, entry.message.SerializeToString())
        elif which == "deleted":
            payload = pb.Entry(deleted=entry.deleted).SerializeToString()
        else:
            payload = _delimited(_PUSHED, entry.pushed.SerializeToString())
    except EncodeError:
        raise nesting.too_deep("entries") from None
    if not nesting.surely_shallow(payload):
        nesting.check("entries", entry)
    return payload


def _delimited(number: int, content: bytes) -> bytes:
    """Return a serialized message with one field, of this number (at most 15): a text, bytes or a message."""
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
MESSAGE_TAG: Final = _MESSAGE << 3 | 2
"""The first byte of a stored payload that is a message."""


def unpack(payload: bytes | None, created_at: int) -> pb.Entry:
    """Return an entry with a stored payload. Each message has a time.

    A copy from a task has the time of its commit in the task log. Any other message has the time of its entry
    (microseconds).
    """
    entry = pb.Entry.FromString(payload or b"")
    for message in _messages(entry):
        message_times.add_time(message.metadata, created_at)
    return entry


def move_messages(payload: bytes | None, context_id: str, created_at: int) -> bytes:
    """Return a stored payload with its messages in another session, and in no task. The messages keep their times."""
    entry = unpack(payload, created_at)
    for message in _messages(entry):
        message.context_id, message.task_id = context_id, ""
    return entry.SerializeToString()


def with_message_id(payload: bytes | None, message_id: str) -> bytes:
    """Return a stored payload with its message under another id."""
    entry = pb.Entry.FromString(payload or b"")
    entry.message.message_id = message_id
    return entry.SerializeToString()


def messages(payload: bytes | None) -> Sequence[a2a.Message]:
    """Return the A2A messages in a stored payload, in order. Some stored messages have no times."""
    return _messages(pb.Entry.FromString(payload or b""))


def timed_messages(payload: bytes | None, created_at: int) -> Sequence[a2a.Message]:
    """Return the A2A messages in a stored payload, in order, with times as in `unpack`."""
    return _messages(unpack(payload, created_at))


def _messages(entry: pb.Entry) -> Sequence[a2a.Message]:
    if entry.HasField("message"):
        return [entry.message]
    return list(entry.pushed.messages)


def keep_messages(payload: bytes | None, kept: Sequence[int]) -> bytes:
    """Return a stored pushed history with only the messages at the indexes `kept`, in order."""
    entry = pb.Entry.FromString(payload or b"")
    if len(kept) == len(entry.pushed.messages):
        return payload or b""
    pushed = pb.Messages(messages=[entry.pushed.messages[index] for index in kept])
    names = entry.pushed.invocation_ids
    pushed.invocation_ids.extend([names[index] for index in kept if index < len(names)])
    return pb.Entry(pushed=pushed).SerializeToString()


def leave_out(payload: bytes | None, indexes: Collection[int]) -> tuple[bytes, str]:
    """Return a new pushed history without the messages with these indexes, and its `Entry.listed`."""
    pushed = pb.Entry.FromString(payload or b"").pushed
    kept = [index for index in range(len(pushed.messages)) if index not in indexes]
    left = unpack_pushed(keep_messages(payload, kept))
    left.reduced_invocation_ids.extend(pushed.reduced_invocation_ids)
    return pack_pushed(left)


def unpack_pushed(payload: bytes | None) -> pb.Messages:
    """Return a stored pushed history, without added times."""
    return pb.Entry.FromString(payload or b"").pushed


def pack_pushed(pushed: pb.Messages) -> tuple[bytes, str]:
    """Return a pushed history as it is stored, and its `Entry.listed`."""
    return pb.Entry(pushed=pushed).SerializeToString(), listed(pushed)


def listed(pushed: pb.Messages) -> str:
    """Return the `Entry.listed` of a pushed history.

    Each message has a line with its invocation, or an empty line. `REDUCED` stands before a reduced invocation.
    """
    reduced = set(pushed.reduced_invocation_ids)
    return "".join(f"{REDUCED if name in reduced else ''}{name}\n" for name in invocations_in(pushed))


def invocations_in(pushed: pb.Messages) -> Sequence[str]:
    """Return the invocation of each message of a pushed history; "" for a message without an invocation."""
    names = list(map(invocation_in, pushed.messages))
    for index, name in enumerate(pushed.invocation_ids[: len(names)]):
        names[index] = names[index] or _id(name)
    return names


def listed_deletion(entry: pb.Entry) -> str:
    """Return the `Entry.listed` of a void; "" if the void belongs to no deleted task."""
    if not entry.HasField("deleted"):
        return ""
    deleted = entry.deleted
    return listed_lines(deleted.invocation_ids, ((one.seq, one.index) for one in deleted.hidden), deleted.entry_ids)


def with_hidden(void: Entry, hidden: Iterable[tuple[int, int]]) -> Entry:
    """Return the void of a deleted task with the messages of pushed histories that it hides."""
    stored = pb.Entry.FromString(void.payload or b"")
    del stored.deleted.hidden[:]
    stored.deleted.hidden.extend([pb.HiddenMessage(seq=seq, index=index) for seq, index in hidden])
    return void._replace(payload=stored.SerializeToString(), listed=listed_deletion(stored))


def deleted_words(payloads: Iterable[bytes | None]) -> DeletedWords:
    """Return the digests in the stored voids of deleted tasks, and their turns."""
    turns: set[str] = set()
    ids: set[int] = set()
    contents: set[int] = set()
    for payload in payloads:
        deleted = pb.Entry.FromString(payload or b"").deleted
        turns.update(deleted.invocation_ids)
        ids.update(deleted.message_ids)
        contents.update(deleted.contents)
    return DeletedWords(turns, ids - {0}, contents)


def pushed_digests(pushed: pb.Messages) -> list[tuple[str, Digests]]:
    """Return the turn of each message of a pushed history ("" without a turn), and its digests."""
    return [(name, digests(one)) for name, one in zip(invocations_in(pushed), pushed.messages, strict=True)]


def said_digests(payload: bytes | None) -> Iterator[Digests]:
    """Yield the digests of the messages in a stored payload."""
    return map(digests, messages(payload))


def first_words(payload: bytes | None, kept: Sequence[int] = (0,)) -> str:
    """Return the text of the message in a stored payload, or of the first `kept` message of a pushed history."""
    said = messages(payload)
    return words_of(said[kept[0]]) if kept and kept[0] < len(said) else ""


def without_words(stored: Entry, hidden: Collection[int] = ()) -> Entry:
    """Return an entry without its words. Its messages keep ids and roles only; an event keeps its turn and the target
    of its rewind. In a pushed history only the messages at the indexes `hidden` lose their words."""
    entry = pb.Entry(withheld=True)
    given = pb.Entry.FromString(stored.payload or b"")
    if stored.kind == EVENT:
        actions = {"rewind_before_invocation_id": stored.target} if stored.target else {}
        entry.data = json.dumps({"invocation_id": stored.invocation_id} | ({"actions": actions} if actions else {}))
    elif given.HasField("message"):
        entry.message.CopyFrom(_bare(given.message))
    elif given.HasField("pushed"):
        entry.pushed.CopyFrom(given.pushed)
        for index in hidden:
            entry.pushed.messages[index].CopyFrom(_bare(given.pushed.messages[index]))
    return stored._replace(payload=entry.SerializeToString())


def without_state(rewind: Entry) -> Entry:
    """Return a rewind without its changes of the state. These changes repeat earlier events."""
    entry = pb.Entry.FromString(rewind.payload or b"")
    if not entry.HasField("state_delta"):
        return rewind
    entry.ClearField("state_delta")
    entry.withheld = True
    return rewind._replace(payload=entry.SerializeToString())


def _bare(message: a2a.Message) -> a2a.Message:
    bare = a2a.Message(
        message_id=message.message_id, role=message.role, context_id=message.context_id, task_id=message.task_id
    )
    turn = invocation_in(message)
    if turn:
        bare.metadata.fields[INVOCATION].string_value = turn
    return bare


def pack_state(values: Mapping[str, Value], versions: Mapping[str, int]) -> bytes:
    """Return a change of the state as a serialized `Entry`: values by key and artifact versions by name."""
    entry = pb.Entry(artifact_versions=versions)
    for key, value in values.items():
        entry.state_delta.fields[key].CopyFrom(value)
    return entry.SerializeToString(deterministic=True)


def unpack_state(stored: bytes) -> tuple[Mapping[str, Value], Mapping[str, int]]:
    """Return the arguments of `pack_state`: the values and the artifact versions."""
    entry = pb.Entry.FromString(stored)
    return entry.state_delta.fields, entry.artifact_versions


def message_id_in(message: a2a.Message) -> str | None:
    """Return the id of a message for `Entry.message_id`; None if it has no id, or an id that cannot be stored."""
    return _id(message.message_id) or None


def invocation_in(message: a2a.Message) -> str:
    """Return the invocation in the metadata of a message; "" if there is none."""
    if not message.HasField("metadata"):
        return ""
    named = (_id(text_in(message.metadata, key)) for key in INVOCATION_KEYS)
    return next(filter(None, named), "")


class RuntimeEvent(NamedTuple):
    """The fields of an agent runtime's event that the history reads; "" for a missing field."""

    invocation_id: str
    rewinds_before: str
    # Unchanged from the event; None: the event has no such delta.
    state_delta: object = None
    artifact_delta: object = None


def read_event(data: str) -> RuntimeEvent:
    """Read an event of ADK, or of a runtime with the same format, in either spelling. Ignore anything else."""
    try:
        event: object = json_reading.parse_kept(data)
    except ValueError:
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
    """Return the value of the first field that is not null. The value may be false or empty."""
    if not isinstance(thing, dict):
        return None
    fields = cast("Mapping[str, Any]", thing)
    return next((fields[name] for name in spellings if fields.get(name) is not None), None)


def _id(value: object) -> str:
    """Return the value if it can be stored as an id, else "" (for instance with a lone surrogate)."""
    return value if isinstance(value, str) and is_id(value) else ""
