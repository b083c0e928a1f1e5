"""JSON values of requests into Struct and Value of google.protobuf; `runtime.json_values` has the way back."""

from typing import Any, Final

from google.protobuf.struct_pb2 import Struct, Value

from taskplane.gateway.limits import MAX_METADATA_BYTES, MAX_VALUES, TOO_LARGE
from taskplane.gateway.translate import metadata
from taskplane.gateway.translate.fields import Fields
from taskplane.gateway.translate.reading import Reading
from taskplane.runtime.errors import Invalid
from taskplane.runtime.nesting import RULE
from taskplane.runtime.struct_values import Filler, converted_paths, mark_converted
from taskplane.runtime.validation import NO_NUL, invalid

# Bytes of the smallest value in a struct or a list.
_MIN_BYTES: Final = 4


class _ValueReading(Filler):
    """The reading of the value at `at`. It counts, and records violations, or converts them if `bad` is lenient."""

    __slots__ = ("_at", "_bad")

    def __init__(self, at: str, bad: Reading) -> None:
        super().__init__()
        self._at = at
        self._bad = bad

    def text(self, text: str) -> str:
        if self._bad.lenient:
            return super().text(text)
        if "\0" in text:
            self._bad.add(self._at, NO_NUL)
        return text

    def admit(self, count: int) -> bool:
        """Count the values of one level before any of them is read, and return whether there are any."""
        if not count:
            return False
        bad = self._bad
        bad.values += count
        if bad.values > bad.max_values:
            # At once, since reading on would take the time that the limit saves.
            rule = f"must have at most {MAX_VALUES:,} values, with all others of the request"
            raise invalid({self._at: rule}, reason="REQUEST_TOO_LARGE")
        return True

    def too_deep(self, source: Any) -> str:
        if self._bad.lenient:
            return super().too_deep(source)
        self._bad.add(self._at, RULE)
        return ""

    def end(self, source: Any) -> None:
        """Record the numbers that became texts."""
        if self.converted:
            self._bad.converted += converted_paths(source, self._at)


def fill_value(value: Value, source: Any, at: str, bad: Reading) -> None:
    """Copy a JSON value into `value`. Excessive depth and NUL characters are violations at `at`, or converted if `bad`
    is lenient. Raise Invalid `REQUEST_TOO_LARGE` if the request has over 400,000 values."""
    reading = _ValueReading(at, bad)
    reading.admit(1)
    reading.fill(value, source)
    reading.end(source)


def fill_metadata(struct: Struct, fields: Fields, kept: metadata.Kept = metadata.of_client) -> None:
    """Copy the object in the field `metadata`, of at most 64 KiB, into `struct`, which stays unset without one. Keys of
    this server are left out. Raise Invalid as `fill_value` does."""
    source = fields.inner("metadata")
    if source is None:
        return
    bad = fields.bad
    given = kept(source.source)
    reading = _ValueReading(source.at, bad)
    # More values than this cannot fit, whatever they are.
    bad.max_values = min(MAX_VALUES, bad.values + MAX_METADATA_BYTES // _MIN_BYTES)
    try:
        reading.fill_struct(struct, given)
        large = struct.ByteSize() > MAX_METADATA_BYTES
    except Invalid:
        if bad.values > MAX_VALUES:
            raise
        large = True
    finally:
        bad.max_values = MAX_VALUES
    reading.end(given)
    if large:
        fields.wrong("metadata", TOO_LARGE)


def fill_own_metadata(struct: Struct, fields: Fields, kept: metadata.Kept = metadata.of_client) -> None:
    """Copy the metadata of a message, an artifact or a task as `fill_metadata` does, and list in it the numbers of that
    object that became texts. Everything else of the object must have been read before."""
    if fields.has("metadata"):
        fill_metadata(struct, fields, kept)
    if fields.bad.converted:
        mark_converted(struct, fields.bad.take_converted(fields.at))
