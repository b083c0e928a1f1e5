"""The ranges and choices of settings. They are written into the types of the fields, and checked here."""

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple

from taskplane.runtime.errors import Invalid

MOST_SECONDS: Final = 1e9
"""The longest time that a setting can name: 31 years."""
_MOST: Final = 10**9
_DAY: Final = 86_400
# Characters of a wrong value that an error shows.
_SHOWN: Final = 20


@dataclasses.dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `least` to `most`, both included, in a `unit`. Neither NaN nor infinity is in any range."""

    least: float
    most: float
    unit: str = ""

    def __str__(self) -> str:
        return f"{_figure(self.least)} to {_figure(self.most)} {self.unit}".rstrip()

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and math.isfinite(value) and self.least <= value <= self.most


Duration = Annotated[float, Range(0, MOST_SECONDS, "seconds")]
"""Seconds, 0 included."""
Interval = Annotated[float, Range(0.001, MOST_SECONDS, "seconds")]
"""Seconds of an interval or a timeout: more than 0."""
Lease = Annotated[float, Range(0.001, _DAY, "seconds")]
"""Seconds of a lease or of its renewal interval: at most a day, since databases take timeouts derived from them as
32-bit milliseconds."""
Count = Annotated[int, Range(0, _MOST)]
Limit = Annotated[int, Range(1, _MOST)]
Size = Annotated[int, Range(1, 2**40, "bytes")]
"""A size in bytes: 1 to 1 TiB."""
Connections = Annotated[int, Range(1, 1_000)]
Port = Annotated[int, Range(0, 65_535)]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]


class _Rule(NamedTuple):
    """The rule of a field. `allowed` is its range, and `kinds` are the types of its values. If `allowed` is None, the
    field must have one of `choices`."""

    field: str
    allowed: Range | None
    kinds: tuple[type, ...]
    choices: tuple[object, ...]


@functools.cache
def _rules_of(cls: type[Any]) -> tuple[_Rule, ...]:
    found: list[_Rule] = []
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        union = typing.get_origin(hint) in (typing.Union, types.UnionType)
        for kind in typing.get_args(hint) if union else (hint,):
            if typing.get_origin(kind) is Literal:
                found.append(_Rule(name, None, (), typing.get_args(kind)))
            for note in getattr(kind, "__metadata__", ()):
                if isinstance(note, Range):
                    kinds = (int,) if kind.__origin__ is int else (int, float)
                    found.append(_Rule(name, note, (*kinds, types.NoneType) if union else kinds, ()))
    return tuple(found)


def ranges_of(cls: type[Any]) -> Mapping[str, Range]:
    """Return the ranges of the fields of a dataclass that have one, by their names."""
    return {rule.field: rule.allowed for rule in _rules_of(cls) if rule.allowed is not None}  # type: ignore[arg-type]


def broken_rules(of: object) -> dict[str, str]:
    """Check the fields of a dataclass. Return a text about each wrong value, by field name."""
    wrong: dict[str, str] = {}
    for field, allowed, kinds, choices in _rules_of(type(of)):  # type: ignore[arg-type]
        value: Any = getattr(of, field)
        if allowed is None:
            if value not in choices:
                wrong[field] = f"must be one of {', '.join(map(str, choices))}, not {str(value)[:_SHOWN]}"
        elif not (isinstance(value, kinds) and (value is None or value in allowed)):
            wrong[field] = f"must be {allowed}, not {str(value)[:_SHOWN]}"
    return wrong


def refuse(wrong: Mapping[str, str]) -> None:
    """Raise Invalid `BAD_SETTING` if `wrong` (problem by setting) is not empty; the error has all problems."""
    if wrong:
        raise Invalid(
            "invalid settings: " + "; ".join(f"{name} {what}" for name, what in wrong.items()),
            reason="BAD_SETTING",
            fields=wrong,
        )


def _figure(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:g}"
