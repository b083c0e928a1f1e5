"""JSON values out of the Struct and Value of google.protobuf; `struct_values` has the way back."""

import math
from typing import Any, Final

from google.protobuf.struct_pb2 import Struct, Value

# Below this, whole numbers are written as integers, as JavaScript does.
_WHOLE: Final = 1e21


def to_dict(struct: Struct) -> dict[str, Any]:
    """Return the JSON object of `struct`. Whole numbers below 10^21 are integers; NaN and the infinities are null."""
    fields = struct.fields
    # Most values are strings, and the fields of a oneof exclude one another.
    return {key: fields[key].string_value or to_json(fields[key]) for key in fields}


def to_json(value: Value) -> Any:
    """Return the JSON value of `value`, with numbers as `to_dict` has them; null if it is unset."""
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "struct_value":
        return to_dict(value.struct_value)
    if kind == "number_value":
        return to_number(value.number_value)
    if kind == "bool_value":
        return value.bool_value
    if kind == "list_value":
        # Delete one at a time: a slice of some 100,000 values blocks the interpreter for seconds.
        return [inner.string_value or to_json(inner) for inner in value.list_value.values]
    return None


def text_in(struct: Struct, *keys: str) -> str:
    """Return the text under the first of these keys that `struct` has; "" if it has none, or another value there."""
    fields = struct.fields
    for key in keys:
        # Reading a missing key would add it.
        if key in fields:
            return fields[key].string_value
    return ""


def to_number(number: float) -> float | int | None:
    """Return a double as JSON has it."""
    if -_WHOLE < number < _WHOLE:
        return int(number) if number.is_integer() else number
    return number if math.isfinite(number) else None
