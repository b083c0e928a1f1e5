"""HTTP/1.1 on one connection, for uvicorn's server: keep-alive, pipelining, and limits to what a client may hold.

It stands where uvicorn's own protocol would, which has no limits to headers and spends on a request as much as all the
rest of the gateway. For a request that comes in one piece no timer is set. Of uvicorn's settings it knows what the
gateway uses: there is neither an access log nor WebSocket nor a limit to concurrency.
"""

import asyncio
import contextvars
import logging
import socket
import struct
from collections import deque
from functools import lru_cache
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools
import uvicorn
from starlette.types import ASGIApp, Scope
from uvicorn.server import ServerState

from taskplane.gateway.exchange import EXCHANGE, Exchange

MOST_HEADERS: Final = 16 * 1024
HEADER_TIMEOUT: Final = 10.0
# However short its headers are, so many bytes of a head are too many.
_MOST_BYTES: Final = 4 * MOST_HEADERS
_NO_LINGER: Final = struct.pack("ii", 1, 0)
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
_REFUSAL: Final = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 30\r\n"
    b"connection: close\r\n\r\nInvalid HTTP request received."
)

_log = logging.getLogger(__name__)


class HeadersTooLarge(ValueError):
    """Answered with 400 by the protocol, which then closes the connection."""


class Protocol(asyncio.Protocol):
    """At most 16 KiB of path and headers, which must be complete 10 s after they began; those of the first request 10 s
    after the connection was made. Between two requests a connection may be idle for `timeout_keep_alive` seconds."""

    transport: asyncio.Transport

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        if not config.loaded:
            config.load()
        self.state = server_state
        self.write_paused = False
        self._app: ASGIApp = cast(Any, config).loaded_app
        self._most_idle = config.timeout_keep_alive
        self._loop = _loop or asyncio.get_running_loop()
        self._writable = asyncio.Event()
        self._writable.set()
        self._read_paused = False
        self._parser: Any = httptools.HttpRequestParser(self)
        # What a client sends after `Connection: close` does not keep it from its answer.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)

        # The head that is being read; the bytes of the piece at hand, and of the head if others came before; and what
        # ends the connection if it lasts.
        self._in_head = False
        self._piece = 0
        self._pieces = 0
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._deadline: asyncio.TimerHandle | None = None

        # The request that the body belongs to, the one that is answered, and those that wait for their turn.
        self._reading: Exchange | None = None
        self._answering: Exchange | None = None
        self._waiting: deque[tuple[Exchange, Scope]] = deque()
        # Since when there is no request, by the loop's clock; and who looks at that, not anew for each request.
        self._idle_since: float | None = None
        self._idle_look: asyncio.TimerHandle | None = None

    # --- the event loop's calls ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins to wait for the first request."""
        self.transport = cast(asyncio.Transport, transport)
        self.state.connections.add(self)  # type: ignore[arg-type]
        self._deadline = self._loop.call_later(HEADER_TIMEOUT, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is waited for any more."""
        self.state.connections.discard(self)
        for timer in (self._deadline, self._idle_look):
            if timer is not None:
                timer.cancel()
        self._waiting.clear()
        if self._answering is not None:
            self._answering.lose()
        self.resume_writing()
        self._parser = None

    def data_received(self, data: bytes) -> None:
        """Reads on."""
        self._piece = len(data)
        self._pieces = self._pieces + self._piece if self._in_head else 0
        try:
            self._parser.feed_data(data)
            if self._in_head:
                self._wait()
        except httptools.HttpParserUpgrade:
            _log.warning("a client asked for a protocol that is not spoken here")
        except (httptools.HttpParserError, HeadersTooLarge):
            _log.warning("a client sent what is not HTTP, or too large a head")
            if self._answering is None:
                self.transport.write(_REFUSAL)
            self.transport.close()

    def pause_writing(self) -> None:
        """The client takes less than it is sent."""
        self.write_paused = True
        self._writable.clear()

    def resume_writing(self) -> None:
        """It has caught up."""
        self.write_paused = False
        self._writable.set()

    # --- the parser's calls --------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_head = True
        self._url = b""
        self._headers = []
        self._idle_since = None

    def on_url(self, url: bytes) -> None:
        """A piece of the URL."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; one after the body is ignored, for it is too late to mean anything."""
        if self._in_head:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The request can be answered."""
        self._in_head = False
        # Most heads come in one small piece and need not be counted.
        if self._pieces or self._piece > MOST_HEADERS:
            self._count()
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        parser = self._parser
        method = parser.get_method().decode("ascii")
        version = parser.get_http_version()
        raw_path, path, query = _target(self._url)
        headers = self._headers
        exchange = self._reading = Exchange(self, method, headers, version != "1.0" and parser.should_keep_alive())
        scope: Scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": method,
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": headers,
            "extensions": {EXCHANGE: exchange},
        }
        if self._answering is None:
            self._answer(exchange, scope)
        else:
            self.pause_reading()
            self._waiting.append((exchange, scope))

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._reading is not None:
            self._reading.feed(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        if self._reading is not None:
            self._reading.feed_end()

    # --- the exchange's calls ------------------------------------------------------------------------------------

    async def writable(self) -> None:
        """Waits until the client has taken enough of what was written, or has gone."""
        await self._writable.wait()

    def pause_reading(self) -> None:
        """Takes nothing from the client for now."""
        if not self._read_paused:
            self._read_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Takes what comes again."""
        if self._read_paused and not self.transport.is_closing():
            self._read_paused = False
            self.transport.resume_reading()

    def cut(self) -> None:
        """Resets the connection. A mere close would leave what the client does not read in the kernel, for minutes."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def finished(self) -> None:
        """The answer is complete; the next request has its turn."""
        self._answering = None
        self.state.total_requests += 1
        if self.transport.is_closing():
            return
        self.resume_reading()
        if self._waiting:
            self._answer(*self._waiting.popleft())
        elif not self._in_head:
            self._idle_since = self._loop.time()
            if self._idle_look is None:
                self._idle_look = self._loop.call_later(self._most_idle, self._look)

    # --- the server's call ---------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Closes the connection, after the answers that are still to be given."""
        last = self._waiting[-1][0] if self._waiting else self._answering
        if last is None:
            self.transport.close()
        else:
            last.keep_alive = False

    # --- inside --------------------------------------------------------------------------------------------------

    def _answer(self, exchange: Exchange, scope: Scope) -> None:
        self._answering = exchange
        # A context of its own: nothing of one request is seen by another on the same connection.
        running = self._loop.create_task(exchange.run(self._app, scope), context=contextvars.Context())
        exchange.task = running
        self.state.tasks.add(running)

    def _wait(self) -> None:
        """The head is not whole yet."""
        if self._pieces > _MOST_BYTES:
            raise HeadersTooLarge
        if self._deadline is None:
            self._deadline = self._loop.call_later(HEADER_TIMEOUT, self.transport.abort)

    def _count(self) -> None:
        size = len(self._url) + sum(len(name) + len(value) for name, value in self._headers)
        if size > MOST_HEADERS:
            raise HeadersTooLarge

    def _look(self) -> None:
        self._idle_look = None
        if self._idle_since is None:
            return
        left = self._idle_since + self._most_idle - self._loop.time()
        if left <= 0:
            self.transport.close()
        else:
            self._idle_look = self._loop.call_later(left, self._look)


@lru_cache(64)
def _target(url: bytes) -> tuple[bytes, str, bytes]:
    """The path of a request as it was sent, its text, and the query. It raises where there is no path, which the parser
    makes one of its errors of."""
    parsed = httptools.parse_url(url)
    return parsed.path, unquote(parsed.path.decode("ascii")), parsed.query or b""
