"""Giving way on the event loop: to whatever what was just done sets off."""

import asyncio
from collections.abc import Callable
from typing import Any


def call_after(turns: int, loop: asyncio.AbstractEventLoop, fn: Callable[[], object]) -> None:
    """Calls `fn` in the turn of the loop that comes after so many, at least one; an idle loop turns at once."""
    later: Any = loop.call_soon
    # Each turn calls what stands behind it in the next: no function of ours runs before the last.
    later(*[later] * (turns - 1), fn)
