"""The slots of a process that runs tasks, and the share of one owner.

No I/O. A given slot cannot be taken back, so some slots are kept free for others. Of the slots that other owners do not
use, an owner may hold three quarters. Of the slots that other tenants do not use, a tenant may hold seven eighths. The
number of slots kept free is rounded down. So one owner alone gets all but floor(capacity / 4), and each further owner
most of the rest. An owner without a run may have any free slot that its tenant may have.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

SharedBy = Literal["tenants", "users", "one"]
"""The senders of tasks to a plane: users of several tenants, users of one tenant, or one user alone."""

# Tenant and owner.
Owner = tuple[str, str]

_OWNER_LEAVES: Final = 4
_TENANT_LEAVES: Final = 8


def leaves_part(own: int, unused: int, part: int = _OWNER_LEAVES) -> bool:
    """Return whether a holder of `own` slots leaves one quarter (or one `part`-th) of the `unused` slots free. `unused`
    are the slots that others do not use, its own included."""
    return own <= unused - unused // part


class Slots:
    """The slots of one process and their holders."""

    def __init__(self, capacity: int, shared_by: SharedBy = "tenants", held: Mapping[Owner, int] | None = None) -> None:
        """`held`: the number of slots that each owner holds already."""
        self.capacity = capacity
        self._shared_by: SharedBy = shared_by
        self._by_owner: Counter[Owner] = Counter(held or {})
        self._by_tenant: Counter[str] = Counter()
        for (tenant, _), number in self._by_owner.items():
            self._by_tenant[tenant] += number
        self._held = self._by_owner.total()

    def held_by(self, held: Mapping[Owner, int]) -> "Slots":
        """Return the same number of slots with other holders."""
        return Slots(self.capacity, self._shared_by, held)

    @property
    def free(self) -> int:
        """Return the number of free slots; negative if there are more runs than slots."""
        return self.capacity - self._held

    def may_have_slot(self, owner: Owner, *, lent: bool = False) -> bool:
        """Return whether the owner may have one more slot; `lent`: also beyond its share, but not the last free
        slot."""
        if not self.tenant_may_have_slot(owner[0]):
            return False
        held = self._by_owner[owner]
        if self._shared_by == "one" or leaves_part(held + 1, self.free + held):
            return True
        return lent and self.free > 1 and leaves_part(held, self.free + held)

    def tenant_may_have_slot(self, tenant: str) -> bool:
        """Return whether an owner of the tenant without a slot may have one."""
        if self.free <= 0:
            return False
        held = self._by_tenant[tenant]
        return self._shared_by != "tenants" or leaves_part(held + 1, self.free + held, _TENANT_LEAVES)

    def take(self, owner: Owner) -> None:
        """Count one more slot for the owner, even beyond its share."""
        self._by_owner[owner] += 1
        self._by_tenant[owner[0]] += 1
        self._held += 1

    def give_back(self, owner: Owner) -> None:
        """Count one slot fewer for the owner."""
        self._held -= 1
        self._by_owner[owner] -= 1
        if not self._by_owner[owner]:
            del self._by_owner[owner]
        self._by_tenant[owner[0]] -= 1
        if not self._by_tenant[owner[0]]:
            del self._by_tenant[owner[0]]
