"""Failpoints: positions in the code where a test can end, delay or pause the process, or raise an error.

They do nothing unless TASKPLANE_FAILPOINTS names them.

The variable has entries `name=action` or `name=action@n` (from the n-th time on), separated by ";". Actions: `exit(9)`
ends the process at once with that code, `sleep(0.5)` waits, `raise(UNAVAILABLE)` raises the PlaneError with that code,
`pause(/path)` creates /path.reached and waits until /path exists.
"""

import asyncio
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from taskplane.runtime import errors, settings
from taskplane.runtime.errors import Invalid, PlaneError

_POINT: Final = re.compile(
    r"(?P<name>[\w.-]+)=(?P<action>exit|sleep|raise|pause)\((?P<value>[^()]*)\)(?:@(?P<nth>\d+))?"
)
_POLL_INTERVAL: Final = 0.01


@dataclass(slots=True)
class _Point:
    action: str
    value: str
    nth: int
    seen: int = 0


def configure(text: str) -> None:
    """Replace all failpoints by those of `text`. Invalid `BAD_SETTING`: an entry is not `name=action(value)`."""
    points: dict[str, _Point] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        match = _POINT.fullmatch(part)
        if match is None:
            raise Invalid(
                f"{settings.FAILPOINTS}: {part!r} must have the form name=action(value)", reason="BAD_SETTING"
            )
        points[match["name"]] = _Point(match["action"], match["value"], int(match["nth"] or 1))
    ARMED.clear()
    ARMED.update(points)


def fp(name: str) -> None:
    """Run the failpoint `name`. It may block, so call it in a thread, not on the event loop."""
    if ARMED and (point := _due(name)):
        if point.action == "sleep":
            time.sleep(float(point.value))
        elif point.action == "pause":
            _reached(point)
            while not os.path.exists(point.value):
                time.sleep(_POLL_INTERVAL)
        else:
            _fail(point)


async def afp(name: str) -> None:
    """Run the failpoint `name` on the event loop, without blocking it."""
    if ARMED and (point := _due(name)):
        if point.action == "sleep":
            await asyncio.sleep(float(point.value))
        elif point.action == "pause":
            _reached(point)
            while not os.path.exists(point.value):  # noqa: ASYNC110, ASYNC240 - only a test comes here
                await asyncio.sleep(_POLL_INTERVAL)
        else:
            _fail(point)


def _due(name: str) -> _Point | None:
    point = ARMED.get(name)
    if point is None:
        return None
    point.seen += 1
    return point if point.seen >= point.nth else None


def _reached(point: _Point) -> None:
    Path(point.value + ".reached").touch()


def _fail(point: _Point) -> None:
    if point.action == "exit":
        os._exit(int(point.value or 9))
    for cls in vars(errors).values():
        if isinstance(cls, type) and issubclass(cls, PlaneError) and cls.code == (point.value or "INTERNAL"):
            raise cls("a failpoint was reached", reason="FAILPOINT")
    raise Invalid(f"{settings.FAILPOINTS}: the error {point.value!r} does not exist", reason="BAD_SETTING")


ARMED: Final[dict[str, _Point]] = {}
"""The failpoints by name. It is empty outside tests, so write `if ARMED: fp(...)` on hot paths."""
configure(settings.environment().get(settings.FAILPOINTS, ""))
