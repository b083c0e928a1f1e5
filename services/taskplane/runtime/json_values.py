"""JSON values out of the Struct and Value of google.protobuf."""

from typing import Any, Final

from google.protobuf.struct_pb2 import Struct, Value

# Above this a double does not represent every whole number, and JSON parsers differ.
_MAX_EXACT: Final = 2.0**53


def to_dict(struct: Struct) -> dict[str, Any]:
    """Return the JSON object of `struct`. Whole numbers are written without a fraction."""
    fields = struct.fields
    # Most values are strings, and the fields of a oneof exclude one another.
    return {key: fields[key].string_value or to_json(fields[key]) for key in fields}


def to_json(value: Value) -> Any:
    """Return the JSON value of `value`; null if it is unset."""
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "struct_value":
        return to_dict(value.struct_value)
    if kind == "number_value":
        number = value.number_value
        return int(number) if -_MAX_EXACT < number < _MAX_EXACT and number.is_integer() else number
    if kind == "bool_value":
        return value.bool_value
    if kind == "list_value":
        # One by one: a slice of some 100,000 values keeps the interpreter busy for seconds.
        return [inner.string_value or to_json(inner) for inner in value.list_value.values]
    return None
