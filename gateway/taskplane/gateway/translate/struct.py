"""google.protobuf Struct and Value <-> plain JSON values."""

from typing import Any, Final

from google.protobuf.struct_pb2 import NULL_VALUE, ListValue, Struct, Value

from taskplane.gateway.translate.fields import Fields, Violations
from taskplane.runtime.errors import Invalid

# Levels of a JSON value inside a message. Three levels of protobuf are spent on each, and a parser gives up at 100:
# without a limit a value can be stored that nobody can read again.
MOST_DEPTH: Final = 24
# JSON values of one request that become protobuf, which takes far longer than parsing them did.
MOST_VALUES: Final = 400_000
# Bytes of one `metadata`.
MOST_METADATA: Final = 64 * 1024
# Above this a double no longer holds every whole number, and JSON readers differ.
_EXACT: Final = 2.0**53


def to_dict(struct: Struct) -> dict[str, Any]:
    """The JSON object that `struct` holds. Whole numbers are written without a fraction."""
    return {key: to_json(value) for key, value in struct.fields.items()}


def to_json(value: Value) -> Any:
    """The JSON value that `value` holds; one that holds nothing is null."""
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "struct_value":
        return {key: to_json(inner) for key, inner in value.struct_value.fields.items()}
    if kind == "number_value":
        number = value.number_value
        return int(number) if -_EXACT < number < _EXACT and number.is_integer() else number
    if kind == "bool_value":
        return value.bool_value
    if kind == "list_value":
        return [to_json(inner) for inner in value.list_value.values]
    return None


def fill_value(value: Value, source: Any, at: str, bad: Violations, depth: int = 1) -> None:
    """Puts a JSON value into `value`. Too deep a value and NUL characters are violations at `at`. Invalid
    `REQUEST_TOO_LARGE`: the request has over 400,000 values."""
    if depth > bad.deepest:
        bad.deepest = depth
    bad.values += 1
    if bad.values > MOST_VALUES:
        # At once: reading on would take as long as what it is to prevent.
        raise Invalid(
            f"invalid params: {at}: the request has more than {MOST_VALUES} values",
            reason="REQUEST_TOO_LARGE",
            fields={at: f"the request must not have more than {MOST_VALUES} values"},
        )
    if depth > MOST_DEPTH:
        bad.add(at, f"must not be nested deeper than {MOST_DEPTH} levels")
    elif source is None:
        value.null_value = NULL_VALUE
    elif isinstance(source, bool):
        value.bool_value = source
    elif isinstance(source, (int, float)):
        value.number_value = source
    elif isinstance(source, str):
        if "\0" in source:
            bad.add(at, "must not contain NUL")
        value.string_value = source
    elif isinstance(source, list):
        _fill_list(value.list_value, source, at, bad, depth)  # pyright: ignore[reportUnknownArgumentType]
    else:
        fill_struct(value.struct_value, source, at, bad, depth)


def _fill_list(values: ListValue, source: list[Any], at: str, bad: Violations, depth: int) -> None:
    values.SetInParent()
    for inner in source:
        fill_value(values.values.add(), inner, at, bad, depth + 1)


def fill_struct(struct: Struct, source: dict[str, Any], at: str, bad: Violations, depth: int = 1) -> None:
    """Puts a JSON object into `struct`; see `fill_value`."""
    struct.SetInParent()
    fields = struct.fields
    for key, inner in source.items():
        if "\0" in key:
            bad.add(at, "must not contain NUL")
        fill_value(fields[key], inner, at, bad, depth + 1)


def fill_metadata(struct: Struct, fields: Fields, name: str = "metadata") -> None:
    """Puts the object in the field `name` into `struct`, which stays unset where there is none. At most 64 KiB."""
    source = fields.inner(name)
    if source is not None:
        fill_struct(struct, dict(source.source), source.at, fields.bad)
        if struct.ByteSize() > MOST_METADATA:
            fields.wrong(name, f"must not be larger than {MOST_METADATA} bytes")
