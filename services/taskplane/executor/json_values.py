"""JSON objects out of protobuf's."""

from typing import Any, Final

from google.protobuf.struct_pb2 import Struct, Value

# Above this a double does not represent every whole number.
_MAX_EXACT: Final = 2.0**53


def to_dict(struct: Struct) -> dict[str, Any]:
    """Return the JSON object of a Struct. Whole numbers are ints."""
    return {key: to_json(value) for key, value in struct.fields.items()}


def to_json(value: Value) -> Any:
    """Return the JSON of a Value. Whole numbers are ints."""
    match value.WhichOneof("kind"):
        case "string_value":
            return value.string_value
        case "number_value":
            number = value.number_value
            return int(number) if -_MAX_EXACT < number < _MAX_EXACT and number.is_integer() else number
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return to_dict(value.struct_value)
        case "list_value":
            return [to_json(inner) for inner in value.list_value.values]
        case _:
            return None
