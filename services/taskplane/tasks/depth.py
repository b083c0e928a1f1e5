"""JSON values in requests: none may be nested so deeply that what carries it could not be read again."""

from collections.abc import Iterable, Iterator
from typing import Final

from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.struct_pb2 import Struct, Value

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Invalid

# A parser of protobuf gives up at 100 nested messages, and whatever stores or shows a value wraps it in some more.
# A nested message takes at least two bytes, so that a small value cannot be too deep.
_WRAPPERS: Final = 16
_HARMLESS_BYTES: Final = 2 * (100 - _WRAPPERS)


def _of_parts(parts: Iterable[a2a.Part]) -> Iterator[Struct | Value]:
    for part in parts:
        if part.HasField("data"):
            yield part.data
        if part.HasField("metadata"):
            yield part.metadata


def of_message(message: a2a.Message) -> Iterator[Struct | Value]:
    """The values in a message."""
    yield from _of_parts(message.parts)
    if message.HasField("metadata"):
        yield message.metadata


def of_artifact(artifact: a2a.Artifact) -> Iterator[Struct | Value]:
    """The values in an artifact."""
    yield from _of_parts(artifact.parts)
    if artifact.HasField("metadata"):
        yield artifact.metadata


def of_change(change: pb.Change) -> Iterator[Struct | Value]:
    """The values in a change."""
    if change.HasField("status"):
        yield change.status.metadata
        yield from of_message(change.status.status.message)
    else:
        yield change.artifact.metadata
        yield from of_artifact(change.artifact.artifact)


def shallow(field: str, values: Iterable[Struct | Value]) -> None:
    """Refuses what could be written but, inside the messages that carry it, never be read again: Invalid `TOO_DEEP`.

    A protobuf parser stops at 100 nested messages, its builder does not: such a value would make its task unreadable.
    """
    for value in values:
        if value.ByteSize() > _HARMLESS_BYTES and not _readable(value):
            raise Invalid(
                f"{field} is nested too deeply to be stored",
                reason="TOO_DEEP",
                suggestion="send the data with fewer levels, or as a file",
                fields={field: "is nested too deeply"},
            )


def _readable(value: Struct | Value) -> bool:
    try:
        content = value.SerializeToString()
        Value.FromString(_wrapping(len(content), isinstance(value, Struct)) + content)
    except (DecodeError, EncodeError):
        return False
    return True


def _wrapping(size: int, struct: bool) -> bytes:
    """What stands before `size` bytes of a value so that it is the innermost one of `_WRAPPERS` nested messages."""
    # Value.struct_value is field 5, Value.list_value 6, ListValue.values 1; 2 is the wire type of nested messages.
    numbers = ([5] if struct else []) + [1, 6] * (_WRAPPERS // 2)
    wrapping = b""
    for number in numbers:
        header = bytes([number << 3 | 2]) + _varint(size)
        wrapping = header + wrapping
        size += len(header)
    return wrapping


def _varint(value: int) -> bytes:
    low = bytearray()
    while value > 0x7F:
        low.append(value & 0x7F | 0x80)
        value >>= 7
    low.append(value)
    return bytes(low)
