"""Server-sent events (WHATWG HTML, section 9.2): framing, and a response that handles slow, silent and disconnected
clients and the drain of the process."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from enum import Enum
from typing import Any, Final, Protocol

from starlette.types import Message, Receive, Scope, Send

from taskplane.gateway.metrics import STREAMS
from taskplane.gateway.web.http import NOSNIFF, Headers
from taskplane.gateway.web.slots import Slot
from taskplane.gateway.web.streams import Streams

CONTENT_TYPE: Final = b"text/event-stream"
ABORT: Final = "taskplane.abort"
"""Name of the ASGI extension that cuts a connection off without waiting for pending writes."""
UNCACHED: Final[Headers] = [(b"cache-control", b"no-store, no-transform"), (b"x-accel-buffering", b"no")]
HEADERS: Final[Headers] = [(b"content-type", CONTENT_TYPE), *UNCACHED, NOSNIFF]
NOTHING: Final[Message] = {"type": "http.response.body", "body": b"", "more_body": True}
"""An empty write that waits for the end of the previous write. Servers wait before a write, not after it. Without the
empty write, the next event would be read, translated and kept meanwhile."""
# No blank line follows the comment: for some parsers a blank line after an id is an event.
_PING: Final = b": ping\n"
_BREAKS: Final = re.compile("[\r\n\0]")
_CREDENTIALS_INTERVAL: Final = 60.0
_RETRY_MS: Final = (500, 3_000)
_LAST_WRITE: Final = 1.0


def event(data: bytes, cursor: str = "", name: str = "") -> bytes:
    """Return one event: an `id:` line if there is a cursor, an `event:` line if there is a name, one `data:` line, one
    blank line. Raise ValueError for a value that would break its line."""
    if not data or b"\n" in data or b"\r" in data:
        raise ValueError("event data must be one line and must not be empty")
    if cursor:
        if not cursor.isprintable() and _BREAKS.search(cursor):
            raise ValueError("an event id must not contain CR, LF or NUL")
        if not name:
            return b"id: %s\ndata: %s\n\n" % (cursor.encode(), data)
    head = f"id: {cursor}\n" if cursor else ""
    if name:
        head += f"event: {name}\n"
    return b"%sdata: %s\n\n" % (head.encode(), data)


class Events(Protocol):
    """Events that are written, such as a generator."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    def aclose(self) -> Coroutine[Any, Any, None]:
        """Close the events, also if none was taken."""
        ...


class _End(Enum):
    GONE = "the client closed the connection"
    STUCK = "a write to the client blocked for too long"
    EXPIRED = "the credentials of the caller are no longer valid"
    DRAIN = "the process is shutting down"


class EventStream:
    """A response made of events. Each element of `events` is one or more whole events and one write, and is requested
    when the client has taken the one before, so a slow client costs no memory."""

    def __init__(
        self,
        events: Events,
        *,
        streams: Streams,
        slot: Slot,
        keep_alive: float,
        write_timeout: float,
        alive: Callable[[], bool],
        headers: Headers | None = None,
    ) -> None:
        """Take the events. A comment is sent after `keep_alive` seconds of silence. A write that blocks for
        `write_timeout` seconds cuts the connection. `alive` is called every minute and returns whether the caller's
        credentials are still valid."""
        self._events = events
        self._streams = streams
        self._slot = slot
        self._keep_alive = keep_alive
        self._write_timeout = write_timeout
        self._alive = alive
        self._headers = [*HEADERS, *(headers or ())]
        self._task: asyncio.Task[Any] | None = None
        self._end: _End | None = None
        self._written = 0.0
        self._writing = 0.0

    def drain(self) -> None:
        """End the stream at the next event boundary."""
        self._stop(_End.DRAIN)

    async def close(self) -> None:
        """Release the slot and close the events."""
        self._slot.release()
        await self._events.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end, the client leaves, or the process drains. For HEAD send only the headers."""
        self._task = asyncio.current_task()
        supervisor: asyncio.Task[None] | None = None
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            if scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            with self._streams.running(self), STREAMS.labels().during():
                supervisor = asyncio.create_task(self._supervise(receive, send))
                if self._streams.draining:
                    # After the event that is at hand: it tells the client of a send which task it began.
                    asyncio.get_running_loop().call_soon(self._stop, _End.DRAIN)
                try:
                    await self._send_all(send)
                except asyncio.CancelledError:
                    if self._end is None or self._task is None:
                        raise
                    self._task.uncancel()
                    await self._finish(self._end, scope, receive, send)
        finally:
            self._task = None
            if supervisor is not None:
                supervisor.cancel()
            await self.close()

    async def _send_all(self, send: Send) -> None:
        clock = asyncio.get_running_loop().time
        async for chunk in self._events:
            self._writing = clock()
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            # The server has a copy now.
            chunk = b""
            await send(NOTHING)
            self._writing = 0.0
            self._written = clock()
        self._task = None
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _supervise(self, receive: Receive, send: Send) -> None:
        """Stop the stream on a disconnect, a blocked write or expired credentials, and send comments during silence."""
        clock = asyncio.get_running_loop().time
        self._written = clock()
        look_at = self._written + _CREDENTIALS_INTERVAL
        wake_at = self._written + self._keep_alive
        while True:
            try:
                async with asyncio.timeout_at(wake_at):
                    message = await receive()
                if message["type"] == "http.disconnect":
                    return self._stop(_End.GONE)
                continue
            except TimeoutError:
                now = clock()
            if now >= look_at:
                look_at = now + _CREDENTIALS_INTERVAL
                if not self._alive():
                    return self._stop(_End.EXPIRED)
            if self._writing:
                blocked_until = self._writing + self._write_timeout
                if now >= blocked_until:
                    return self._stop(_End.STUCK)
                wake_at = min(now + self._keep_alive, blocked_until)
                continue
            if now - self._written >= self._keep_alive:
                try:
                    async with asyncio.timeout(self._write_timeout):
                        await send({"type": "http.response.body", "body": _PING, "more_body": True})
                except TimeoutError:
                    return self._stop(_End.STUCK)
                self._written = clock()
            wake_at = self._written + self._keep_alive

    def _stop(self, end: _End) -> None:
        if self._task is not None and self._end is None:
            self._end = end
            self._task.cancel()

    async def _finish(self, end: _End, scope: Scope, receive: Receive, send: Send) -> None:
        if end is _End.GONE:
            return
        if end is _End.STUCK:
            abort: Callable[[], None] | None = scope.get("extensions", {}).get(ABORT)
            if abort is None:
                raise ConnectionAbortedError(end.value)
            abort()
            async with asyncio.timeout(_LAST_WRITE):
                while (await receive())["type"] != "http.disconnect":
                    pass
            return
        last = b"retry: %d\n" % random.randint(*_RETRY_MS) if end is _End.DRAIN else b""
        try:
            async with asyncio.timeout(_LAST_WRITE):
                await send({"type": "http.response.body", "body": last, "more_body": False})
        except TimeoutError:
            await self._finish(_End.STUCK, scope, receive, send)
