"""Reconnecting to a store that restarts or cannot be reached."""

import asyncio

from taskplane.runtime.retry import pause_after


class ReconnectPolicy:
    """Growing pauses between attempts to open a watch, until the store has not answered for `timeout` seconds."""

    __slots__ = ("_attempts", "_failing_since", "_timeout")

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._attempts = 0
        self._failing_since: float | None = None

    def reset(self) -> None:
        """Record that the store has answered."""
        self._attempts, self._failing_since = 0, None

    async def wait(self) -> bool:
        """Wait before the next attempt and return True; return False at once when the time is up."""
        now = asyncio.get_running_loop().time()
        self._failing_since = now if self._failing_since is None else self._failing_since
        if now - self._failing_since >= self._timeout:
            return False
        self._attempts += 1
        await asyncio.sleep(pause_after(self._attempts, None))
        return True
