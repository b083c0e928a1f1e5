"""Owners of tasks that wait although there are slots, and the time since they got one."""

import time
from collections.abc import Iterable
from typing import Final

from taskplane.runtime.sharing import Owner

LENT_AFTER: Final = 30.0
"""Seconds without a slot after which an owner at the limit of its share is lent one more. None of its runs has ended in
this time: they may be waiting for its queued tasks.
"""


class Patience:
    """The waiting owners, each with its start, by the monotonic clock."""

    def __init__(self) -> None:
        self._since: dict[Owner, float] = {}
        self._over: set[Owner] = set()

    def begin(self) -> None:
        """Begin a round of the dispatcher: find the owners that have waited long enough to borrow a slot."""
        now = time.monotonic()
        self._over = {owner for owner, since in self._since.items() if now - since >= LENT_AFTER}

    def over(self) -> frozenset[Owner]:
        """Return the owners that may borrow a slot in this round."""
        return frozenset(self._over)

    def given(self, owner: Owner) -> None:
        """Note that the owner was given a slot."""
        self._since.pop(owner, None)
        self._over.discard(owner)

    def note(self, waiting: Iterable[Owner]) -> float | None:
        """Note the waiting owners. Return the seconds until the next of them may borrow a slot; 0: its time was over
        after this round had begun. An owner that could borrow in this round waits for a slot, not for the clock."""
        now = time.monotonic()
        self._since = {owner: self._since.get(owner, now) for owner in waiting if owner[1]}
        left = [since + LENT_AFTER - now for owner, since in self._since.items() if owner not in self._over]
        return max(0.0, min(left)) if left else None
