"""Field-by-field reading of JSON requests, with a record of all wrong fields."""

import math
from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from taskplane.gateway.limits import MAX_ITEMS, MAX_NAMES
from taskplane.gateway.translate.reading import Reading
from taskplane.runtime.storable import storable
from taskplane.runtime.validation import NO_NUL, broken_id_rule, invalid


class _Snake(dict[str, str]):
    """A cache of the snake_case spelling of field names."""

    def __missing__(self, name: str) -> str:
        snake = self[name] = "".join("_" + char.lower() if char.isupper() else char for char in name)
        return snake


_snake: Final = _Snake()


def _whole(value: Any) -> int | None:
    if type(value) is float:
        return int(value) if math.isfinite(value) and value.is_integer() else None
    if type(value) is str and (len(value) > 11 or not (value.isascii() and value.removeprefix("-").isdigit())):
        return None
    return int(value) if type(value) in (int, str) else None


class Fields:
    """One JSON object of a request. A field is found under its camelCase and its snake_case name (A2A 1.0 section 5.5,
    ProtoJSON); null means absent; fields that are not read are ignored."""

    __slots__ = ("at", "bad", "source")

    def __init__(self, source: Mapping[str, Any], at: str, bad: Reading) -> None:
        self.source = source
        self.at = at
        self.bad = bad

    def path(self, name: str) -> str:
        """Return the JSON path of a field of this object."""
        return f"{self.at}.{name}" if self.at else name

    def has(self, name: str) -> bool:
        """Return whether the field is present, even if it is null."""
        return name in self.source or _snake[name] in self.source

    def get(self, name: str) -> Any:
        """Return the JSON value; None if it is absent."""
        value = self.source.get(name)
        if value is None:
            value = self.source.get(_snake[name])
        return value

    def wrong(self, name: str, what: str) -> None:
        """Record a violation of a field of this object."""
        self.bad.add(self.path(name), what)

    def text(self, name: str, *, required: bool = False) -> str:
        """Read a string; empty if it is absent."""
        value = self.get(name)
        if type(value) is str and value:
            if self.bad.lenient:
                return storable(value)
            if "\0" in value:
                self.wrong(name, NO_NUL)
                return ""
            return value
        if value is not None and value != "":
            self.wrong(name, "must be a string")
        elif required:
            self.wrong(name, "is required")
        return ""

    def id(self, name: str, *, required: bool = False) -> str:
        """Read an id: a string of at most 255 characters without control characters, as the stores require."""
        value = self.text(name, required=required)
        if rule := broken_id_rule(value):
            self.wrong(name, rule)
        elif value and value != self.get(name):
            self.wrong(name, "must not contain control characters")
        return value

    def names(self, name: str) -> list[str]:
        """Read a list of at most 100 strings."""
        return self.texts(name, most=MAX_NAMES)

    def number(self, name: str) -> int | None:
        """Read a whole number of 32 bits, which ProtoJSON also allows as a string or with a zero fraction."""
        value = self.get(name)
        if value is None:
            return None
        whole = _whole(value)
        if whole is None or not -(2**31) <= whole < 2**31:
            self.wrong(name, "must be a whole number from -2,147,483,648 to 2,147,483,647")
            return None
        return whole

    def choice(self, name: str, names: Mapping[int, str], *, required: bool = False) -> str:
        """Read the name of a value of an enumeration, which ProtoJSON also allows as its number; empty if it is absent.

        Names are not compared with `names`; an unknown number is read as `?`, which is no name.
        """
        value = self.get(name)
        if type(value) not in (int, float):
            return self.text(name, required=required)
        return names.get(value, "?")

    def flag(self, name: str) -> bool | None:
        """Read a boolean."""
        value = self.get(name)
        if value is None or type(value) is bool:
            return value
        self.wrong(name, "must be true or false")
        return None

    def texts(self, name: str, *, most: int = MAX_ITEMS) -> list[str]:
        """Read a list of at most `most` strings."""
        found: list[str] = []
        for index, value in enumerate(self._items(name, most)):
            if type(value) is not str:
                self.wrong(f"{name}[{index}]", "must be a string")
            elif self.bad.lenient:
                found.append(storable(value))
            elif "\0" in value:
                self.wrong(f"{name}[{index}]", NO_NUL)
            else:
                found.append(value)
        return found

    def inner(self, name: str, *, required: bool = False) -> "Fields | None":
        """Read a nested object."""
        value = self.get(name)
        if isinstance(value, dict):
            return Fields(value, self.path(name), self.bad)  # pyright: ignore[reportUnknownArgumentType]
        if value is not None:
            self.wrong(name, "must be an object")
        elif required:
            self.wrong(name, "is required")
        return None

    def inners(self, name: str) -> list["Fields"]:
        """Read a list of nested objects, of at most 100,000; a longer list is not read at all."""
        return [element for element in self.elements(name) if element is not None]

    def elements(self, name: str, *, most: int = MAX_ITEMS) -> list["Fields | None"]:
        """Read a list of at most `most` nested objects, with None at the index of each element that is no object.

        A longer list is not read at all.
        """
        found: list[Fields | None] = []
        for index, value in enumerate(self._items(name, most)):
            if isinstance(value, dict):
                found.append(Fields(value, self.path(f"{name}[{index}]"), self.bad))  # pyright: ignore[reportUnknownArgumentType]
            else:
                self.wrong(f"{name}[{index}]", "must be an object")
                found.append(None)
        return found

    def _items(self, name: str, most: int) -> list[Any]:
        value = self.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.wrong(name, "must be a list")
            return []
        if len(value) > most:  # pyright: ignore[reportUnknownArgumentType]
            self.wrong(name, f"must have at most {most:,} elements")
            return []
        return value  # pyright: ignore[reportUnknownVariableType]


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether a value is a JSON object."""
    return type(value) is dict


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Return whether a value is a JSON list."""
    return type(value) is list


def params_of(params: Any, bad: Reading) -> Fields:
    """Return the `params` of a call as an object. Raise Invalid for anything else."""
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise invalid({"params": "must be an object"})
    return Fields(params, "", bad)  # pyright: ignore[reportUnknownArgumentType]
