"""The rate of sends of each principal: a token bucket each, in memory, in every executor process by itself."""

import time
from typing import Final

from cachetools import LRUCache

from taskplane.runtime.errors import Exhausted
from taskplane.runtime.principal import Principal

# Seconds of the rate that may be sent at once.
BURST: Final = 10.0
# Number of principals that are remembered; a forgotten principal begins with a full bucket.
_PRINCIPALS: Final = 10_000


class SendRates:
    """The sends of each principal, `per_second` in the long run and up to `BURST` seconds of that at once."""

    def __init__(self, per_second: float) -> None:
        """`per_second`: 0 for no limit."""
        self._per_second = per_second
        # The tokens of each principal and when they were counted, on the monotonic clock.
        self._buckets: LRUCache[tuple[str, str], tuple[float, float]] = LRUCache(_PRINCIPALS)

    def take(self, principal: Principal, now: float | None = None) -> None:
        """Count one send. Raise Exhausted `SEND_RATE` if the principal sends too fast; then it is not counted."""
        if not self._per_second:
            return
        now = time.monotonic() if now is None else now
        key = (principal.tenant, principal.owner)
        most = max(1.0, self._per_second * BURST)
        tokens, counted = self._buckets.get(key, (most, now))
        tokens = min(most, tokens + (now - counted) * self._per_second)
        self._buckets[key] = (tokens - 1 if tokens >= 1 else tokens, now)
        if tokens < 1:
            raise Exhausted(
                f"you exceed the limit of {self._per_second:g} messages per second",
                reason="SEND_RATE",
                suggestion="send messages more slowly",
                metadata={"limit": f"{self._per_second:g}"},
                retry_after=(1 - tokens) / self._per_second,
            )
