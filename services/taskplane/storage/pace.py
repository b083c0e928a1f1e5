"""Whether commits are quick enough to be waited for on the event loop."""

from dataclasses import dataclass
from typing import Final

_WEIGHT: Final = 1 / 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Times in seconds. Handing a transaction to a thread and back costs about as much as a COMMIT that is quick."""

    quick: float = 0.0003
    """A COMMIT in the thread that speaks for the loop."""
    mean: float = 0.0005
    """What COMMIT may take on the loop, on average."""
    slow: float = 0.005
    """A COMMIT that takes longer is one too many for the loop."""
    long: float = 0.05
    """And so is a transaction that does."""
    fewest: int = 16
    """Quick COMMITs in the thread before the loop is tried; twice as many each time that this went wrong soon."""
    most: int = 4096


class Pace:
    """What recent small transactions took, and what follows from it.

    The loop is left at once, after one slow transaction or when the mean is too high. It is tried again when the thread
    has seen many quick COMMITs; these are counted, and slow ones taken off, because a mean would say how long the
    thread waits for the interpreter, not for the disk. Used by whoever has the connection, never by two at once.
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
        if not self.quick:
            return commit is not None and self._note_in_thread(commit, bounds)
        if commit is not None:
            self.mean += (commit - self.mean) * _WEIGHT
            if commit > bounds.slow or self.mean > bounds.mean:
                return self._leave(took)
        if took > bounds.long:
            return self._leave(took)
        self._counted += 1
        if self._counted > self._needed > bounds.fewest:
            self._needed, self._counted = self._needed // 2, 0
        return False

    def _leave(self, took: float) -> bool:
        self._needed, self._counted = min(2 * self._needed, self._bounds.most), 0
        self.slow = took
        self.quick = False
        return True

    def _note_in_thread(self, commit: float, bounds: Bounds) -> bool:
        if commit > bounds.slow:
            self._counted = max(0, self._counted - bounds.fewest)
        elif commit <= bounds.quick:
            self._counted += 1
        if self._counted < self._needed:
            return False
        self._counted = 0
        self.mean = 0.0
        self.quick = True
        return True
