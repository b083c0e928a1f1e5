"""How deep JSON values in messages are nested, found out by a parser of protobuf instead of by walking them."""

from typing import Final

from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.struct_pb2 import Struct, Value

MOST_NESTED: Final = 100
"""So many messages inside one another a parser of protobuf reads; its builder makes more."""


def readable_within(value: Struct | Value, wrappers: int) -> bool:
    """Whether `value` can be read again as the innermost of `wrappers` nested messages, an even number of them."""
    # A nested message takes at least two bytes, so that a small value cannot be too deep.
    if value.ByteSize() <= 2 * (MOST_NESTED - wrappers):
        return True
    try:
        content = value.SerializeToString()
        Value.FromString(_wrapping(len(content), isinstance(value, Struct), wrappers) + content)
    except (DecodeError, EncodeError):
        return False
    return True


def _wrapping(size: int, struct: bool, wrappers: int) -> bytes:
    """What stands before `size` bytes of a value so that it is the innermost one of so many nested messages."""
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
