"""Whether commits are quick enough to be waited for on the event loop."""

from dataclasses import dataclass
from typing import Final

_WEIGHT: Final = 1 / 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Times in seconds. Handing a transaction to a thread and back costs about as much as a COMMIT that is quick."""

    mean: float = 0.001
    """What COMMIT may take on the loop, on average."""
    slow: float = 0.005
    """A COMMIT that takes longer is one too many for the loop."""
    long: float = 0.05
    """And so is a transaction that does."""
    fewest: int = 16
    """Transactions that the thread is given before the loop is tried; twice as many each time that this went wrong
    soon."""
    most: int = 4096


class Pace:
    """What recent small transactions took, and what follows from it.

    The loop is left at once, after one slow transaction or when the mean is too high, and tried again after a number of
    transactions in the thread. Their times would not tell: a thread that has to wait for the interpreter after its
    COMMIT takes that for a slow disk. Used by whoever has the connection, never by two at once.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.quick = False
        """Whether the next small transaction is for the loop."""
        self.mean = 0.0
        """What COMMIT takes on the loop, in seconds, exponentially weighted."""
        self.slow = 0.0
        """What the last slow transaction took, in seconds."""
        self._bounds = bounds
        self._needed = bounds.fewest
        self._counted = 0

    def note(self, took: float, commit: float | None) -> bool:
        """A small transaction took so long, and its COMMIT, unless it changed nothing; whether `quick` changed."""
        bounds = self._bounds
        self._counted += 1
        if not self.quick:
            if self._counted < self._needed:
                return False
            self.quick, self.mean, self._counted = True, 0.0, 0
            return True
        if commit is not None:
            self.mean += (commit - self.mean) * _WEIGHT
            if commit > bounds.slow or self.mean > bounds.mean:
                return self._leave(took)
        if took > bounds.long:
            return self._leave(took)
        if self._counted > self._needed > bounds.fewest:
            self._needed, self._counted = self._needed // 2, 0
        return False

    def _leave(self, took: float) -> bool:
        self._needed, self._counted = min(2 * self._needed, self._bounds.most), 0
        self.slow = took
        self.quick = False
        return True
