"""A response that is sent piece by piece."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, suppress
from typing import Final

from starlette.types import Receive, Scope, Send

from taskplane.gateway.web.http import NOSNIFF, Headers
from taskplane.gateway.web.sse import ABORT, NOTHING
from taskplane.runtime.errors import PlaneError

_LAST_WAIT: Final = 1.0


class PieceStream:
    """A response made of pieces. Each is one write, and is requested when the client has taken the one before, so that
    a slow client costs no memory. A failure of the pieces cuts the connection, so that the client notices."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        *,
        held: ExitStack,
        write_timeout: float,
        headers: Headers,
        status: int = 200,
    ) -> None:
        """Take the pieces, and the ones `held` until the end. A write that blocks for `write_timeout` seconds cuts the
        connection."""
        self._pieces: Final = pieces
        self._held = held
        self._write_timeout = write_timeout
        self.headers = [*headers, NOSNIFF]
        self.status = status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces until they end or the client leaves; of a HEAD request only the headers."""
        try:
            await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
            if scope["method"] != "HEAD":
                await self._send(receive, send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, PlaneError) as error:
            await _abort(scope, receive, error)
        finally:
            with self._held:
                await self._pieces.aclose()

    def ends(self) -> bool:
        """Return whether the response ends after the piece that was sent last."""
        return False

    async def _send(self, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_gone(receive))
        try:
            async for piece in self._pieces:
                if gone.done():
                    return
                async with asyncio.timeout(self._write_timeout):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                    await send(NOTHING)
                if self.ends():
                    return
        finally:
            gone.cancel()


async def _abort(scope: Scope, receive: Receive, error: Exception) -> None:
    """Cut the connection."""
    abort: Callable[[], None] | None = scope.get("extensions", {}).get(ABORT)
    if abort is None:
        raise ConnectionAbortedError("the response could not be sent to its end") from error
    abort()
    with suppress(TimeoutError):
        async with asyncio.timeout(_LAST_WAIT):
            await _gone(receive)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
