"""Limits on the levels of JSON and of protobuf messages, and their checks.

Protocol Buffers write messages of any depth, but their parsers stop at 100 nested messages.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.unknown_fields import UnknownFieldSet

from taskplane.runtime.errors import Invalid
from taskplane.runtime.validation import invalid

JSON_LEVELS: Final = 64
"""Levels of a JSON document."""
LENIENT_JSON_LEVELS: Final = 500
"""Levels of a JSON document that a runtime keeps; its deep values are kept as text."""
MOST_NESTED: Final = 100
"""The maximum number of nested messages that a parser of protobuf reads. A builder makes more."""
WRAPPERS: Final = 16
"""Messages around a value at most, wherever it is stored or shown; an even number."""
MOST_LEVELS: Final = MOST_NESTED - WRAPPERS
"""Nested messages that a value may have: three for an object, two for a list."""
OBJECT: Final = 3
LIST: Final = 2
RULE: Final = f"must be nested at most {MOST_LEVELS // OBJECT} levels of objects, or {MOST_LEVELS // LIST} of lists"
"""The rule for values, as the end of a sentence."""

# A nested message takes at least two bytes, so that a message of fewer is not too deep.
_SHALLOW_BYTES: Final = 2 * MOST_LEVELS
# A Value nests as an object (field 5: a Struct, its entry and the next Value are three messages) or as a list (field 6:
# a ListValue and the next Value are two). These are the tags of the two fields, of one byte each.
_OBJECT_TAG: Final = b"\x2a"
_LIST_TAG: Final = b"\x32"
# A group begins with a tag of wire type 3, in the lowest three bits of its first byte.
_START_GROUP: Final = 3
_NO_GROUPS: Final = bytes(byte for byte in range(256) if byte & 7 != _START_GROUP)
# Levels without such a tag: the outermost value itself, and the empty object or list inside the innermost one.
_OTHERS: Final = 4
_CONTAINERS: Final = frozenset({dict, list})


def too_deep(field: str, rule: str = RULE) -> Invalid:
    """Return the error `TOO_DEEP` for a field of a request; "" for its body."""
    return invalid({field: rule}, reason="TOO_DEEP", suggestion="send the data with fewer levels or as a file")


def json_deeper_than(value: Any, levels: int) -> bool:
    """Return whether a JSON value has more levels."""
    level: list[Any] = [value]
    for _ in range(levels):
        below: list[Any] = []
        for one in level:
            below += one.values() if type(one) is dict else one if type(one) is list else ()
        level = [one for one in below if type(one) in _CONTAINERS]
        if not level:
            return False
    return True


def check(field: str, message: Message) -> None:
    """Raise Invalid `TOO_DEEP` if a message could be written, but not read again inside the messages that contain it.

    Either a JSON value in it has too many levels, or it has unknown groups, which nest as well.
    """
    if message.ByteSize() > _SHALLOW_BYTES and (not all(map(readable, values_in(message))) or _has_groups(message)):
        raise too_deep(field)


def surely_shallow(serialized: bytes) -> bool:
    """Return whether a message has too few bytes, or too few that can be tags of nested values, to be too deep.

    False means that only `check` can decide: texts have such bytes, too (`*` and `2`, and one in eight for groups).
    """
    if len(serialized) <= _SHALLOW_BYTES:
        return True
    groups = len(serialized.translate(None, _NO_GROUPS))
    return groups + OBJECT * serialized.count(_OBJECT_TAG) + LIST * serialized.count(_LIST_TAG) + _OTHERS <= MOST_LEVELS


def readable(value: Struct | Value) -> bool:
    """Return whether a value can be read again as the innermost of `WRAPPERS` nested messages.

    A parser finds it out: that is faster than to walk the value.
    """
    if value.ByteSize() <= _SHALLOW_BYTES:
        return True
    try:
        content = value.SerializeToString()
        Value.FromString(_wrapping(len(content), isinstance(value, Struct)) + content)
    except (DecodeError, EncodeError):
        return False
    return True


def values_in(message: Message) -> Iterator[Struct | Value]:
    """Yield the JSON values of a message that could be too deep."""
    if isinstance(message, Struct | Value):
        yield message
    elif message.ByteSize() > _SHALLOW_BYTES:
        for inner in _inner(message):
            yield from values_in(inner)


def _has_groups(message: Message) -> bool:
    """Return whether a message, or a message in it, has an unknown field that is a group.

    Unknown fields are kept, and of them only groups (wire type 3 of the protobuf encoding) nest for a parser; a
    contract in proto3 has none.
    """
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return known.ByteSize() != message.ByteSize() and _has_unknown_group(message)


def _has_unknown_group(message: Message) -> bool:
    unknown: Any = UnknownFieldSet(message)
    return any(field.wire_type == _START_GROUP for field in unknown) or any(map(_has_unknown_group, _inner(message)))


def _inner(message: Message) -> Iterator[Message]:
    for field, value in message.ListFields():
        yield from _inner_of(field, value)


def _inner_of(field: Any, value: Any) -> Iterable[Message]:
    if field.message_type is None:
        return ()
    if field.message_type.GetOptions().map_entry:
        return value.values() if field.message_type.fields_by_name["value"].message_type else ()
    return value if field.is_repeated else (value,)


def _wrapping(size: int, struct: bool) -> bytes:
    """Return the bytes before a value of `size` bytes that make it the innermost of `WRAPPERS` nested messages."""
    # Value.struct_value is field 5, Value.list_value 6, ListValue.values 1; 2 is the wire type of nested messages.
    numbers = ([5] if struct else []) + [1, 6] * (WRAPPERS // 2)
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
