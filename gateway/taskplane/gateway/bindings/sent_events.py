"""The server-sent events of a stream, as every binding over HTTP writes them."""

from collections.abc import AsyncGenerator, Callable, Sequence

from taskplane.gateway.a2a.follow import Item, total_bytes
from taskplane.gateway.a2a.streams import PayloadStream
from taskplane.gateway.translate.dialect import Encoded, Payload
from taskplane.gateway.web import sse
from taskplane.gateway.web.translation_thread import TranslationThread
from taskplane.runtime import json_lines
from taskplane.runtime.errors import PlaneError


async def sent_events(
    worker: TranslationThread,
    flow: PayloadStream,
    write: Callable[[Payload, str], Encoded],
    write_error: Callable[[PlaneError], bytes],
    *,
    head: bytes = b"",
    tail: bytes = b"",
) -> AsyncGenerator[bytes, None]:
    """Yield the elements of a stream as server-sent events, and an error as the last of them. Close the stream.

    The data of an event is the JSON of an element between `head` and `tail`; `write_error` returns a whole event.
    """

    def written(items: Sequence[Item]) -> bytes:
        return b"".join(
            [sse.event(head + json_lines.encode(write(payload, cursor)) + tail, cursor) for cursor, payload in items]
        )

    try:
        async for items in flow:
            yield await worker.run(total_bytes(items), written, items)
    except PlaneError as error:
        yield write_error(error)
    finally:
        await flow.aclose()
