"""Limits on what is open at once, per principal and in total."""

from collections import Counter
from collections.abc import Callable

from taskplane.runtime.errors import Exhausted
from taskplane.runtime.principal import Principal


class Slots:
    """The slots of each principal."""

    def __init__(self, most: int, most_per_principal: int, too_many: Callable[[str], Exhausted]) -> None:
        """`too_many` returns the error for a limit, such as `at most 50 per caller`."""
        self._most = most
        self._most_per_principal = most_per_principal
        self._too_many = too_many
        self._taken: Counter[tuple[str, str]] = Counter()
        self._total = 0

    @property
    def total(self) -> int:
        """Return the number of slots that are taken."""
        return self._total

    def take(self, principal: Principal) -> "Slot":
        """Return a slot. Raise Exhausted if the principal, or all together, have too many."""
        owner = (principal.tenant, principal.owner)
        if self._taken[owner] >= self._most_per_principal:
            raise self._too_many(f"at most {self._most_per_principal:,} per caller")
        if self._total >= self._most:
            raise self._too_many(f"at most {self._most:,} per process")
        self._taken[owner] += 1
        self._total += 1
        return Slot(self, owner)

    def release(self, owner: tuple[str, str]) -> None:
        """Give a slot back."""
        self._taken[owner] -= 1
        self._total -= 1
        if not self._taken[owner]:
            del self._taken[owner]


class Slot:
    """The right to one thing that is open."""

    __slots__ = ("_owner", "_slots")

    def __init__(self, slots: Slots, owner: tuple[str, str]) -> None:
        self._slots: Slots | None = slots
        self._owner = owner

    def release(self) -> None:
        """Give the slot back; further calls do nothing."""
        if self._slots is not None:
            self._slots.release(self._owner)
            self._slots = None
