"""The clock of leases, read from the database and carried on for a moment without asking it again."""

import threading
import time
from typing import Final

from sqlalchemy import Connection

from taskplane.storage.dialects import Dialect

# A step of the database server's clock is noticed after this long, in seconds.
_FRESH: Final = 1.0


class LeaseClock:
    """Microseconds since 1970 by the database's clock, read at most `_FRESH` seconds ago.

    While the clock of the database does not go back, this clock does not either, in any thread and for any delay of an
    answer.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        # The time of the database, and the monotonic time of this machine when it was read. Threads replace both
        # together.
        self._read: tuple[int, float] | None = None
        self._reading = threading.Lock()

    def carried(self) -> int | None:
        """Return the time without a query; None if the last query was too long ago."""
        if self._read is None:
            return None
        base, at = self._read
        passed = time.monotonic() - at
        return base + _us(passed) if passed < _FRESH else None

    def now(self, conn: Connection) -> int:
        """Return the time, asking the database only where that was too long ago."""
        carried = self.carried()
        if carried is not None:
            return carried
        before = self._read
        now = self._dialect.now(conn)
        with self._reading:
            if self._read is None or self._read is before:
                # Carried on from after the answer: the carried time is never ahead of the next read.
                self._read = now, time.monotonic()
                return now
            # Another thread has stored an answer since; this answer may be older.
            base, at = self._read
        return base + _us(time.monotonic() - at)


def _us(seconds: float) -> int:
    return int(seconds * 1_000_000)
