"""JSON values out of Python values: of arguments and results of tools, questions, answers and data of agents."""

import base64
import json
import math
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final, cast

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Struct, Value

from taskplane.runtime.json_values import to_dict, to_json
from taskplane.runtime.storable import storable
from taskplane.runtime.struct_values import Digits, decimal

# Deeper values are read by no parser; this is far beyond the depth that is stored.
_DEEPEST: Final = 200
# Python writes integers of at most some 4,300 digits.
_PRINTABLE_BITS: Final = 13_000
_AGAIN: Final = "..."
"""Stands for a value inside itself, as in Python."""


def plain(value: object) -> Any:
    """Return a Python value as JSON: dict, list, str, int, float, bool or None. Never raises.

    Texts are `storable`, and NaN and the infinities are null. Keys are texts. Models of pydantic, dataclasses and
    mappings are objects; sets and other collections lists, sets in the order of their JSON. Dates and times are ISO
    8601, bytes base64, enums their values; UUIDs, Decimals and anything else are their text. Numbers and arrays of
    numpy are numbers and lists.
    """
    return _plain(value, ())


def _plain(value: object, around: tuple[int, ...]) -> Any:
    kind = value.__class__
    # The types of JSON first, which nearly all values have.
    if kind is str:
        return storable(cast("str", value))
    if kind is int:
        return _integer(cast("int", value))
    if value is None or kind is bool:
        return value
    if kind is float:
        return value if math.isfinite(cast("float", value)) else None
    if id(value) in around:
        return _AGAIN
    if len(around) == _DEEPEST:
        return _text(value)
    around = (*around, id(value))
    try:
        if kind is dict:
            return {_key(key): _plain(inner, around) for key, inner in cast("dict[object, object]", value).items()}
        if kind is list:
            return [_plain(inner, around) for inner in cast("list[object]", value)]
        return _other(value, around)
    except Exception:  # noqa: BLE001 - values of agents do anything when they are looked at
        return _text(value)


def _other(value: object, around: tuple[int, ...]) -> Any:
    if isinstance(value, Enum):
        return _plain(value.value, around)
    if isinstance(value, str):
        return storable(str.__str__(value))
    if isinstance(value, int):
        return _integer(int(value))
    if isinstance(value, float):
        return _plain(float(value), around)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"PT{value.total_seconds():.6f}".rstrip("0").rstrip(".") + "S"
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(cast("bytes", value)).decode()
    if isinstance(value, Message):
        return _plain(_of_message(value), around)
    if isinstance(value, type):
        return _text(value)
    if (model := _of_model(value)) is not None:
        return _plain(model, around)
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name), around) for each in fields(value)}
    if isinstance(value, Mapping):
        return {_key(key): _plain(inner, around) for key, inner in cast("Mapping[object, object]", value).items()}
    if callable(listed := getattr(value, "tolist", None)):
        return _plain(listed(), around)
    if isinstance(value, Collection):
        found = [_plain(inner, around) for inner in cast("Collection[object]", value)]
        return sorted(found, key=_order) if isinstance(value, Set) else found
    for convert in (_whole, _float):
        if (number := convert(value)) is not None:
            return _plain(number, around)
    return _text(value)


def _integer(value: int) -> int | str:
    """Return an integer; as its digits if it has more than Python writes."""
    return value if value.bit_length() <= _PRINTABLE_BITS else Digits(decimal(value))


def _order(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _of_message(message: Message) -> Any:
    if isinstance(message, Value):
        return to_json(message)
    if isinstance(message, Struct):
        return to_dict(message)
    return [to_json(each) for each in message.values] if isinstance(message, ListValue) else MessageToDict(message)


def _of_model(value: object) -> Any:
    """Return the fields of a model of pydantic; None for any other value."""
    dump: Callable[..., Any] | None = getattr(value, "model_dump", None)
    if not callable(dump):
        return None
    try:
        return dump(mode="json")
    except Exception:  # noqa: BLE001 - a field has something that pydantic writes not as JSON
        return dump()


def _whole(value: Any) -> int | None:
    return value.__index__() if hasattr(value, "__index__") else None


def _float(value: Any) -> float | None:
    return value.__float__() if hasattr(value, "__float__") else None


def _key(key: object) -> str:
    if isinstance(key, Enum):
        key = key.value
    if isinstance(key, str):
        return storable(str.__str__(key))
    if key is None or isinstance(key, bool | int | float):
        # As Python writes them into JSON.
        return json.dumps(key)
    return _text(key)


def _text(value: object) -> str:
    """Return a value as text: as JSON if it is some that is too deep, else as it says itself."""
    for write in (_json, str):
        try:
            return storable(write(value))
        except Exception:  # noqa: BLE001 - its own code may fail
            continue
    return f"<{type(value).__name__}>"


def _json(value: object) -> str:
    if not isinstance(value, dict | list | tuple):
        raise TypeError
    return json.dumps(value, ensure_ascii=False, default=str)
