"""Messages of agents with data that is nested more deeply than parsers of protobuf read."""

from typing import Any, TypeVar

from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.struct_pb2 import Struct, Value

from taskplane.runtime.json_values import to_dict, to_json
from taskplane.runtime.nesting import readable_within
from taskplane.runtime.struct_values import MOST_LEVELS, WRAPPERS, Filler

M = TypeVar("M", bound=Message)


def read_as(kind: type[M], given: Message) -> M:
    """Return a message of another package as one of the same fields; values nested too deeply become texts."""
    try:
        return kind.FromString(given.SerializeToString())
    except (DecodeError, EncodeError):
        copy = type(given)()
        copy.CopyFrom(given)
        flatten(copy)
        return kind.FromString(copy.SerializeToString())


def flatten(message: Message) -> None:
    """Replace the JSON values of a message by the text of their JSON, where they are nested too deeply."""
    # A nested message takes at least two bytes, so that a small message is not too deep.
    if message.ByteSize() <= 2 * MOST_LEVELS:
        return
    if isinstance(message, Value | Struct):
        if not readable_within(message, WRAPPERS):
            _refill(message)
        return
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            inner: Any = value if field.is_repeated else (value,)
            for each in inner:
                flatten(each)


def _refill(value: Value | Struct) -> None:
    try:
        found = to_dict(value) if isinstance(value, Struct) else to_json(value)
    except RecursionError:
        found = {}
    value.Clear()
    if isinstance(value, Struct):
        Filler().fill_struct(value, found)
    else:
        Filler().fill(value, found)
