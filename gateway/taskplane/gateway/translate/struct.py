"""Plain JSON values into Struct and Value of google.protobuf; `runtime.json_values` has the way back."""

from typing import Any, Final

from google.protobuf.struct_pb2 import NULL_VALUE, ListValue, Struct, Value

from taskplane.gateway.translate import metadata
from taskplane.gateway.translate.fields import Fields
from taskplane.gateway.validation import MAX_METADATA_BYTES, MAX_VALUE_DEPTH, MAX_VALUES, Violations
from taskplane.runtime.errors import Invalid

# Bytes of the smallest value in a struct or a list.
_MIN_BYTES: Final = 4


def fill_value(value: Value, source: Any, at: str, bad: Violations) -> None:
    """Copy a JSON value into `value`. Excessive depth and NUL characters are violations at `at`. Raise Invalid
    `REQUEST_TOO_LARGE` if the request has over 400,000 values."""
    _admit(1, at, bad, 1)
    _fill(value, source, at, bad, 1)


def _fill(value: Value, source: Any, at: str, bad: Violations, depth: int) -> None:
    # This runs for up to hundreds of thousands of values, so the frequent types come first.
    kind = source.__class__
    if kind is str:
        value.string_value = _text(source, at, bad)
    elif kind is int or kind is float:
        value.number_value = source
    elif kind is dict:
        _fill_struct(value.struct_value, source, at, bad, depth)
    elif kind is list:
        _fill_list(value.list_value, source, at, bad, depth)
    elif kind is bool:
        value.bool_value = source
    else:
        value.null_value = NULL_VALUE


def _fill_list(values: ListValue, source: list[Any], at: str, bad: Violations, depth: int) -> None:
    values.SetInParent()
    if not _admit(len(source), at, bad, depth + 1):
        return
    add = values.values.add
    for inner in source:
        kind = inner.__class__
        if kind is str:
            add().string_value = _text(inner, at, bad)
        elif kind is int or kind is float:
            add().number_value = inner
        else:
            _fill(add(), inner, at, bad, depth + 1)


def _fill_struct(struct: Struct, source: dict[str, Any], at: str, bad: Violations, depth: int) -> None:
    struct.SetInParent()
    if not _admit(len(source), at, bad, depth + 1):
        return
    fields = struct.fields
    for key, inner in source.items():
        kind = inner.__class__
        if kind is str:
            fields[_text(key, at, bad)].string_value = _text(inner, at, bad)
        elif kind is int or kind is float:
            fields[_text(key, at, bad)].number_value = inner
        else:
            _fill(fields[_text(key, at, bad)], inner, at, bad, depth + 1)


def _text(text: str, at: str, bad: Violations) -> str:
    if "\0" in text:
        bad.add(at, "must not contain NUL")
    return text


def _admit(count: int, at: str, bad: Violations, depth: int) -> bool:
    """Count the values of one level before any of them is read, and return whether they may be read."""
    if not count:
        return False
    if depth > bad.deepest:
        bad.deepest = depth
    bad.values += count
    if bad.values > bad.max_values:
        # At once, since reading on would take the time that the limit saves.
        raise Invalid(
            f"invalid params: {at}: the request has more than {MAX_VALUES} values",
            reason="REQUEST_TOO_LARGE",
            fields={at: f"the request must not have more than {MAX_VALUES} values"},
        )
    if depth > MAX_VALUE_DEPTH:
        bad.add(at, f"must not be nested deeper than {MAX_VALUE_DEPTH} levels")
        return False
    return True


def fill_metadata(struct: Struct, fields: Fields, name: str = "metadata") -> None:
    """Copy the object in the field `name`, of at most 64 KiB, into `struct`, which stays unset without one. Keys of
    this server are left out. Raise Invalid as `fill_value` does."""
    source = fields.inner(name)
    if source is None:
        return
    bad = fields.bad
    # More values than this cannot fit, whatever they are.
    bad.max_values = min(MAX_VALUES, bad.values + MAX_METADATA_BYTES // _MIN_BYTES)
    try:
        _fill_struct(struct, metadata.of_client(source.source), source.at, bad, 1)
        large = struct.ByteSize() > MAX_METADATA_BYTES
    except Invalid:
        if bad.values > MAX_VALUES:
            raise
        large = True
    finally:
        bad.max_values = MAX_VALUES
    if large:
        fields.wrong(name, f"must not be larger than {MAX_METADATA_BYTES} bytes")
