"""Limits on open streams, and the drain of everything that takes long."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from taskplane.gateway.web.slots import Slot, Slots
from taskplane.runtime.errors import Exhausted, Unavailable
from taskplane.runtime.principal import Principal


class Stream(Protocol):
    """An open stream, or a request that waits, which can be drained."""

    def drain(self) -> None:
        """End soon."""
        ...


class Streams:
    """The open streams of each principal."""

    def __init__(self, most: int, most_per_principal: int) -> None:
        self._slots = Slots(most, most_per_principal, _too_many)
        self._running: set[Stream] = set()
        self._draining = False

    @property
    def draining(self) -> bool:
        """Return whether new streams end at once and new waits are refused."""
        return self._draining

    def check_open(self) -> None:
        """Raise Unavailable `SHUTTING_DOWN` if this process drains, before a message is sent."""
        if self._draining:
            raise Unavailable(
                "this server is shutting down; the message was not sent",
                reason="SHUTTING_DOWN",
                suggestion="send the message again in a moment",
                retry_after=1.0,
            )

    @property
    def total(self) -> int:
        """Return the number of slots that are taken."""
        return self._slots.total

    def take(self, principal: Principal) -> Slot:
        """Return a slot for one stream. Raise Exhausted `TOO_MANY_STREAMS` if the principal, or all together, have too
        many."""
        return self._slots.take(principal)

    @contextmanager
    def running(self, stream: Stream) -> Generator[None]:
        """Register the stream for `drain` while the body runs."""
        self._running.add(stream)
        try:
            yield
        finally:
            self._running.discard(stream)

    def drain(self) -> None:
        """End every stream at an event boundary, now and from now on, and everything that waits."""
        self._draining = True
        for stream in list(self._running):
            stream.drain()


def _too_many(limit: str) -> Exhausted:
    return Exhausted(
        f"too many open streams; {limit}",
        reason="TOO_MANY_STREAMS",
        suggestion="close a stream, or read several tasks one after the other",
        retry_after=1.0,
    )
