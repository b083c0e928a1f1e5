"""Messages of agents with data that is nested too deeply for protobuf parsers."""

from typing import TypeVar

from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.struct_pb2 import Struct, Value

from taskplane.runtime.json_values import to_dict, to_json
from taskplane.runtime.nesting import readable, values_in
from taskplane.runtime.struct_values import Filler

M = TypeVar("M", bound=Message)


def read_as(kind: type[M], given: Message) -> M:
    """Return a message of another package as a message of `kind`, which has the same fields. Values nested too deeply
    become texts."""
    try:
        return kind.FromString(given.SerializeToString())
    except (DecodeError, EncodeError):
        copy = type(given)()
        copy.CopyFrom(given)
        flatten(copy)
        return kind.FromString(copy.SerializeToString())


def flatten(message: Message) -> None:
    """Replace JSON values of a message that are nested too deeply by JSON text."""
    for value in values_in(message):
        if not readable(value):
            _refill(value)


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
