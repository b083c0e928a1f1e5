"""Growing pauses between attempts to reach a server."""

import asyncio
import random
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from taskplane.client.failures import NotConnected, Unreachable
from taskplane.client.http import STREAM_SILENCE

GIVE_UP_AFTER: Final = 60.0
"""Seconds without any success after which a call or a stream is given up."""

_SHORTEST: Final = 0.05
_LONGEST: Final = 1.0


class Pauses:
    """The pauses of one call or stream: 50 ms to 1 s, until `give_up_after` seconds have passed without any success.

    A server that was never reached is not waited for: the first attempt that cannot connect is the last one.
    """

    def __init__(self, give_up_after: float = GIVE_UP_AFTER) -> None:
        self._give_up_after = give_up_after
        self._attempts = 0
        self._failing_since: float | None = None
        self._reached = False

    def reset(self) -> None:
        """Record a success: the pauses begin anew."""
        self.answered()
        self._attempts = 0

    def answered(self) -> None:
        """Record an answer without progress: the server is there, and the pauses go on growing."""
        self._failing_since, self._reached = None, True

    @contextmanager
    def open_stream(self) -> Generator[None]:
        """Record a success if the stream that is open inside lives longer than the longest pause, also without events.

        A shorter life is none: a server that closes each stream at once would be asked without a pause. Neither is the
        time before a connection failed or, at the end, before the silence was noticed.
        """
        clock = asyncio.get_running_loop()
        opened, silence = clock.time(), 0.0
        try:
            yield
        except Unreachable as error:
            if error.reason == "SILENT" or isinstance(error, NotConnected):
                silence = STREAM_SILENCE
            raise
        finally:
            if clock.time() - silence - opened > _LONGEST:
                self.reset()

    async def wait(self, error: Unreachable) -> None:
        """Wait before the next attempt, for as long as the server asked if it did; raise `error` to give up."""
        if not self._reached and isinstance(error, NotConnected):
            raise error
        self._reached = True
        now = asyncio.get_running_loop().time()
        self._failing_since = now if self._failing_since is None else self._failing_since
        self._attempts += 1
        pause = error.retry_after or self._growing()
        if now + pause - self._failing_since > self._give_up_after:
            raise error
        await asyncio.sleep(pause)

    def _growing(self) -> float:
        """Return a random time, so that the clients of a server that restarts do not return together."""
        longest: float = min(_SHORTEST * 2 ** min(self._attempts - 1, 10), _LONGEST)
        return longest * random.uniform(0.5, 1.0)
