"""The bell: a hint that something may have changed. Whoever hears it reads the database and believes only that."""

import asyncio
from collections.abc import Generator, Iterable
from contextlib import contextmanager


class Bell:
    """An in-process bell. For the tasks of one event loop; not to be used from other threads.

    A ring is never queued and never lost on a listener: it wakes one that waits, and spares one that is about to wait
    its waiting. Many rings between two waits are one.
    """

    def __init__(self) -> None:
        self._listeners: dict[str, set[Listener]] = {}

    def ring(self, keys: Iterable[str]) -> None:
        """Wakes all who listen for one of `keys`. Costs nothing for keys that nobody listens for."""
        listeners = self._listeners
        for key in keys:
            for listener in listeners.get(key, ()):
                listener.hear()

    def ring_all(self) -> None:
        """Wakes everybody, as after an outage, when any ring may have been missed."""
        self.ring(tuple(self._listeners))

    @contextmanager
    def listen(self, key: str) -> "Generator[Listener, None, None]":
        """Listens for `key` inside the block. Listen first, then read, then wait: nothing is missed."""
        listener = Listener()
        listeners = self._listeners.setdefault(key, set())
        listeners.add(listener)
        try:
            yield listener
        finally:
            listeners.discard(listener)
            # The set may be another one by now, made after this one was empty.
            if not listeners and self._listeners.get(key) is listeners:
                del self._listeners[key]


class Listener:
    """One who waits for one key. Made by `Bell.listen`; one task waits on it at a time."""

    def __init__(self) -> None:
        self._rung = False
        self._waiting: asyncio.Future[None] | None = None

    def hear(self) -> None:
        """The bell rings."""
        self._rung = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def wait(self, timeout: float) -> bool:
        """True as soon as the bell has rung since the last wait returned, False after `timeout` seconds."""
        if not self._rung:
            loop = asyncio.get_running_loop()
            waiting = self._waiting = loop.create_future()
            timer = loop.call_later(timeout, _give_up, waiting)
            try:
                await waiting
            finally:
                timer.cancel()
                self._waiting = None
        rung, self._rung = self._rung, False
        return rung


def _give_up(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
