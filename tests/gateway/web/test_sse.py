"""Framing of server-sent events, and streams to slow, silent and vanished clients, over real sockets."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Callable

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from taskplane.gateway.web.protocol import Protocol
from taskplane.gateway.web.slots import Slot
from taskplane.gateway.web.sse import EventStream, event
from taskplane.gateway.web.streams import Streams
from taskplane.runtime.errors import Exhausted
from taskplane.runtime.principal import Principal

ANN = Principal("tenant", "ann", "ann")


def test_an_event_has_an_id_line_one_data_line_and_a_blank_line() -> None:
    """a2a C14, C15."""
    assert event(b"{}", "abc-1") == b"id: abc-1\ndata: {}\n\n"
    assert event(b"{}") == b"data: {}\n\n"
    assert event(b"{}", name="error") == b"event: error\ndata: {}\n\n"


@pytest.mark.parametrize("cursor", ["a\nb", "a\rb", "a\0b", "a\r\ndata: forged"])
def test_an_event_id_with_a_line_break_or_nul_is_refused(cursor: str) -> None:
    """a2a C15."""
    with pytest.raises(ValueError, match="event id"):
        event(b"{}", cursor)


@pytest.mark.parametrize("data", [b"", b"a\nb", b"a\rb"])
def test_empty_or_multi_line_data_is_refused(data: bytes) -> None:
    """a2a C14, C15."""
    with pytest.raises(ValueError, match="data"):
        event(data)


class Source:
    """Events from the test, with a record of taken events and of the close."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self.taken = 0
        self.closed = asyncio.Event()

    async def events(self) -> AsyncGenerator[bytes, None]:
        try:
            while (one := await self.queue.get()) is not None:
                self.taken += 1
                yield one
        finally:
            self.closed.set()


class Server:
    """A server that answers every request with the stream of its source."""

    def __init__(self, *, keep_alive: float, write_timeout: float, alive: Callable[[], bool]) -> None:
        self.streams = Streams(3, 2)
        self.source = Source()
        self.port = 0
        self.slots: list[Slot] = []
        self._options = (keep_alive, write_timeout, alive)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        keep_alive, write_timeout, alive = self._options
        stream = EventStream(
            self.source.events(),
            streams=self.streams,
            slot=self.streams.take(ANN),
            keep_alive=keep_alive,
            write_timeout=write_timeout,
            alive=alive,
        )
        await stream(scope, receive, send)

    async def connect(self, *, buffer: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        """Send a request, and return its connection and the head of the answer. `buffer`: the receive buffer."""
        sock = socket.socket()
        if buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=1024)
        writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        return reader, writer, await reader.readuntil(b"\r\n\r\n")


@contextlib.asynccontextmanager
async def serving(
    *, keep_alive: float = 30.0, write_timeout: float = 30.0, alive: Callable[[], bool] = lambda: True
) -> AsyncGenerator[Server, None]:
    server = Server(keep_alive=keep_alive, write_timeout=write_timeout, alive=alive)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
        listener.bind(("127.0.0.1", 0))
        listener.setblocking(False)
        server.port = listener.getsockname()[1]
        app: ASGIApp = server
        config = uvicorn.Config(app, http=Protocol, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
        http = uvicorn.Server(config)
        config.load()
        http.lifespan = config.lifespan_class(config)
        await http.startup([listener])
        try:
            yield server
        finally:
            await http.shutdown([listener])


async def chunk(reader: asyncio.StreamReader) -> bytes:
    """Return one chunk of a chunked body."""
    size = int(await reader.readline(), 16)
    body = await reader.readexactly(size)
    await reader.readline()
    return body


async def test_the_response_headers_disable_buffering_by_proxies() -> None:
    async with serving() as server, asyncio.timeout(10):
        _, writer, head = await server.connect()
        assert b"content-type: text/event-stream" in head
        assert b"cache-control: no-store, no-transform" in head
        assert b"x-accel-buffering: no" in head
        writer.close()
        await server.source.closed.wait()


async def test_a_silent_stream_gets_comment_lines_without_blank_lines() -> None:
    """C3, C5, a2a C15, K14: clients do not see comments as events."""
    async with serving(keep_alive=0.05) as server, asyncio.timeout(10):
        # The event comes before the first silence.
        await server.source.queue.put(event(b"1", "a-1"))
        reader, writer, _ = await server.connect()
        assert await chunk(reader) == b"id: a-1\ndata: 1\n\n"
        assert [await chunk(reader) for _ in range(3)] == [b": ping\n"] * 3
        await server.source.queue.put(None)
        while (last := await chunk(reader)) == b": ping\n":
            pass
        assert last == b""
        writer.close()


async def test_a_disconnect_of_the_client_closes_the_source_of_its_stream() -> None:
    async with serving() as server, asyncio.timeout(10):
        reader, writer, _ = await server.connect()
        await server.source.queue.put(event(b"1"))
        await chunk(reader)
        assert server.streams.total == 1
        writer.close()
        await server.source.closed.wait()
    assert server.streams.total == 0


async def test_a_client_that_does_not_read_stops_its_source_and_is_disconnected() -> None:
    """C13: the source is asked for the next batch only after the client has taken the previous one."""
    batch = event(b"x" * 64_000)
    async with serving(keep_alive=0.05, write_timeout=0.5) as server, asyncio.timeout(20):
        reader, writer, _ = await server.connect(buffer=4096)
        offered = 0
        while not server.source.closed.is_set():
            put = asyncio.create_task(server.source.queue.put(batch))
            closed = asyncio.create_task(server.source.closed.wait())
            await asyncio.wait({put, closed}, return_when=asyncio.FIRST_COMPLETED)
            offered += put.done()
            put.cancel()
            closed.cancel()
        assert offered * len(batch) < 4 * 1024 * 1024
        # The connection is reset: the rest of the written data never arrives.
        with pytest.raises(ConnectionResetError):
            while await reader.read(65536):
                pass
        writer.close()


async def test_a_stream_ends_when_its_credentials_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskplane.gateway.web.sse._CREDENTIALS_INTERVAL", 0.01)
    async with serving(keep_alive=0.05, alive=lambda: False) as server, asyncio.timeout(10):
        reader, writer, _ = await server.connect()
        assert await chunk(reader) == b""
        assert server.source.closed.is_set()
        writer.close()


async def test_a_drain_ends_streams_between_events_with_a_jittered_retry() -> None:
    """C14, C5: a stream opened after the drain is answered with 200, since browsers do not reconnect after other
    statuses."""
    async with serving() as server, asyncio.timeout(10):
        reader, writer, _ = await server.connect()
        await server.source.queue.put(event(b"1", "a-1"))
        await chunk(reader)
        server.streams.drain()
        field, _, value = (await chunk(reader)).partition(b": ")
        assert field == b"retry"
        assert 500 <= int(value) <= 3000
        assert value.endswith(b"\n")
        assert await chunk(reader) == b""
        assert server.source.closed.is_set()
        # Streams that begin later end in the same way.
        later, other, head = await server.connect()
        assert head.startswith(b"HTTP/1.1 200")
        assert (await chunk(later)).startswith(b"retry: ")
        writer.close()
        other.close()


def test_streams_are_limited_per_principal_and_per_process() -> None:
    streams = Streams(3, 2)
    bob, eve = Principal("tenant", "bob", "bob"), Principal("tenant", "eve", "eve")
    slots = [streams.take(ANN), streams.take(ANN)]
    with pytest.raises(Exhausted) as caught:
        streams.take(ANN)
    assert (caught.value.reason, caught.value.retry_after) == ("TOO_MANY_STREAMS", 1.0)
    assert "at most 2 per caller" in caught.value.message
    slots.append(streams.take(bob))
    with pytest.raises(Exhausted) as caught:
        streams.take(eve)
    assert caught.value.reason == "TOO_MANY_STREAMS" and "at most 3 per process" in caught.value.message
    slots[0].release()
    slots[0].release()
    streams.take(ANN)
    with pytest.raises(Exhausted):
        streams.take(eve)


async def test_the_next_events_are_taken_after_the_earlier_ones_were_sent() -> None:
    """C13: a client that does not read costs only the memory of the last batch."""
    async with serving() as server:
        reader, writer, _ = await server.connect(buffer=4096)
        large = event(b"x" * (8 * 1024 * 1024))
        for one in (large, event(b"{}")):
            await server.source.queue.put(one)
        for _ in range(100):
            await asyncio.sleep(0)
        assert server.source.taken == 1
        left = len(large)
        while left > 0:
            left -= len(await reader.read(64 * 1024))
        await server.source.queue.put(None)
        assert server.source.taken == 2
        writer.close()
        await server.source.closed.wait()
