"""A streamed response of lines."""

from collections.abc import AsyncGenerator
from contextlib import ExitStack

from starlette.types import Receive, Scope, Send

from taskplane.gateway.web.http import Headers
from taskplane.gateway.web.piecewise import PieceStream
from taskplane.gateway.web.slots import Slot
from taskplane.gateway.web.streams import Streams


class LineStream(PieceStream):
    """A response made of lines, one or more whole lines a piece. A drain ends the response before its last line."""

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
        held = ExitStack()
        held.callback(slot.release)
        super().__init__(lines, held=held, write_timeout=write_timeout, headers=headers)
        self._streams = streams
        self._draining = False

    def drain(self) -> None:
        """End the response after the current write."""
        self._draining = True

    def ends(self) -> bool:
        """Return whether this process drains."""
        return self._draining or self._streams.draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the lines until they end, the client leaves, or the process drains."""
        with self._streams.running(self):
            await super().__call__(scope, receive, send)
