"""Waiting for as long as somebody waits for the answer: a blocked request ends when its client leaves or we do."""

import asyncio
from types import TracebackType
from typing import Final

from taskplane.gateway.http import ClientGone, Request
from taskplane.gateway.limits import Streams
from taskplane.runtime.errors import Unavailable

# What a client sends without waiting for an answer is begun all the same. In seconds.
_LEAST: Final = 1.0


class Attended:
    """What runs inside is cancelled, and ClientGone raised, when the client closes the connection, at the earliest a
    second after its request. Unavailable `SHUTTING_DOWN`: this process drains meanwhile, or did already, when nothing
    inside has begun."""

    __slots__ = ("_end", "_exchange", "_leaving", "_request", "_streams")

    def __init__(self, request: Request, streams: Streams) -> None:
        self._request = request
        self._exchange = request.exchange
        self._streams = streams
        # Why we cancelled what runs inside; and what will, for a client that left in the first second.
        self._end: Exception | None = None
        self._leaving: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        if self._streams.draining:
            raise Unavailable(
                "this server is shutting down; nothing was sent",
                reason="SHUTTING_DOWN",
                suggestion="send it again in a moment",
                retry_after=1.0,
            )
        self._streams.begin(self)
        self._exchange.call_when_gone(self._gone)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._streams.end(self)
        self._exchange.call_when_gone(None)
        if self._leaving is not None:
            self._leaving.cancel()
        task = self._exchange.task
        if self._end is not None and isinstance(error, asyncio.CancelledError) and task is not None:
            task.uncancel()
            raise self._end from None

    def drain(self) -> None:
        """Ends what runs inside, for the process does."""
        self._stop(
            Unavailable(
                "this server is shutting down; what was sent goes on",
                reason="SHUTTING_DOWN",
                suggestion="get the task, or subscribe to it, in a moment",
                retry_after=1.0,
            )
        )

    def _gone(self) -> None:
        loop = asyncio.get_running_loop()
        self._leaving = loop.call_at(self._request.accepted + _LEAST, self._stop, ClientGone())

    def _stop(self, end: Exception) -> None:
        if self._end is None and self._exchange.task is not None:
            self._end = end
            self._exchange.task.cancel()
