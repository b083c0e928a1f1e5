"""The timeout of short calls that are repeated, each at the next replica of the store.

A replica that is stopped or hangs does not answer. Runs that wait for it would lose their leases, though the other
replicas are well. So renewals and appends wait only for a fraction of the lease, and are then repeated.

`round_robin` gives each call of a channel to the next replica. Renewals and appends each have a channel of their own,
with one call at a time, so that the next call is the next try. Retries of the service config do not help: they share
one deadline, and begin when a connection has ended.
"""

from typing import Final

from taskplane.runtime.client import DEADLINE

# Seconds; a process on a busy machine may well need this long.
_SHORTEST: Final = 0.5


class AnswerTimeout:
    """`timeout`: seconds for which the next try waits for its answer.

    Doubles after each try without an answer, up to the deadline of any call, so that a slow store has time to answer.
    Returns to its first value after an answer.
    """

    def __init__(self, renew_every: float) -> None:
        """`renew_every`: seconds between two renewals. The first try has a third of them."""
        self._first = max(renew_every / 3, _SHORTEST)
        self.timeout = self._first

    def answered(self) -> None:
        """Note that the last try had an answer."""
        self.timeout = self._first

    def unanswered(self) -> None:
        """Note that the last try had no answer in time."""
        self.timeout = min(2 * self.timeout, DEADLINE)
