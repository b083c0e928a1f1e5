"""Retries of idempotent calls: jittered, growing pauses of 50 ms to 1 s, or longer where the error asks for it."""

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_delay

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

_LONGEST: Final = 5.0
_SHORTEST: Final = 0.05


def pause_after(failures: int, error: BaseException | None) -> float:
    """Return the seconds to wait after so many failures in a row, at most 1.

    An error with a `retry_after` is waited for as long as it asks, up to 5 seconds.
    """
    growing: float = min(_SHORTEST * 2 ** min(failures - 1, 10), 1.0) * random.uniform(0.5, 1.0)
    asked = error.retry_after if isinstance(error, PlaneError) else None
    return max(growing, min(asked or 0.0, _LONGEST))


def _pause(state: RetryCallState) -> float:
    return pause_after(state.attempt_number, state.outcome.exception() if state.outcome is not None else None)


def _log_error(state: RetryCallState) -> None:
    if state.outcome is not None:
        log.warning("retrying a call: %s", state.outcome.exception())


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
    # Almost every call succeeds at once: the cost of tenacity would be an eighth of a send.
    began = time.monotonic()
    try:
        return await call()
    except errors as error:
        left = seconds - (time.monotonic() - began)
        if left <= 0:
            raise
        log.warning("retrying a call: %s", error)
        await asyncio.sleep(pause_after(1, error))

    async def attempt() -> T:
        return await call()

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(errors),
        stop=stop_after_delay(left),
        wait=_pause,
        before_sleep=_log_error,
        reraise=True,
    )
    return await retrying(attempt)
