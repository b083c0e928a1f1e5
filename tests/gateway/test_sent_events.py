"""The server-sent events of a stream over each binding: their close."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from tests.gateway.bindings import HttpBinding

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.a2a.follow import Item
from taskplane.gateway.a2a.streams import PayloadStream
from taskplane.gateway.web.sse import EventStream
from taskplane.gateway.web.streams import Streams
from taskplane.runtime.principal import Principal


class Source:
    """The batches of a stream that never ends, and whether they were closed."""

    def __init__(self) -> None:
        self.closed = False

    async def batches(self) -> AsyncGenerator[list[Item], None]:
        try:
            while True:
                yield [("abc-1", a2a.TaskStatusUpdateEvent(task_id="t", context_id="c"))]
        finally:
            self.closed = True


@pytest.mark.parametrize("method", ["HEAD", "GET"])
async def test_a_stream_that_was_begun_is_closed_though_no_event_was_taken(
    http_binding: HttpBinding, method: str
) -> None:
    source = Source()
    flow = PayloadStream(source.batches(), growing_text=True)
    await flow.prime()
    streams = Streams(1, 1)
    slot = streams.take(Principal("tenant", "ann", "ann"))
    response = EventStream(
        http_binding.events(flow), streams=streams, slot=slot, keep_alive=9.0, write_timeout=9.0, alive=lambda: True
    )
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message["type"])
        if method == "GET":
            raise ConnectionResetError

    async def receive() -> Any:
        raise AssertionError("nothing is read before the headers are sent")

    if method == "HEAD":
        await response({"type": "http", "method": method}, receive, send)
        assert sent == ["http.response.start", "http.response.body"]
    else:
        with pytest.raises(ConnectionResetError):
            await response({"type": "http", "method": method}, receive, send)
    assert source.closed
    assert streams.total == 0
