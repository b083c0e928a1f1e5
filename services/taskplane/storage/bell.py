"""The bell: a hint that something may have changed. Whoever hears it reads the database and believes only that.

What a process commits rings in this process at once, without a bell of this module: its rooms tell their listeners. A
`Bell` tells the other processes on the same database.
"""

import asyncio
import base64
import hashlib
from collections.abc import Callable, Iterable, Set
from contextlib import suppress

# Called on the event loop with the keys that another process rang; None: anything may have changed. It must not raise.
Heard = Callable[[Set[str] | None], None]


def key_of(*names: str) -> str:
    """Return a short name for something that has these names: eight characters.

    Two things may have one key; a listener for the other one looks in vain.
    """
    digest = hashlib.blake2b("\0".join(names).encode(), digest_size=6).digest()
    return base64.urlsafe_b64encode(digest).decode()


class Bell:
    """Rings in other processes; this one in none, since there are none, or since they only poll."""

    def ring(self, keys: Iterable[str]) -> None:
        """Ring for `keys`, texts of ASCII without a space; to be called after the commit. Never waits, never raises.

        The meaning of the keys is between ringers and listeners. A ring may be lost, be late or come twice.
        """

    async def run(self) -> None:
        """Carry rings between processes until cancelled; return at once where there is nothing to carry."""


class Listener:
    """A listener; one task waits at a time. For the tasks of one event loop; not to be used from other threads.

    A ring is never queued and never lost: it wakes one that waits, and spares one that is about to wait its waiting.
    Many rings between two waits are one. Listen first, then read, then wait: nothing is missed.
    """

    __slots__ = ("_rung",)

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def hear(self) -> None:
        """Take note that the bell rings."""
        self._rung.set()

    async def wait(self, timeout: float) -> bool:
        """Return True as soon as the bell has rung since the last wait returned, False after `timeout` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._rung.wait()
        rung = self._rung.is_set()
        self._rung.clear()
        return rung
