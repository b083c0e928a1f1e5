"""An HTTP client of remote A2A servers. It limits and mends their answers before the SDK reads them."""

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx

from taskplane.agents.adapters.peers.event_lines import Events, Lines
from taskplane.agents.adapters.peers.mending import Mending
from taskplane.agents.adapters.peers.refused import RefusedAnswer, too_large

LONGEST_ANSWER: Final = 64 * 2**20
"""The largest answer in bytes that is not a stream: the limit of a task of this plane."""
_EVENTS: Final = "text/event-stream"
# The last line of streams in the form of some language models.
_DONE: Final = "[DONE]"
_LENGTHS: Final = ("content-length", "content-encoding", "transfer-encoding")


class PeerClient(httpx.AsyncClient):
    """A client with answers in the form that the request asked for.

    RefusedAnswer: an answer is too large, or it is not JSON.
    """

    async def send(
        self,
        request: httpx.Request,
        *,
        stream: bool = False,
        auth: Any = httpx.USE_CLIENT_DEFAULT,
        follow_redirects: Any = httpx.USE_CLIENT_DEFAULT,
    ) -> httpx.Response:
        """Send a request; the events of a stream, or the whole answer, are mended."""
        # A small compressed answer may be a large one.
        request.headers["Accept-Encoding"] = "identity"
        found = await super().send(request, stream=True, auth=auth, follow_redirects=follow_redirects)
        mending = Mending.of(request)
        if stream and found.is_success and _EVENTS in found.headers.get("content-type", ""):
            return _EventResponse(found, mending)
        try:
            content = await _read(found)
        finally:
            await found.aclose()
        if found.is_success and content:
            content = _mended(content, mending)
        headers = [(name, value) for name, value in found.headers.multi_items() if name.lower() not in _LENGTHS]
        return httpx.Response(found.status_code, headers=headers, content=content, request=found.request)


class _EventResponse(httpx.Response):
    def __init__(self, found: httpx.Response, mending: Mending) -> None:
        super().__init__(
            found.status_code,
            headers=found.headers,
            stream=found.stream,
            request=found.request,
            extensions=found.extensions,
            default_encoding=found.default_encoding,
        )
        self._mending = mending

    async def aiter_lines(self) -> AsyncIterator[str]:
        lines, events = Lines(), Events(self._formed)
        async for text in self.aiter_text():
            for line in lines.feed(text):
                for formed in events.feed(line):
                    yield formed
        for line in lines.end():
            for formed in events.feed(line):
                yield formed
        for formed in events.end():
            yield formed

    def _formed(self, data: str) -> str:
        if data.strip() in ("", _DONE):
            return ""
        return _written(self._mending.answer(_parsed(data)))


async def _read(found: httpx.Response) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in found.aiter_bytes():
        size += len(piece)
        if size > LONGEST_ANSWER:
            raise too_large("an answer", LONGEST_ANSWER)
        pieces.append(piece)
    return b"".join(pieces)


def _mended(content: bytes, mending: Mending) -> bytes:
    if content.startswith((b"data:", b"event:", b":")):
        # A stream of one event, where the whole answer was asked for.
        events = Events(lambda data: data if data.strip() != _DONE else "")
        lines = Lines()
        text = content.decode("utf-8", "replace")
        formed = [one for line in [*lines.feed(text), *lines.end(), ""] for one in events.feed(line)]
        last = [line for line in formed if line.startswith("data:")][-1:]
        content = last[0].removeprefix("data:").encode() if last else content
    return _written(mending.answer(_parsed(content))).encode()


def _written(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair, which the SDK's parsers refuse.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _parsed(content: str | bytes) -> Any:
    try:
        # NaN and Infinity are not JSON.
        return json.loads(content, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise RefusedAnswer("The server of the remote agent sent a response that is not JSON.") from error
