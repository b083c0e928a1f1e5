"""Recognition of a gRPC port that was named as the URL of an HTTP server."""

import asyncio
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from taskplane.client.failures import NotUnderstood

_PATIENCE: Final = 2.0
# The preface of a client and an empty SETTINGS frame (RFC 9113, sections 3.4 and 6.5).
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_HEAD: Final = 9
_SETTINGS: Final = 4


async def is_grpc_port(url: str) -> bool:
    """Return whether the server at a plain `http` URL speaks HTTP/2 from the first byte, as gRPC servers do.

    A server that cannot be reached, or is silent for 2 s, is none.
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        return False
    with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
            try:
                writer.write(_PREFACE)
                frame = await reader.readexactly(_HEAD)
            finally:
                writer.close()
        return frame[3] == _SETTINGS
    return False


def grpc_port(url: str) -> NotUnderstood:
    """Return the failure of a gRPC port in place of an HTTP server."""
    return NotUnderstood(
        f"{url} is a gRPC port; an HTTP port is required.",
        reason="GRPC_PORT",
        suggestion="Give the HTTP address of the gateway, which `taskplane dev` prints as A2A.",
    )
