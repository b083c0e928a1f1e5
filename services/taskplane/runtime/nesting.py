"""The depth to which messages are nested, found out by a parser of protobuf instead of by walking them."""

from collections.abc import Iterable
from typing import Any, Final

from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.unknown_fields import UnknownFieldSet

MOST_NESTED: Final = 100
"""Messages inside one another that a parser of protobuf reads at most; its builder makes more."""


def readable_within(value: Struct | Value, wrappers: int) -> bool:
    """Return whether `value` can be read again as the innermost of `wrappers` nested messages, an even number."""
    # A nested message takes at least two bytes, so that a small value cannot be too deep.
    if value.ByteSize() <= 2 * (MOST_NESTED - wrappers):
        return True
    try:
        content = value.SerializeToString()
        Value.FromString(_wrapping(len(content), isinstance(value, Struct), wrappers) + content)
    except (DecodeError, EncodeError):
        return False
    return True


_START_GROUP: Final = 3


def has_groups(message: Message) -> bool:
    """Return whether there is a group among the unknown fields of a message or of one in it.

    Unknown fields are kept, and of them only groups (wire type 3 of the protobuf encoding) nest for a parser; a
    contract in proto3 has none.
    """
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return known.ByteSize() != message.ByteSize() and _has_groups(message)


def _has_groups(message: Message) -> bool:
    unknown: Any = UnknownFieldSet(message)
    if any(field.wire_type == _START_GROUP for field in unknown):
        return True
    return any(_has_groups(inner) for field, value in message.ListFields() for inner in _inside(field, value))


def _inside(field: Any, value: Any) -> Iterable[Message]:
    if field.message_type is None:
        return ()
    if field.message_type.GetOptions().map_entry:
        return value.values() if field.message_type.fields_by_name["value"].message_type else ()
    return value if field.is_repeated else (value,)


def _wrapping(size: int, struct: bool, wrappers: int) -> bytes:
    """Return the bytes before a value of `size` bytes that make it the innermost of so many nested messages."""
    # Value.struct_value is field 5, Value.list_value 6, ListValue.values 1; 2 is the wire type of nested messages.
    numbers = ([5] if struct else []) + [1, 6] * (wrappers // 2)
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
