"""The bell: a hint that something may have changed. Whoever hears it reads the database and believes only that."""

import asyncio


class Listener:
    """One who listens; one task waits at a time. For the tasks of one event loop; not to be used from other threads.

    A ring is never queued and never lost: it wakes one that waits, and spares one that is about to wait its waiting.
    Many rings between two waits are one. Listen first, then read, then wait: nothing is missed.
    """

    __slots__ = ("_rung", "_waiting")

    def __init__(self) -> None:
        self._rung = False
        self._waiting: asyncio.Future[None] | None = None

    def hear(self) -> None:
        """The bell rings."""
        self._rung = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def wait(self, timeout: float) -> bool:
        """True as soon as the bell has rung since the last wait returned, False after `timeout` seconds."""
        if not self._rung:
            loop = asyncio.get_running_loop()
            waiting = self._waiting = loop.create_future()
            timer = loop.call_later(timeout, _give_up, waiting)
            try:
                await waiting
            finally:
                timer.cancel()
                self._waiting = None
        rung, self._rung = self._rung, False
        return rung


def _give_up(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
