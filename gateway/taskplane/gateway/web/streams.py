"""Limits on open streams per principal and in total, and the drain of everything that takes long."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from taskplane.runtime.errors import Exhausted
from taskplane.runtime.principal import Principal


class Stream(Protocol):
    """An open stream, or a request that waits, which can be drained."""

    def drain(self) -> None:
        """End soon."""
        ...


class Streams:
    """The open streams of each principal."""

    def __init__(self, most: int, most_per_principal: int) -> None:
        self._most = most
        self._most_per_principal = most_per_principal
        self._open: Counter[tuple[str, str]] = Counter()
        self._total = 0
        self._running: set[Stream] = set()
        self._draining = False

    @property
    def draining(self) -> bool:
        """Return whether new streams end at once and new waits are refused."""
        return self._draining

    @property
    def total(self) -> int:
        """Return the number of slots that are taken."""
        return self._total

    def take(self, principal: Principal) -> "Slot":
        """Return a slot for one stream. Raise Exhausted `TOO_MANY_STREAMS` if the principal, or all together, have too
        many."""
        owner = (principal.tenant, principal.owner)
        if self._open[owner] >= self._most_per_principal:
            raise _too_many(f"at most {self._most_per_principal:,} per caller")
        if self._total >= self._most:
            raise _too_many(f"at most {self._most:,} per process")
        self._open[owner] += 1
        self._total += 1
        return Slot(self, owner)

    def release(self, owner: tuple[str, str]) -> None:
        """Give a slot back."""
        self._open[owner] -= 1
        self._total -= 1
        if not self._open[owner]:
            del self._open[owner]

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


class Slot:
    """The right to one open stream."""

    __slots__ = ("_owner", "_streams")

    def __init__(self, streams: Streams, owner: tuple[str, str]) -> None:
        self._streams: Streams | None = streams
        self._owner = owner

    def release(self) -> None:
        """Give the slot back; further calls do nothing."""
        if self._streams is not None:
            self._streams.release(self._owner)
            self._streams = None
