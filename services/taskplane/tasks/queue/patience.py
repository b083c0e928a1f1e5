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

    def given(self, owner: Owner) -> None:
        """Note that the owner was given a slot."""
        self._since.pop(owner, None)

    def over(self) -> frozenset[Owner]:
        """Return the owners that have waited long enough to borrow a slot."""
        now = time.monotonic()
        return frozenset(owner for owner, since in self._since.items() if now - since >= LENT_AFTER)

    def note(self, waiting: Iterable[Owner]) -> float | None:
        """Note the waiting owners. Return the seconds until the next of them has waited long enough."""
        now = time.monotonic()
        self._since = {owner: self._since.get(owner, now) for owner in waiting if owner[1]}
        left = [LENT_AFTER - (now - since) for since in self._since.values()]
        return min((each for each in left if each > 0), default=None)
