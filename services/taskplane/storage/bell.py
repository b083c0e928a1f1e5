"""The bell: a hint that something may have changed. A listener then reads the database, and trusts only that.

Within a process, a service calls its listeners directly after a commit; no `Bell` is needed. A `Bell` notifies the
other processes on the same database.
"""

import asyncio
import base64
import hashlib
from collections.abc import Callable, Iterable, Set
from contextlib import suppress

# Called on the event loop with the keys from another process; None: anything may have changed. It must not raise.
OnNotified = Callable[[Set[str] | None], None]


def key_of(*names: str) -> str:
    """Return a key of eight characters for these names.

    Two lists of names may have the same key; then a listener wakes and finds nothing new.
    """
    digest = hashlib.blake2b("\0".join(names).encode(), digest_size=6).digest()
    return base64.urlsafe_b64encode(digest).decode()


class Bell:
    """Notifies other processes. This base class does nothing: there is no other process, or the others only poll."""

    def ring(self, keys: Iterable[str]) -> None:
        """Notify other processes of `keys`, ASCII texts without spaces, after the commit. Never waits, never raises.

        The callers on both sides agree on the meaning of the keys. A notification may be lost, late or repeated.
        """

    async def run(self) -> None:
        """Carry notifications between processes until cancelled. Return at once if no other process is notified."""


class Listener:
    """Waits for notifications, in the tasks of one event loop. Only one task may wait at a time. Not thread-safe.

    A call of `notify` is remembered: it wakes the task that waits, or makes the next `wait` return at once. Many calls
    between two waits count as one. Listen first, then read, then wait: then no change is missed.
    """

    __slots__ = ("_changed",)

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def notify(self) -> None:
        """Wake the task that waits, or make its next wait return at once."""
        self._changed.set()

    async def wait(self, timeout: float) -> bool:
        """Return True as soon as there is a notification that came after the last wait returned. Return False if none
        comes within `timeout` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        changed = self._changed.is_set()
        self._changed.clear()
        return changed
