"""The server-sent events of a stream, as every binding over HTTP writes them."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

from taskplane.gateway.a2a.follow import Item, total_bytes
from taskplane.gateway.a2a.streams import PayloadStream
from taskplane.gateway.translate.dialect import Encoded, Writer
from taskplane.gateway.web import sse
from taskplane.gateway.web.translation_thread import TranslationThread
from taskplane.runtime import json_lines
from taskplane.runtime.errors import PlaneError


class SentEvents:
    """The elements of a stream as server-sent events, and an error as the last of them. Close them with `aclose`, also
    if none was taken; it closes the stream."""

    def __init__(
        self,
        worker: TranslationThread,
        flow: PayloadStream,
        write: Writer[Encoded],
        write_error: Callable[[PlaneError], bytes],
        *,
        head: bytes = b"",
        tail: bytes = b"",
    ) -> None:
        """Take the stream. The data of an event is the JSON of an element between `head` and `tail`; `write_error`
        returns a whole event."""

        def written(items: Sequence[Item]) -> bytes:
            return b"".join(
                [
                    sse.event(head + json_lines.encode(write(payload, cursor, numbered=flow.numbered)) + tail, cursor)
                    for cursor, payload in items
                ]
            )

        self._flow = flow
        self._events = _events(worker, flow, written, write_error)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._events

    async def aclose(self) -> None:
        """Close the stream."""
        await self._events.aclose()
        # A generator that has not begun has no end either, as after a HEAD request.
        await self._flow.aclose()


async def _events(
    worker: TranslationThread,
    flow: PayloadStream,
    written: Callable[[Sequence[Item]], bytes],
    write_error: Callable[[PlaneError], bytes],
) -> AsyncGenerator[bytes, None]:
    try:
        async for items in flow:
            yield await worker.run(total_bytes(items), written, items)
    except PlaneError as error:
        yield write_error(error)
