"""Retries of idempotent calls, with growing pauses (see `backoff`)."""

import logging
import math
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from taskplane.runtime.backoff import Backoff
from taskplane.runtime.errors import Conflict, DeadlineExceeded, Exhausted, PlaneError, Unavailable

T = TypeVar("T")

log = logging.getLogger(__name__)

UNKNOWN_OUTCOME: Final = (Unavailable, DeadlineExceeded)
"""Errors after which a call may or may not have taken effect."""
RETRYABLE: Final = (*UNKNOWN_OUTCOME, Exhausted, Conflict)
"""Errors after which an idempotent call may succeed when it is repeated unchanged."""
BRIEF: Final = 2.0
"""Seconds for which `retry_briefly` goes on: a store that restarts is found again within them, and clients that give up
after 5 s of silence still wait."""


def retry_briefly(call: Callable[[], Awaitable[T]]) -> Coroutine[Any, Any, T]:
    """Return the result of `call`, repeated for up to `BRIEF` seconds while its outcome is unknown.

    Raise the last error after that, and every other error at once. `call` must be idempotent. For work that a caller
    waits for.
    """
    return _retrying(call, UNKNOWN_OUTCOME, BRIEF)


def retry_until_reachable(call: Callable[[], Awaitable[T]]) -> Coroutine[Any, Any, T]:
    """Return the result of `call`, repeated while it raises a `RETRYABLE` error; raise every other error at once.

    `call` must be idempotent. For runs, which are bounded by their lease: a run that loses its lease is cancelled.
    """
    return _retrying(call, RETRYABLE, math.inf)


async def _retrying(call: Callable[[], Awaitable[T]], errors: tuple[type[PlaneError], ...], seconds: float) -> T:
    began = time.monotonic()
    backoff: Backoff | None = None
    while True:
        try:
            return await call()
        except errors as error:
            # Almost every call succeeds at once, and needs none.
            backoff = backoff or Backoff(patience=seconds, since=began)
            if not await backoff.wait(error):
                raise
            log.warning("a call is repeated: %s", error)
