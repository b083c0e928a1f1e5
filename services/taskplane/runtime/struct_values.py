"""JSON values into the Struct and Value of google.protobuf; `json_values` has the way back.

Protobuf has no other numbers than doubles. An integer that no double holds becomes its decimal text.
"""

import math
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

from google.protobuf.struct_pb2 import NULL_VALUE, ListValue, Struct, Value

from taskplane.api.message_metadata import CONVERTED
from taskplane.runtime.json_lines import encode_text
from taskplane.runtime.nesting import LIST, MOST_LEVELS, OBJECT
from taskplane.runtime.storable import storable

# Beyond these two, a double does not represent every whole number.
_EXACT: Final = 2**53
# The maximum number of listed paths of converted numbers.
_MOST_PATHS: Final = 100
# Characters of such a path.
_LONGEST_PATH: Final = 255
_PLACE: Final = re.compile(r"(?:\w+\[\d+\]\.)*\w+")


class Digits(str):
    """A number of JSON that Python cannot hold, as its text."""

    __slots__ = ()


class Filler:
    """Copies JSON values to protobuf. A subclass may refuse values in place of converting them."""

    __slots__ = ("converted",)

    def __init__(self) -> None:
        # An integer became a text since this was set to False.
        self.converted = False

    def text(self, text: str) -> str:
        """Return a text, or a key, as it is stored."""
        return storable(text)

    def admit(self, count: int) -> bool:
        """Return whether the values of an object or a list, `count` of them, are read."""
        return count > 0

    def too_deep(self, source: Any) -> str:
        """Return the text that stands for an object or a list that is nested too deeply: its JSON."""
        try:
            return storable(encode_text(source))
        except RecursionError:
            return "..."

    def fill(self, value: Value, source: Any, levels: int = 0) -> None:
        """Copy a JSON value, which is in so many nested messages already."""
        # This runs for up to hundreds of thousands of values, so the frequent types come first.
        kind = source.__class__
        if kind is str:
            value.string_value = self.text(source)
        elif kind is float or kind is int:
            self._number(value, source)
        elif kind is dict:
            if levels + OBJECT > MOST_LEVELS:
                value.string_value = self.too_deep(source)
            else:
                self.fill_struct(value.struct_value, source, levels)
        elif kind is list:
            if levels + LIST > MOST_LEVELS:
                value.string_value = self.too_deep(source)
            else:
                self.fill_list(value.list_value, source, levels)
        elif kind is bool:
            value.bool_value = source
        elif kind is Digits:
            self.converted = True
            value.string_value = source
        else:
            value.null_value = NULL_VALUE

    def fill_list(self, values: ListValue, source: list[Any], levels: int = 0) -> None:
        """Copy a list."""
        values.SetInParent()
        levels += LIST
        if not self.admit(len(source)):
            return
        add, text, fill = values.values.add, self.text, self.fill
        for inner in source:
            kind = inner.__class__
            if kind is str:
                add().string_value = text(inner)
            elif kind is int and -_EXACT <= inner <= _EXACT:
                add().number_value = inner
            else:
                fill(add(), inner, levels)

    def fill_struct(self, struct: Struct, source: dict[str, Any], levels: int = 0) -> None:
        """Copy an object."""
        struct.SetInParent()
        levels += OBJECT
        if not self.admit(len(source)):
            return
        fields, text, fill = struct.fields, self.text, self.fill
        for key, inner in source.items():
            kind = inner.__class__
            if kind is str:
                fields[text(key)].string_value = text(inner)
            elif kind is int and -_EXACT <= inner <= _EXACT:
                fields[text(key)].number_value = inner
            else:
                fill(fields[text(key)], inner, levels)

    def _number(self, value: Value, number: float) -> None:
        if number.__class__ is float:
            if math.isfinite(number):
                value.number_value = number
            else:
                value.null_value = NULL_VALUE
        elif is_exact(number):  # type: ignore[arg-type]
            value.number_value = number
        else:
            self.converted = True
            value.string_value = decimal(number)  # type: ignore[arg-type]


def is_exact(number: int) -> bool:
    """Return whether a double holds an integer."""
    return -_EXACT <= number <= _EXACT or (number.bit_length() <= 1024 and _as_float(number) == number)


def _as_float(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def decimal(number: int) -> str:
    """Return the digits of an integer. Python itself writes at most some 4,300."""
    return f"{Decimal(number):f}"


def converted_paths(source: Any, at: str, levels: int = 0) -> Iterator[str]:
    """Yield the paths of the numbers in a JSON value that no double holds, in order."""
    kind = source.__class__
    if kind is dict and levels + OBJECT <= MOST_LEVELS:
        for key, inner in source.items():
            yield from converted_paths(inner, f"{at}.{key}" if at else key, levels + OBJECT)
    elif kind is list and levels + LIST <= MOST_LEVELS:
        for index, inner in enumerate(source):
            yield from converted_paths(inner, f"{at}[{index}]", levels + LIST)
    elif kind is Digits or (kind is int and not is_exact(source)):
        yield at


def to_value(data: Any, at: str = "") -> tuple[Value, Sequence[str]]:
    """Return JSON as a protobuf value, and the paths of the numbers in it that became texts.

    A value nested too deeply becomes the text of its JSON.
    """
    value, filler = Value(), Filler()
    filler.fill(value, data)
    return value, list(converted_paths(data, at)) if filler.converted else ()


def mark_converted(metadata: Struct, paths: Sequence[str]) -> None:
    """List numbers that became texts in the metadata of the object that they are in, by their paths in it.

    Of more than 100 paths only the values that they are in are listed, such as `parts[0].data`.
    """
    if not paths:
        return
    listed = metadata.fields[CONVERTED].list_value.values
    known = {each.string_value for each in listed}
    if len(known) + len(paths) > _MOST_PATHS:
        paths = list(map(_place, paths))
    for path in paths:
        told = storable(path if len(path) <= _LONGEST_PATH else _place(path))
        if told not in known:
            known.add(told)
            listed.add().string_value = told


def _place(path: str) -> str:
    """Return the field of an object that a path leads into: `parts[0].data` of `parts[0].data.a.b`."""
    found = _PLACE.match(path)
    return found[0] if found else ""
