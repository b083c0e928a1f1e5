"""Declarations of stored fields, without SQL: a NamedTuple whose fields are the columns of a table, in order.

The type of a field gives the type of its column, and `None` in it a column that may be null. Aliases such as
`Growing[int]` add marks, which triggers and statements are made of.
"""

from collections.abc import Hashable, Mapping
from enum import Enum, auto
from functools import cache
from inspect import signature
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

_T = TypeVar("_T")


class Rule(Enum):
    """The rule for later values of a column. Triggers enforce it."""

    FIXED = auto()
    """It is set when the row is inserted."""
    GROWING = auto()
    """It never decreases."""
    FREE = auto()
    """It changes in any direction."""
    CACHE = auto()
    """It may be computed from other data, so it changes at any time."""


class Width(Enum):
    """The size of a column of whole numbers, if it is not eight bytes."""

    SMALL = auto()
    """Four bytes."""


Fixed: TypeAlias = Annotated[_T, Rule.FIXED]
Growing: TypeAlias = Annotated[_T, Rule.GROWING]
Free: TypeAlias = Annotated[_T, Rule.FREE]
Cache: TypeAlias = Annotated[_T, Rule.CACHE]
Small: TypeAlias = Annotated[int, Width.SMALL]


class Field(NamedTuple):
    """A declared field. `default`: the value of rows that do not give one; None: there is no such value."""

    kind: type
    nullable: bool
    marks: frozenset[Hashable]
    default: Any


@cache
def fields_of(noun: type[tuple[Any, ...]]) -> Mapping[str, Field]:
    """Return the fields of a NamedTuple by name, in order."""
    hints = get_type_hints(noun, include_extras=True)
    return {
        name: Field(*_read(hints[name]), None if each.default is each.empty else each.default)
        for name, each in signature(noun).parameters.items()
    }


def marked(noun: type[tuple[Any, ...]], *marks: Hashable) -> frozenset[str]:
    """Return the names of the fields that have one of the marks."""
    return frozenset(name for name, field in fields_of(noun).items() if not field.marks.isdisjoint(marks))


def _read(hint: Any) -> tuple[type, bool, frozenset[Hashable]]:
    """Return the plain type of a field, whether it allows None, and the marks."""
    origin = get_origin(hint)
    if origin is Annotated:
        kind, nullable, marks = _read(hint.__origin__)
        return kind, nullable, marks | set(hint.__metadata__)
    if origin in _UNIONS:
        (given,) = (each for each in get_args(hint) if each is not NoneType)
        kind, _, marks = _read(given)
        return kind, True, marks
    return hint, False, frozenset()


_UNIONS: Final = (Union, UnionType)
