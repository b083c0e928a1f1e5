"""The ranges of numeric settings. A range is part of the type of its field; `out_of_range` checks all of them."""

import dataclasses
import math
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from taskplane.runtime.errors import Invalid

MOST_SECONDS: Final = 1e9
"""The maximum of a time in a setting: 31 years."""
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
"""Seconds, 0 included."""
Interval = Annotated[float, Range(0.001, MOST_SECONDS)]
"""Seconds of an interval or a timeout: more than 0."""
Lease = Annotated[float, Range(0.001, _DAY)]
"""Seconds of a lease or of its renewal interval: at most a day, since databases take timeouts derived from them as
32-bit milliseconds."""
Count = Annotated[int, Range(0, _MOST)]
Limit = Annotated[int, Range(1, _MOST)]
Size = Annotated[int, Range(1, 2**40)]
"""Bytes."""
Connections = Annotated[int, Range(1, 1_000)]
Port = Annotated[int, Range(0, 65_535)]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]


def ranges_of(cls: type[Any]) -> Mapping[str, Range]:
    """Return the ranges of a dataclass by field name; fields without a range are left out."""
    found: dict[str, Range] = {}
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        for note in getattr(hint, "__metadata__", ()):
            if isinstance(note, Range):
                found[name] = note
    return found


def out_of_range(settings: object) -> dict[str, str]:
    """Return a message for each field of the dataclass `settings` that is out of range, by field name."""
    wrong: dict[str, str] = {}
    for name, allowed in ranges_of(type(settings)).items():
        value: object = getattr(settings, name)
        if value not in allowed:
            wrong[name] = f"must be {allowed}, not {str(value)[:20]}"
    return wrong


def refuse(wrong: Mapping[str, str]) -> None:
    """Raise Invalid `BAD_SETTING` with every entry of `wrong` (problem by name), if there is one."""
    if wrong:
        raise Invalid(
            "invalid settings: " + "; ".join(f"{name} {what}" for name, what in wrong.items()),
            reason="BAD_SETTING",
            fields=wrong,
        )


def _figure(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:g}"
