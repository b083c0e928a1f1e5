"""HTTP/1.1 on one connection: an application of a few lines behind our protocol, and bytes on a socket before it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from taskplane.gateway.exchange import EXCHANGE, Exchange
from taskplane.gateway.protocol import MOST_HEADERS, Protocol

GET = b"GET /some%20path?a=b HTTP/1.1\r\nHost: here\r\n\r\n"
Answering = Callable[[Scope, Receive, Send], Awaitable[None]]


class Connection:
    """A client's connection; whatever is waited for comes within 10 s."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def answer(self, sent: bytes = b"", *, bodiless: bool = False) -> tuple[bytes, bytes]:
        """The head and the body of the answer to what is sent."""
        self.writer.write(sent)
        async with asyncio.timeout(10):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
            return head, b"" if bodiless or not length else await self.reader.readexactly(int(length))

    async def end(self) -> bytes:
        """What comes until the server closes the connection."""
        async with asyncio.timeout(10):
            return await self.reader.read()


@contextlib.asynccontextmanager
async def serving(answering: Answering, *, idle: int = 75) -> AsyncGenerator[tuple[uvicorn.Server, int], None]:
    """A server of the application, and its port."""
    app: ASGIApp = answering
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.setblocking(False)
        config = uvicorn.Config(
            app, http=Protocol, lifespan="off", log_config=None, timeout_graceful_shutdown=1, timeout_keep_alive=idle
        )
        server = uvicorn.Server(config)
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup([listener])
        try:
            yield server, listener.getsockname()[1]
        finally:
            await server.shutdown([listener])


@contextlib.asynccontextmanager
async def connected(port: int) -> AsyncGenerator[Connection, None]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Connection(reader, writer)
    finally:
        writer.transport.abort()


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the method, path, query and header x of the request, and its body."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    given = [value for name, value in scope["headers"] if name == b"x"]
    text = f"{scope['method']} {scope['path']} {scope['query_string'].decode()} {b','.join(given).decode()} "
    await reply(send, text.encode() + body)


async def reply(send: Send, body: bytes, *headers: tuple[bytes, bytes], length: int | None = None) -> None:
    """An answer of status 200, with a content-length."""
    size = b"%d" % (len(body) if length is None else length)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", size), *headers]})
    await send({"type": "http.response.body", "body": body})


async def test_requests_are_answered_in_their_order_on_one_connection() -> None:
    """One after the other, and sent all at once."""
    async with serving(echo) as (_, port), connected(port) as connection:
        for _ in range(3):
            head, body = await connection.answer(GET)
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert body == b"GET /some path a=b  "
        connection.writer.write(
            b"".join(b"POST /%d HTTP/1.1\r\nContent-Length: 1\r\n\r\n%d" % (n, n) for n in range(9))
        )
        assert [(await connection.answer())[1] for _ in range(9)] == [b"POST /%d   %d" % (n, n) for n in range(9)]


async def test_a_request_may_come_byte_by_byte_and_its_body_in_chunks() -> None:
    sent = b"POST / HTTP/1.1\r\nX: one\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    async with serving(echo) as (_, port), connected(port) as connection:
        for index in range(len(sent) - 1):
            connection.writer.write(sent[index : index + 1])
            await connection.writer.drain()
            await asyncio.sleep(0)
        assert (await connection.answer(sent[-1:]))[1] == b"POST /  one abcde"


async def test_headers_after_the_body_mean_nothing() -> None:
    """They would come too late for whoever asked who calls."""
    sent = b"POST / HTTP/1.1\r\nX: one\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: two\r\n\r\n"
    async with serving(echo) as (_, port), connected(port) as connection:
        assert (await connection.answer(sent))[1] == b"POST /  one a"


async def test_a_body_is_asked_for_where_the_client_waits_for_that() -> None:
    head = b"POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    async with serving(echo) as (_, port), connected(port) as connection:
        assert (await connection.answer(head))[0] == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (await connection.answer(b"ab"))[1] == b"POST /   ab"
        # Not where it is there already.
        assert (await connection.answer(head + b"ab"))[1] == b"POST /   ab"


async def test_an_answer_to_head_has_no_body_and_one_without_a_length_comes_in_chunks() -> None:
    async def counting(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in (b"", b"one", b"two"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})

    async with serving(echo) as (_, port), connected(port) as connection:
        head, _ = await connection.answer(b"HEAD / HTTP/1.1\r\n\r\n", bodiless=True)
        assert b"content-length: 9\r\n" in head
        assert (await connection.answer(GET))[1]
    async with serving(counting) as (_, port), connected(port) as connection:
        head, _ = await connection.answer(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert b"transfer-encoding: chunked\r\n" in head
        assert await connection.end() == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nConnection: close\r\n\r\nrubbish"])
async def test_a_connection_ends_with_the_answer_where_the_client_wants_that(sent: bytes) -> None:
    async with serving(echo) as (_, port), connected(port) as connection:
        head, body = await connection.answer(sent)
        assert b"connection: close\r\n" in head
        assert body == b"GET /   "
        assert await connection.end() == b""


@pytest.mark.parametrize(
    "sent",
    [
        b"rubbish\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"CONNECT here:80 HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET /" + b"p" * MOST_HEADERS + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: %s\r\n" % (b"v" * 1000) * 17 + b"\r\n",
        b"GET / HTTP/1.1\r\n" + b"X:\r\n" * MOST_HEADERS + b"\r\n",
    ],
)
@pytest.mark.parametrize("pieces", [1, 3])
async def test_what_is_not_http_or_has_too_large_a_head_is_refused_and_the_connection_closed(
    sent: bytes, pieces: int
) -> None:
    async with serving(echo) as (_, port), connected(port) as connection:
        size = -(-len(sent) // pieces)
        for index in range(0, len(sent), size):
            connection.writer.write(sent[index : index + size])
            await connection.writer.drain()
        head, _ = await connection.answer()
        assert head.startswith(b"HTTP/1.1 400 ")
        assert await connection.end() == b""


async def test_a_header_that_does_not_end_is_not_kept() -> None:
    async with serving(echo) as (_, port), connected(port) as connection:
        connection.writer.write(b"GET / HTTP/1.1\r\nX: ")
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(10):
                while not connection.reader.at_eof():
                    connection.writer.write(b"v" * 4096)
                    await connection.writer.drain()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(connection.reader.read(1), 0.001)


async def test_a_head_as_large_as_it_may_be_is_taken_with_a_large_body() -> None:
    head = b"POST / HTTP/1.1\r\nContent-Length: 300000\r\nX: "
    size = MOST_HEADERS - len(b"/Content-Length300000X")
    async with serving(echo) as (_, port), connected(port) as connection:
        for _ in range(2):
            _, body = await connection.answer(head + b"v" * size + b"\r\n\r\n" + b"b" * 300_000)
            assert len(body) == len(b"POST /   ") + size + 300_000


async def test_an_idle_connection_is_closed_in_the_end_and_a_busy_one_is_not() -> None:
    release = asyncio.Event()

    async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/wait":
            await release.wait()
        await reply(send, b"done")

    async with serving(waiting, idle=1) as (_, port), connected(port) as busy, connected(port) as idle:
        await idle.answer(GET)
        await busy.answer(GET)
        busy.writer.write(b"GET /wait HTTP/1.1\r\n\r\n")
        assert await idle.end() == b""
        release.set()
        assert (await busy.answer())[1] == b"done"
        assert (await busy.answer(GET))[1] == b"done"
        assert await busy.end() == b""


@pytest.mark.parametrize("length", [3, 5])
async def test_an_application_that_fails_before_anything_was_sent_is_a_plain_error(length: int) -> None:
    """So is one whose body is not as long as it said."""

    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, b"four", length=length)

    async with serving(failing) as (_, port), connected(port) as connection:
        head, body = await connection.answer(GET)
        assert head.startswith(b"HTTP/1.1 500 ")
        assert body == b"Internal Server Error"
        assert await connection.end() == b""


async def test_an_application_that_fails_later_ends_the_connection_short_of_the_end() -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        raise ValueError("later")

    async with serving(failing) as (_, port), connected(port) as connection:
        await connection.answer(GET)
        assert await connection.end() == b"3\r\none\r\n"


@pytest.mark.parametrize("header", [(b"x", b"a\r\nSet-Cookie: b"), (b"x\r\ny", b"a"), (b"x", b"\0")])
async def test_a_header_that_would_be_more_than_one_is_not_sent(header: tuple[bytes, bytes]) -> None:
    async def forging(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, b"done", header)

    async with serving(forging) as (_, port), connected(port) as connection:
        head, _ = await connection.answer(GET)
        assert head.startswith(b"HTTP/1.1 500 ")
        assert b"Cookie" not in head


async def test_a_client_that_asks_for_another_protocol_is_answered_in_this_one() -> None:
    upgrade = b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    async with serving(echo) as (_, port), connected(port) as connection:
        assert (await connection.answer(upgrade))[1] == b"GET /   "


@pytest.mark.parametrize("behind", [b"", GET])
async def test_an_application_is_told_when_its_client_leaves(behind: bytes) -> None:
    """Also of one that has sent a further request, which is never answered then."""
    told: list[str] = []
    begun, left = asyncio.Event(), asyncio.Event()

    async def attending(scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope["extensions"][EXCHANGE]
        assert exchange.take_body() == b"ab"
        exchange.call_when_gone(lambda: told.append("gone"))
        begun.set()
        told.append((await receive())["type"])
        # Whoever asks too late is told as well.
        exchange.call_when_gone(left.set)

    async with serving(attending) as (_, port):
        async with connected(port) as connection, asyncio.timeout(10):
            connection.writer.write(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab" + behind)
            await begun.wait()
        async with asyncio.timeout(10):
            await left.wait()
    assert sorted(told) == ["gone", "http.disconnect"]


async def test_a_large_body_waits_until_it_is_asked_for() -> None:
    """Its client is held back: what nobody reads costs little memory."""
    ask = asyncio.Event()

    async def reading(scope: Scope, receive: Receive, send: Send) -> None:
        await ask.wait()
        await echo(scope, receive, send)

    size = 32 * 1024 * 1024
    async with serving(reading) as (_, port), connected(port) as connection:
        connection.writer.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % size)
        connection.writer.write(b"b" * size)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.writer.drain(), 0.3)
        ask.set()
        _, body = await connection.answer()
        assert len(body) == size + len(b"POST /   ")


async def test_a_server_that_ends_closes_idle_connections_and_lets_busy_ones_be_answered() -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/wait":
            begun.set()
            await release.wait()
        await reply(send, b"done")

    async with serving(waiting) as (server, port), connected(port) as busy, connected(port) as idle:
        await idle.answer(GET)
        busy.writer.write(b"GET /wait HTTP/1.1\r\n\r\n")
        await begun.wait()
        for connection in list(server.server_state.connections):
            connection.shutdown()
        assert await idle.end() == b""
        release.set()
        head, body = await busy.answer()
        assert (b"connection: close\r\n" in head, body) == (True, b"done")
        assert await busy.end() == b""
    assert not server.server_state.tasks
