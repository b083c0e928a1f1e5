"""What uvicorn's HTTP protocol lacks for our limits: the size of headers, the time they may take, and a hard end."""

import asyncio
import socket
import struct
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from taskplane.gateway.sse import ABORT

MAX_HEADER_BYTES: Final = 16 * 1024
HEADER_TIMEOUT: Final = 10.0
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class HeadersTooLarge(ValueError):
    """Answered with 400 by the protocol, which then closes the connection."""


class Protocol(HttpToolsProtocol):
    """At most 16 KiB of path and headers, which must be complete 10 s after they began; those of the first request 10 s
    after the connection was made."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for the first request."""
        super().connection_made(transport)
        self._first = True
        self._deadline = self.loop.call_later(HEADER_TIMEOUT, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is waited for any more."""
        self._deadline.cancel()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Gives the request the means to cut its connection."""
        super().on_message_begin()
        if not self._first:
            self._deadline = self.loop.call_later(HEADER_TIMEOUT, self.transport.abort)
        self._first = False
        self._size = 0
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope["extensions"] = {ABORT: self._cut}

    def on_url(self, url: bytes) -> None:
        """Counts."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Counts."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The request is there."""
        self._deadline.cancel()
        super().on_headers_complete()

    def _cut(self) -> None:
        """Resets the connection. A mere close would leave what the client does not read in the kernel, for minutes."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > MAX_HEADER_BYTES:
            raise HeadersTooLarge
