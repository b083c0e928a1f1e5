"""The free slots of processes that run the same agents."""

from collections.abc import Mapping, Set

from taskplane.runtime.sharing import Owner, Slots


class ProcessSlots:
    """The slots of some processes. An owner may have a slot if one of the processes has a slot for it.

    `patient`: owners that may borrow a slot beyond their share.
    """

    def __init__(self, slots: Mapping[str, Slots], patient: Set[Owner] = frozenset()) -> None:
        self._slots = slots
        self._patient = patient

    @property
    def any(self) -> bool:
        """Return whether there is a free slot."""
        return any(each.free > 0 for each in self._slots.values())

    def may_have_slot(self, owner: Owner) -> bool:
        """Return whether this owner may have one more slot."""
        lent = owner in self._patient
        return any(each.may_have_slot(owner, lent=lent) for each in self._slots.values())

    def tenant_may_have_slot(self, tenant: str) -> bool:
        """Return whether an owner of the tenant without a slot may have one."""
        return any(each.tenant_may_have_slot(tenant) for each in self._slots.values())

    def take(self, owner: Owner) -> tuple[str, bool]:
        """Give the owner a slot of the process with the most free slots. Return the id of the process, or "" if the
        owner may have no slot, and whether the slot is lent."""
        for lent in (False, True) if owner in self._patient else (False,):
            found = [process_id for process_id, each in self._slots.items() if each.may_have_slot(owner, lent=lent)]
            if found:
                process_id = max(found, key=lambda each: self._slots[each].free)
                self._slots[process_id].take(owner)
                return process_id, lent
        return "", False
