"""Requests that arrive as protobuf: the checks and removals that readers of JSON make while they convert a value."""

import math
from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.limits import MAX_VALUES
from taskplane.gateway.translate.metadata import OURS, Kept, of_client, of_request
from taskplane.runtime.json_values import to_json
from taskplane.runtime.validation import NO_NUL, WrongFields, invalid

_NOT_FINITE: Final = "must not contain NaN or infinity"


def settle(request: Message, bad: WrongFields) -> None:
    """Remove unknown fields, and keys of this server in metadata, from a request, and check its texts and the JSON
    values in it.

    Fields are named by their JSON paths. Raise Invalid `REQUEST_TOO_LARGE` for over 400,000 values.
    """
    request.DiscardUnknownFields()
    _Settling(bad, of_request if isinstance(request, a2a.SendMessageRequest) else of_client).message(request, "")


class _Settling:
    def __init__(self, bad: WrongFields, of_whole: Kept) -> None:
        self._bad = bad
        self._of_whole = of_whole
        self._values = 0

    def message(self, message: Message, at: str) -> None:
        for field, value in message.ListFields():
            path = f"{at}.{field.json_name}" if at else field.json_name
            if field.message_type is None:
                if field.type == field.TYPE_STRING:
                    self._texts(value, path)
            elif field.is_repeated:
                self._count(len(value), path)
                for index, inner in enumerate(value):
                    self.message(inner, f"{path}[{index}]")
            elif isinstance(value, Struct):
                self._struct(value, path)
                _remove_own(value, self._of_whole if path == "metadata" else of_client)
            elif isinstance(value, Value):
                self._value(value, path)
            else:
                self.message(value, path)

    def _texts(self, value: str | Sequence[str], at: str) -> None:
        """Check the text of a field, or each text of a list."""
        if isinstance(value, str):
            if "\0" in value:
                self._bad.add(at, NO_NUL)
        elif "\0" in "".join(value):
            for index, text in enumerate(value):
                self._texts(text, f"{at}[{index}]")

    def _struct(self, struct: Struct, at: str) -> None:
        fields = struct.fields
        self._count(len(fields), at)
        for key in fields:
            if "\0" in key:
                self._bad.add(at, NO_NUL)
            self._value(fields[key], at)

    def _value(self, value: Value, at: str) -> None:
        kind = value.WhichOneof("kind")
        if kind == "string_value":
            if "\0" in value.string_value:
                self._bad.add(at, NO_NUL)
        elif kind == "number_value":
            if not math.isfinite(value.number_value):
                self._bad.add(at, _NOT_FINITE)
        elif kind == "struct_value":
            self._struct(value.struct_value, at)
        elif kind == "list_value":
            values = value.list_value.values
            self._count(len(values), at)
            for inner in values:
                self._value(inner, at)

    def _count(self, number: int, at: str) -> None:
        """Count the values of one level before any of them is read."""
        self._values += number
        if self._values > MAX_VALUES:
            rule = f"must have at most {MAX_VALUES:,} values, with all others of the request"
            raise invalid({at: rule}, reason="REQUEST_TOO_LARGE")


def _remove_own(metadata: Struct, kept: Kept) -> None:
    fields: Any = metadata.fields
    for key in [key for key in fields if key.startswith(OURS)]:
        if not kept({key: to_json(fields[key])}):
            del fields[key]
