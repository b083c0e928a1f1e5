"""Which calls of a local channel run, and the clock over them."""

import asyncio
from typing import Final

from taskplane.runtime.exchange import Exchange

# A loop's clock has milliseconds, so a timer may be early by less than one.
_RESOLUTION: Final = 0.001


class Running:
    """The calls of a channel that run, in rows: those that were given the same number of seconds; None: any number.

    A row is the order of its deadlines, so it needs one timer. Nearly all calls are given the same number and end long
    before: a timer for each would cost more than most of what is done for a call.
    """

    def __init__(self) -> None:
        self.closed = False
        """The channel begins no more calls."""
        self.rows: dict[float | None, dict[Exchange, None]] = {None: {}}
        self._timers: dict[float, asyncio.TimerHandle] = {}

    def row(self, seconds: float | None, loop: asyncio.AbstractEventLoop) -> dict[Exchange, None]:
        """A new row, for a call that begins now and is given so many seconds."""
        assert seconds is not None, "this row is always there"
        self._timers[seconds] = loop.call_later(seconds, self._strike, seconds, loop)
        row = self.rows[seconds] = {}
        return row

    def all(self) -> set[Exchange]:
        """Every call whose handler has not ended yet."""
        return {exchange for row in self.rows.values() for exchange in row}

    def stop(self) -> None:
        """No call expires any more."""
        for timer in self._timers.values():
            timer.cancel()

    def _strike(self, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
        row = self.rows[seconds]
        now = loop.time() + _RESOLUTION
        while row:
            first = next(iter(row))
            if first.deadline is not None and first.deadline > now:
                self._timers[seconds] = loop.call_at(first.deadline, self._strike, seconds, loop)
                return
            # Its handler may take longer to end, without a deadline.
            del row[first]
            first.row = self.rows[None]
            first.row[first] = None
            first.expire()
        del self.rows[seconds], self._timers[seconds]
