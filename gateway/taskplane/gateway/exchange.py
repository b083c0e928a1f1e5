"""One request and its answer on a connection: what an ASGI application sees of it, and what ours asks for beyond ASGI.

The head of an answer goes out with the first piece of its body, in one write.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Final, Protocol

from starlette.types import ASGIApp, Message, Scope
from uvicorn.server import ServerState

EXCHANGE: Final = "taskplane.exchange"
"""Name of the ASGI extension that is the `Exchange` of a request."""

# Bytes of a body that nobody has asked for yet, above which no more is read.
_MOST_UNREAD: Final = 64 * 1024
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FORBIDDEN: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_STATUS_LINES: Final = {one.value: b"HTTP/1.1 %d %s\r\n" % (one, one.phrase.encode()) for one in HTTPStatus}
# Answers that end with their head.
_BODILESS: Final = frozenset({204, 304})
_FAILURE: Final = b"Internal Server Error"

_log = logging.getLogger(__name__)


class Connection(Protocol):
    """What an exchange asks of the connection it is on."""

    state: ServerState
    transport: asyncio.Transport
    write_paused: bool

    async def writable(self) -> None:
        """Waits until the client has taken enough of what was written, or has gone."""
        ...

    def pause_reading(self) -> None:
        """Takes nothing from the client for now."""
        ...

    def resume_reading(self) -> None:
        """Takes what comes again."""
        ...

    def cut(self) -> None:
        """Resets the connection. What was written and not taken is lost."""
        ...

    def finished(self) -> None:
        """The answer is complete."""
        ...


class Exchange:
    """A request whose headers are there. The connection feeds it the body, the application answers it."""

    __slots__ = (
        "_asking",
        "_bell",
        "_body",
        "_changed",
        "_chunked",
        "_connection",
        "_head",
        "_left",
        "_on_gone",
        "_only_head",
        "_size",
        "_started",
        "_whole",
        "complete",
        "gone",
        "keep_alive",
        "task",
    )

    def __init__(
        self, connection: Connection, method: str, headers: list[tuple[bytes, bytes]], keep_alive: bool
    ) -> None:
        """`keep_alive`: the connection is for further requests, too."""
        self._connection = connection
        self._only_head = method == "HEAD"
        # Where the client may say that it sends the body when it is asked to; empty once it was.
        self._asking = headers
        self.keep_alive = keep_alive
        # What answers; nothing else refers to it.
        self.task: asyncio.Task[None] | None = None
        # The client has left.
        self.gone = False
        self._on_gone: Callable[[], None] | None = None

        # What has come of the body and was not asked for, its size, and whether nothing follows.
        self._body: list[bytes] = []
        self._size = 0
        self._whole = False
        # There is something new for `receive`; and what wakes those who wait for that.
        self._changed = False
        self._bell: asyncio.Event | None = None

        # The answer: its head until it is written, and the bytes that its body still lacks.
        self._started = False
        self._head = b""
        self._chunked = False
        self._left = 0
        self.complete = False

    # --- for the connection --------------------------------------------------------------------------------------

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        """Has the application answer. Where it fails the client gets a plain error or, after a beginning, the end of
        the connection."""
        try:
            await app(scope, self.receive, self.send)
        except BaseException as error:  # noqa: BLE001 - a task that is cancelled because the server ends answers, too
            _log.error("a request failed", exc_info=error)
            self._fail()
        else:
            if not self.complete and not self.gone:
                _log.error("a request was not answered")
                self._fail()
        finally:
            if self.task is not None:
                self._connection.state.tasks.discard(self.task)

    def feed(self, piece: bytes) -> None:
        """Takes a piece of the body."""
        if self.complete:
            return
        self._body.append(piece)
        self._size += len(piece)
        if self._size > _MOST_UNREAD:
            self._connection.pause_reading()
        self._wake()

    def feed_end(self) -> None:
        """The body is whole."""
        self._whole = True
        self._wake()

    def lose(self) -> None:
        """The connection is lost."""
        if self.complete or self.gone:
            return
        self.gone = True
        self._wake()
        if self._on_gone is not None:
            self._on_gone()

    # --- for the application -------------------------------------------------------------------------------------

    def take_body(self) -> bytes | None:
        """The body, if all of it has come already and none was asked for; `receive` then tells of the client only."""
        if not self._whole or self.gone:
            return None
        self._changed = False
        return self._taken()

    def call_when_gone(self, callback: Callable[[], None] | None) -> None:
        """Calls back when the client leaves before it has its answer; soon, if it has left. None: not any more."""
        self._on_gone = callback
        if callback is None:
            return
        if self.gone:
            asyncio.get_running_loop().call_soon(callback)
        else:
            # Of a client that has sent a further request, the end is seen by reading on only.
            self._connection.resume_reading()

    def cut(self) -> None:
        """Resets the connection. What was written and not taken is lost; a mere close would keep it for minutes."""
        self._connection.cut()

    async def receive(self) -> Message:
        """What has come of the body since the last time, once there is something; or that there is nobody any more."""
        connection = self._connection
        if self._asking:
            self._ask()
        if not self.gone and not self.complete:
            connection.resume_reading()
            if not self._changed:
                if self._bell is None:
                    self._bell = asyncio.Event()
                await self._bell.wait()
            self._changed = False
            if self._bell is not None:
                self._bell.clear()
        if self.gone or self.complete:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": self._taken(), "more_body": not self._whole}

    async def send(self, message: Message) -> None:
        """Begins the answer, and writes its body. RuntimeError: it is not what the answer needs next."""
        if self._connection.write_paused and not self.gone:
            await self._connection.writable()
        if self.gone:
            return
        if not self._started:
            if message["type"] != "http.response.start":
                raise RuntimeError(f"an answer begins with its head, not with {message['type']}")
            self._begin(message["status"], message.get("headers", ()))
        elif self.complete or message["type"] != "http.response.body":
            raise RuntimeError(f"{message['type']} does not belong to this answer any more")
        else:
            self._write(message.get("body", b""), more=message.get("more_body", False))

    # --- inside --------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        expected = [value.lower() for name, value in self._asking if name == b"expect"]
        self._asking = []
        if b"100-continue" in expected and not (self._started or self._whole or self.gone):
            self._connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _wake(self) -> None:
        self._changed = True
        if self._bell is not None:
            self._bell.set()

    def _taken(self) -> bytes:
        body = b"".join(self._body)
        self._body = []
        self._size = 0
        return body

    def _begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        head, length = _head(status, (*self._connection.state.default_headers, *headers))
        if not self.keep_alive:
            head += b"connection: close\r\n"
        if self._only_head:
            length = 0
        elif length is None and status not in _BODILESS:
            self._chunked = True
            head += b"transfer-encoding: chunked\r\n"
        self._left = length or 0
        self._head = head + b"\r\n"
        self._started = True

    def _write(self, body: bytes, *, more: bool) -> None:
        if self._only_head:
            body = b""
        elif self._chunked:
            chunk = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
            body = chunk if more else chunk + b"0\r\n\r\n"
        else:
            self._left -= len(body)
            if self._left < 0:
                raise RuntimeError("the answer is longer than its content-length")
            if self._left and not more:
                raise RuntimeError("the answer is shorter than its content-length")
        transport = self._connection.transport
        if self._head:
            transport.writelines((self._head, body))
            self._head = b""
        elif body:
            transport.write(body)
        if not more:
            self.complete = True
            self._wake()
            if not self.keep_alive:
                transport.close()
            self._connection.finished()

    def _fail(self) -> None:
        if self.gone or self.complete:
            return
        if self._started and not self._head:
            self._connection.transport.close()
            return
        self.keep_alive = self._chunked = False
        headers = ((b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(_FAILURE)))
        self._begin(500, headers)
        self._write(_FAILURE, more=False)


@lru_cache(256)
def _head(status: int, headers: tuple[tuple[bytes, bytes], ...]) -> tuple[bytes, int | None]:
    """The head of an answer without its last line, and how long its body will be; None: it does not say. Answers are
    alike: within a second, most of them have one of a few heads. RuntimeError: a header would be more than one."""
    lines = [_STATUS_LINES[status]]
    length: int | None = None
    for name, value in headers:
        if not _NAME.fullmatch(name) or _FORBIDDEN.search(value):
            raise RuntimeError(f"the header {name!r} cannot be written")
        if name == b"content-length":
            length = int(value)
        lines.append(b"%s: %s\r\n" % (name, value))
    return b"".join(lines), length
