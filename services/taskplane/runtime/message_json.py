"""Whole messages of protobuf as ProtoJSON, with the numbers in their JSON values as `json_values` writes them."""

import math
from typing import Any

from google.protobuf.json_format import MessageToDict, SerializeToJsonError
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import NULL_VALUE, Value

from taskplane.runtime.json_values import to_number


def to_dict(message: Message) -> dict[str, Any]:
    """Return a message as ProtoJSON. Whole doubles below 10^21 are integers."""
    found: dict[str, Any] = _whole(readable(message))
    return found


def readable(message: Message) -> dict[str, Any]:
    """Return a message as ProtoJSON as the library writes it, with null for NaN and the infinities in JSON values."""
    try:
        return MessageToDict(message)
    except (SerializeToJsonError, ValueError):
        # ProtoJSON has no such values.
        copy = type(message)()
        copy.CopyFrom(message)
        _make_finite(copy)
        return MessageToDict(copy)


def _whole(value: Any) -> Any:
    kind = value.__class__
    if kind is float:
        return to_number(value)
    if kind is dict:
        return {key: _whole(inner) for key, inner in value.items()}
    return [_whole(inner) for inner in value] if kind is list else value


def _make_finite(message: Message) -> None:
    if isinstance(message, Value) and message.HasField("number_value"):
        if not math.isfinite(message.number_value):
            message.null_value = NULL_VALUE
        return
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            inner: Any = value.values() if field.message_type.fields_by_name["value"].message_type else ()
        else:
            inner = value if field.is_repeated else (value,)
        for each in inner:
            _make_finite(each)
