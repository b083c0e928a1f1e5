"""An HTTP client whose event streams have the lines that the HTML standard defines.

httpx ends a line at U+2028, U+2029, U+0085 and other characters, too. JSON may contain three of them, and a server that
writes them as they are would end the SDK's reading in the middle of a message.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx

_EVENTS = "text/event-stream"


class LineClient(httpx.AsyncClient):
    """A client of servers that send events. Everything else is as httpx has it."""

    async def send(
        self,
        request: httpx.Request,
        *,
        stream: bool = False,
        auth: Any = httpx.USE_CLIENT_DEFAULT,
        follow_redirects: Any = httpx.USE_CLIENT_DEFAULT,
    ) -> httpx.Response:
        """Send a request; the lines of an event stream end at CR, LF or both."""
        found = await super().send(request, stream=stream, auth=auth, follow_redirects=follow_redirects)
        if not stream or _EVENTS not in found.headers.get("content-type", ""):
            return found
        return _EventResponse(
            found.status_code,
            headers=found.headers,
            stream=found.stream,
            request=found.request,
            extensions=found.extensions,
            history=found.history,
            default_encoding=found.default_encoding,
        )


class _EventResponse(httpx.Response):
    async def aiter_lines(self) -> AsyncIterator[str]:
        lines = Lines()
        async for text in self.aiter_text():
            for line in lines.feed(text):
                yield line
        for line in lines.end():
            yield line


class Lines:
    """The lines of a text that comes in pieces, without their ends."""

    def __init__(self) -> None:
        # The pieces of the line that has not ended.
        self._open: list[str] = []
        # The last character was a CR, which an LF may follow.
        self._held = False

    def feed(self, text: str) -> Iterator[str]:
        """Yield the lines that end in `text`."""
        if self._held:
            text = "\r" + text
        self._held = text.endswith("\r")
        if self._held:
            text = text[:-1]
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        first, *more = text.split("\n")
        self._open.append(first)
        for next_line in more:
            yield "".join(self._open)
            self._open = [next_line]

    def end(self) -> Iterator[str]:
        """Yield the last line, which nothing ended; none if it is empty."""
        last = "".join(self._open)
        if last or self._held:
            yield last
