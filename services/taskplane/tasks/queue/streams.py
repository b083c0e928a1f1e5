"""One claim stream: the messages sent to its process, and those to be sent."""

from collections import deque
from collections.abc import Collection
from typing import Final

from taskplane.runtime.sharing import Owner, Slots
from taskplane.storage.bell import Listener, key_of
from taskplane.tasks.domain.task import Row

# Whether tasks wait because no slot is free, and the owners of the tasks that wait although a slot is free.
NO_BACKLOG: Final[tuple[bool, frozenset[Owner]]] = (False, frozenset())


class Stream:
    """One executor process with an open claim stream."""

    def __init__(self, process_id: str, agents: Collection[str], slots: Slots) -> None:
        self.process_id = process_id
        self.key = key_of(process_id)
        self.agents = frozenset(agents)
        # All of them free: its tasks are counted when tasks are given.
        self.slots = slots
        self.assigned: deque[Row] = deque()
        # Tasks in slots beyond the share of their owner, by uid.
        self.lent: set[str] = set()
        self.renew_now = False
        # The backlog last sent to the process.
        self.backlog = NO_BACKLOG
        self.replaced = False
        self.changed = Listener()

    def assign(self, row: Row) -> None:
        self.assigned.append(row)
        self.changed.notify()

    def hint(self) -> None:
        self.renew_now = True
        self.changed.notify()
