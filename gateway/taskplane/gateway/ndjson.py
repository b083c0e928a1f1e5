"""A streamed response of lines."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Final

from starlette.types import Receive, Scope, Send

from taskplane.gateway.http import Headers
from taskplane.gateway.sse import ABORT
from taskplane.gateway.streams import Slot, Streams


class LineStream:
    """A response made of lines. Each element of `lines` is one or more whole lines and one write, and is requested when
    the client has taken the one before, so a slow client costs no memory. A drain ends the response before its last
    line."""

    def __init__(
        self,
        lines: AsyncGenerator[bytes, None],
        *,
        streams: Streams,
        slot: Slot,
        write_timeout: float,
        headers: Headers,
    ) -> None:
        """Take the lines. A write that blocks for `write_timeout` seconds cuts the connection."""
        self._lines: Final = lines
        self._streams = streams
        self._slot = slot
        self._write_timeout = write_timeout
        self.headers = headers
        self._draining = False

    def drain(self) -> None:
        """End the response after the current write."""
        self._draining = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the lines until they end, the client leaves, or the process drains."""
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.headers})
            gone = asyncio.create_task(_gone(receive))
            try:
                with self._streams.running(self):
                    async for chunk in self._lines:
                        if gone.done():
                            return
                        async with asyncio.timeout(self._write_timeout):
                            await send({"type": "http.response.body", "body": chunk, "more_body": True})
                        if self._draining or self._streams.draining:
                            break
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            finally:
                gone.cancel()
        except TimeoutError:
            abort: Callable[[], None] | None = scope.get("extensions", {}).get(ABORT)
            if abort is None:
                raise ConnectionAbortedError("a write to the client blocked for too long") from None
            abort()
        finally:
            self._slot.release()
            await self._lines.aclose()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
