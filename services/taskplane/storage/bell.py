"""The bell: a hint that something may have changed. A listener then reads the database, and trusts only that.

Within a process, a service calls its listeners directly after a commit; no `Bell` is needed. A `Bell` notifies the
other processes on the same database.
"""

import asyncio
import base64
import hashlib
from collections.abc import Callable, Iterable, Set
from contextlib import suppress

# Called on the event loop with the keys that another process rang; None: anything may have changed. It must not raise.
Heard = Callable[[Set[str] | None], None]


def key_of(*names: str) -> str:
    """Return a key of eight characters for these names.

    Two lists of names may have the same key; then a listener wakes and finds nothing new.
    """
    digest = hashlib.blake2b("\0".join(names).encode(), digest_size=6).digest()
    return base64.urlsafe_b64encode(digest).decode()


class Bell:
    """Rings in other processes. This base class does nothing: there is no other process, or the others only poll."""

    def ring(self, keys: Iterable[str]) -> None:
        """Ring for `keys`, ASCII texts without spaces. Call it after the commit. It never waits and never raises.

        Ringers and listeners agree on the meaning of the keys. A ring may be lost, be late or come twice.
        """

    async def run(self) -> None:
        """Carry rings between processes until cancelled. Return at once if there is no other process to notify."""


class Listener:
    """A listener, for the tasks of one event loop. Only one task may wait at a time. Not thread-safe.

    A call of `hear` is remembered: it wakes the task that waits, or makes the next `wait` return at once. Many calls
    between two waits count as one. Listen first, then read, then wait: then no change is missed.
    """

    __slots__ = ("_rung",)

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def hear(self) -> None:
        """Note that the bell has rung."""
        self._rung.set()

    async def wait(self, timeout: float) -> bool:
        """Return True as soon as the bell has rung since the last wait returned, False after `timeout` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._rung.wait()
        rung = self._rung.is_set()
        self._rung.clear()
        return rung
