"""The few fields of A2A messages that the rules read: partial, status text, interrupted text, turn."""

from typing import Final

from google.protobuf.struct_pb2 import Struct, Value

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import INTERRUPTED, INVOCATION_KEYS, KIND, PARTIAL_KEYS, STATUS_TEXT
from taskplane.runtime.json_values import text_in
from taskplane.runtime.message_content import is_plain_part
from taskplane.runtime.validation import MAX_ID

_MARKS: Final = frozenset({*PARTIAL_KEYS, KIND})
_FINAL: Final = (False, False)
STATUS_TEXT_MARK: Final = Struct(fields={KIND: Value(string_value=STATUS_TEXT)}).SerializeToString()
"""The metadata that makes a message a status text, serialized."""
STATUS_TEXT_ENTRY: Final = STATUS_TEXT_MARK[2:]
"""The serialized map entry alone, without tag and length. Messages with more metadata contain these bytes, too."""


def message_flags(message: a2a.Message) -> tuple[bool, bool]:
    """Return whether a message is partial, and whether it is a status text.

    Partial: a piece of a growing text, delivered live, never kept in a history. Status text: a progress line, shown
    until the next change. Managed tasks never have a status text in their history.
    """
    if not message.HasField("metadata"):
        return _FINAL
    fields = message.metadata.fields
    if _MARKS.isdisjoint(fields):
        return _FINAL
    partial = False
    for key in PARTIAL_KEYS:
        if key in fields and fields[key].bool_value:
            partial = True
    return partial, KIND in fields and fields[KIND].string_value == STATUS_TEXT


def is_partial(message: a2a.Message) -> bool:
    """Return whether a message is partial; see `message_flags`."""
    return message_flags(message)[0]


def without_partial_mark(message: a2a.Message) -> a2a.Message:
    """Copy a partial message, and make the copy a final message."""
    final = a2a.Message()
    final.CopyFrom(message)
    for key in PARTIAL_KEYS:
        if key in final.metadata.fields:
            del final.metadata.fields[key]
    if not final.metadata.fields:
        final.ClearField("metadata")
    return final


def interrupted(message: a2a.Message) -> a2a.Message:
    """Copy an interrupted text as a final message; its `metadata.interrupted` is true."""
    final = without_partial_mark(message)
    final.metadata.fields[INTERRUPTED].bool_value = True
    return final


def turn_of(document: a2a.Task) -> str | None:
    """Return the invocation in the metadata of a document, else of its newest message with one; None if there is
    none."""
    named: list[a2a.Task | a2a.Message] = [document, document.status.message, *reversed(document.history)]
    return next((turn for said in named if (turn := named_turn(said)) is not None), None)


def named_turn(said: a2a.Task | a2a.Message | a2a.Artifact) -> str | None:
    """Return the invocation that a task, a message or an artifact names in its own metadata."""
    if not said.HasField("metadata"):
        return None
    for key in INVOCATION_KEYS:
        turn = text_in(said.metadata, key)
        if turn and len(turn) <= MAX_ID and "\0" not in turn:
            return turn
    return None


def extend(message: a2a.Message, delta: a2a.Message) -> None:
    """Append the parts of a partial message to the message before it; adjacent plain texts become one part."""
    for part in delta.parts:
        if message.parts and is_plain_part(part) and is_plain_part(message.parts[-1]):
            message.parts[-1].text += part.text
        else:
            message.parts.append(part)
