"""The ranges of numeric settings: each is part of the type of its field, and all are checked in one place."""

import dataclasses
import math
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from taskplane.runtime.errors import Invalid

MOST_SECONDS: Final = 1e9
"""The longest time that a setting can name: 31 years."""
_MOST: Final = 10**9
_DAY: Final = 86_400


@dataclasses.dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `least` to `most`, both included. Neither NaN nor infinity is in any range."""

    least: float
    most: float

    def __str__(self) -> str:
        return f"{_figure(self.least)} to {_figure(self.most)}"

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and math.isfinite(value) and self.least <= value <= self.most


Duration = Annotated[float, Range(0, MOST_SECONDS)]
"""Seconds, or 0."""
Interval = Annotated[float, Range(0.001, MOST_SECONDS)]
"""Seconds between two events, or of a wait that must end."""
Lease = Annotated[float, Range(0.001, _DAY)]
"""Seconds of a lease, or between its renewals: databases count its parts in milliseconds of 32 bits."""
Count = Annotated[int, Range(0, _MOST)]
Limit = Annotated[int, Range(1, _MOST)]
Size = Annotated[int, Range(1, 2**40)]
"""Bytes."""
Connections = Annotated[int, Range(1, 1_000)]
Port = Annotated[int, Range(0, 65_535)]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]


def ranges_of(cls: type[Any]) -> Mapping[str, Range]:
    """Return the ranges of the fields of a dataclass that have one, by their names."""
    found: dict[str, Range] = {}
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        for note in getattr(hint, "__metadata__", ()):
            if isinstance(note, Range):
                found[name] = note
    return found


def out_of_range(settings: object) -> dict[str, str]:
    """Return the problem of each number of `settings`, a dataclass, by the name of its field."""
    wrong: dict[str, str] = {}
    for name, allowed in ranges_of(type(settings)).items():
        value: object = getattr(settings, name)
        if value not in allowed:
            wrong[name] = f"must be {allowed}, not {str(value)[:20]}"
    return wrong


def refuse(wrong: Mapping[str, str]) -> None:
    """Raise Invalid `BAD_SETTING` with all names and their problems, unless there are none."""
    if wrong:
        raise Invalid(
            "invalid settings: " + "; ".join(f"{name} {what}" for name, what in wrong.items()),
            reason="BAD_SETTING",
            fields=wrong,
        )


def _figure(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:g}"
