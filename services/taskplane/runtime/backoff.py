"""Growing pauses between attempts that fail, for every loop that tries again."""

import asyncio
import math
import random
import time
from typing import Final

from taskplane.runtime.errors import PlaneError

_LONGEST_ASKED: Final = 5.0
# Twice as long so many times at most, which is more than any pause is.
_DOUBLED: Final = 30


def growing(failures: int, first: float, longest: float) -> float:
    """Return the seconds to wait after so many failures in a row: `first`, then twice as long each time."""
    return min(first * 2.0 ** min(failures - 1, _DOUBLED), longest)


class Backoff:
    """The pauses of one loop, from `first` to `longest` seconds.

    `jitter`: each is a random part of that, at least half, so that processes do not return together. `patience`:
    seconds of failures in a row until the loop gives up, from `since` on (`time.monotonic`), or from the first failure.
    """

    __slots__ = ("_first", "_jitter", "_longest", "_patience", "_since", "failures")

    def __init__(
        self,
        first: float = 0.05,
        longest: float = 1.0,
        *,
        jitter: bool = True,
        patience: float = math.inf,
        since: float | None = None,
    ) -> None:
        self._first = first
        self._longest = longest
        self._jitter = jitter
        self._patience = patience
        self._since = since
        self.failures = 0

    def reset(self) -> None:
        """Record a success: the next failure is the first of a row."""
        self.failures, self._since = 0, None

    async def wait(self, error: BaseException | None = None) -> bool:
        """Wait before the next attempt and return True; return False at once when the patience is over.

        The last pause ends with the patience. An error with a `retry_after` is waited for as long as it asks, up to 5
        seconds.
        """
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        left = self._since + self._patience - now
        if left <= 0:
            return False
        self.failures += 1
        pause = growing(self.failures, self._first, self._longest)
        if self._jitter:
            pause *= random.uniform(0.5, 1.0)
        asked = error.retry_after if isinstance(error, PlaneError) else None
        await asyncio.sleep(max(min(pause, left), min(asked or 0.0, _LONGEST_ASKED)))
        return True
