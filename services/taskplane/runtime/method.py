"""A method as a client calls it over the channel inside a process."""

import asyncio
import copy
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Self

import grpc

from taskplane.runtime.exchange import Exchange, Pairs, Stream, too_large
from taskplane.runtime.exchange_calls import Failed, StreamCall, UnaryCall
from taskplane.runtime.running import Running
from taskplane.runtime.services import MAX_REQUEST

_running_loop: Final = asyncio.get_running_loop
_KEY: Final = re.compile(r"[0-9a-z_.-]+")
_known_keys: set[str] = set()

Metadata = Iterable[tuple[str, str | bytes]]


@dataclass(frozen=True, slots=True)
class Habits:
    """What a client does the same way in all its calls."""

    metadata: Callable[[Metadata | None], Pairs]
    """The metadata of a call, from what the caller gave: that comes last. The rest must be fit for HTTP/2."""
    deadline: float | None
    """Seconds, for a call that is given no `timeout`."""
    failed: Failed
    """What is raised for an error of gRPC."""


BARE: Final = Habits(lambda given: tuple(given) if given is not None else (), None, lambda error: error)
"""Nothing is added to a call."""


class ChannelMethod:
    """One method as a client calls it. What can be known before a call is known before it."""

    def __init__(self, under_way: Running, path: str, *, streaming: bool) -> None:
        """`path`: "/package.Service/Method"."""
        self._under_way = under_way
        self._path = path
        self._streaming = streaming
        self._outgoing = BARE.metadata
        self._deadline = BARE.deadline
        self._failed = BARE.failed

    def of(self, habits: Habits) -> Self:
        """The same method as the calls of one client."""
        made = copy.copy(self)
        made._outgoing = habits.metadata
        made._deadline = habits.deadline
        made._failed = habits.failed
        return made

    def __call__(
        self,
        request: Any,
        *,
        timeout: float | None = None,
        metadata: Metadata | None = None,
        credentials: object = None,
        wait_for_ready: bool | None = None,
        compression: object = None,
    ) -> "UnaryCall | StreamCall":
        under_way = self._under_way
        if under_way.closed:
            raise self._failed(grpc.aio.UsageError("Channel is closed."))
        if metadata is not None:
            metadata = tuple([_carried(key, value) for key, value in metadata])
        if timeout is None:
            timeout = self._deadline
        loop = _running_loop()
        exchange = self._exchange(loop, self._outgoing(metadata))
        call = StreamCall(exchange, self._failed) if isinstance(exchange, Stream) else UnaryCall(exchange, self._failed)
        request, size = self._sent(exchange, request)
        if exchange.status is not None:
            return call
        if size > MAX_REQUEST:
            exchange.finish(grpc.StatusCode.RESOURCE_EXHAUSTED, too_large("CLIENT: Sent", size, MAX_REQUEST))
            return call
        if timeout is not None:
            if timeout <= 0:
                exchange.expire()
                return call
            exchange.deadline = loop.time() + timeout
        row = under_way.rows.get(timeout)
        if row is None:
            row = under_way.row(timeout, loop)
        row[exchange] = None
        exchange.row = row
        self._begin(exchange, request, timeout)
        return call

    @abstractmethod
    def _exchange(self, loop: asyncio.AbstractEventLoop, metadata: Pairs) -> Exchange:
        """The state of a new call."""

    @abstractmethod
    def _sent(self, exchange: Exchange, request: Any) -> tuple[Any, int]:
        """The request as it is handed over, and its bytes. May finish the call instead."""

    @abstractmethod
    def _begin(self, exchange: Exchange, request: Any, timeout: float | None) -> None:
        """Hands the request over."""


def _carried(key: str, value: str | bytes) -> tuple[str, str | bytes]:
    """A pair of metadata as it arrives: bytes if its key ends in -bin, else text.

    ValueError, TypeError: what HTTP/2 could not carry (RFC 9113 section 8.2, the gRPC wire format).
    """
    if key not in _known_keys:
        if not _KEY.fullmatch(key):
            raise ValueError(f"metadata was invalid: {key!r} is not a key")
        if len(_known_keys) < 256:
            _known_keys.add(key)
    if key.endswith("-bin"):
        if isinstance(value, str):
            raise TypeError(f"metadata was invalid: the value of {key!r} must be bytes")
        return key, value
    text = value if isinstance(value, str) else value.decode("latin-1")
    if not text.isascii() or not text.isprintable():
        raise ValueError(f"metadata was invalid: the value of {key!r} is not printable ASCII")
    return key, text
