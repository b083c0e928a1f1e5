"""The beginnings of long conversations, kept because they cannot change any more.

A task that is run here never changes after its end, and new tasks come after the old ones. So what a session's oldest
tasks said is read once, as long as they have all ended; a deleted one is noticed because there are fewer tasks then.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a

# Of one session: its tenant, owner and id, and when it was created, since an id may be used again.
Key = tuple[str, str, str, int]

MOST_BYTES: Final = 16 * 1024 * 1024
"""Of the messages of one beginning; a longer one is not kept."""


class Beginning:
    """What the oldest `tasks` tasks of a session said, without repetitions. `token` is the page after them, `ids` are
    those of the messages, and `size` their bytes."""

    __slots__ = ("ids", "messages", "size", "tasks", "token")

    def __init__(self, other: "Beginning | None" = None) -> None:
        """A copy of the other one, or an empty one."""
        self.messages: list[a2a.Message] = list(other.messages) if other else []
        self.ids: set[str] = set(other.ids) if other else set()
        self.size: int = other.size if other else 0
        self.tasks: int = other.tasks if other else 0
        self.token: str = other.token if other else ""

    def extend(self, messages: Iterable[a2a.Message], tasks: int, token: str) -> None:
        """Adds what the next `tasks` tasks said."""
        for message in messages:
            self.ids.add(message.message_id)
            self.messages.append(message)
            self.size += message.ByteSize()
        self.tasks += tasks
        self.token = token


class Beginnings:
    """Those that were used last."""

    def __init__(self, most_bytes: int = 4 * MOST_BYTES) -> None:
        """`most_bytes`: of the messages of all of them."""
        self._most = most_bytes
        self._size = 0
        self._kept: OrderedDict[Key, Beginning] = OrderedDict()

    def find(self, key: Key) -> Beginning | None:
        """What is kept of a session; nobody changes it."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def keep(self, key: Key, beginning: Beginning) -> None:
        """In place of what was kept of the session."""
        self.drop(key)
        self._kept[key] = beginning
        self._size += beginning.size
        while self._size > self._most:
            self._size -= self._kept.popitem(last=False)[1].size

    def drop(self, key: Key) -> None:
        """It is not true any more."""
        dropped = self._kept.pop(key, None)
        if dropped is not None:
            self._size -= dropped.size
