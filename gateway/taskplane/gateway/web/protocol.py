"""Limits that uvicorn's HTTP protocol lacks: size and time of headers, and the reset of a connection."""

import asyncio
import socket
import struct
from functools import partial
from typing import Any, Final

from taskplane.gateway.web.sse import ABORT
from taskplane.runtime.http_server import HttpProtocol

MAX_HEADER_BYTES: Final = 16 * 1024
HEADER_TIMEOUT: Final = 10.0
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class HeadersTooLarge(ValueError):
    """Too many bytes of headers. The protocol answers with 400 and closes the connection."""


class Protocol(HttpProtocol):
    """An HTTP protocol that accepts at most 16 KiB of path and headers, complete within 10 s of their first byte; those
    of the first request within 10 s of the connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for the first request."""
        super().connection_made(transport)
        self._first = True
        self._deadline = self.loop.call_later(HEADER_TIMEOUT, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._deadline.cancel()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Start the timer for a later request, and give the request the extension that resets its connection."""
        super().on_message_begin()
        if not self._first:
            self._deadline = self.loop.call_later(HEADER_TIMEOUT, self.transport.abort)
        self._first = False
        self._size = 0
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        # Bound to the transport: bound to the protocol, it would refer to itself and keep unsent data.
        scope["extensions"] = {ABORT: partial(_cut, self.transport)}

    def on_url(self, url: bytes) -> None:
        """Count the bytes of the path."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count the bytes of a header."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop the timer."""
        self._deadline.cancel()
        super().on_headers_complete()

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > MAX_HEADER_BYTES:
            raise HeadersTooLarge


def _cut(transport: asyncio.Transport) -> None:
    """Reset the connection. A close would leave unread data in the kernel for minutes."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()
