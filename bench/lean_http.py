"""A lean HTTP/1.1 client on plain sockets, so that the servers are the bottleneck."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import orjson


class WrongAnswer(Exception):
    """A server answered something else than the workload asks for; no figure of it counts."""


class Connection:
    """One keep-alive connection."""

    def __init__(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._host = f"127.0.0.1:{port}".encode()

    async def post(self, method: str, params: dict[str, Any]) -> int:
        """Sends one JSON-RPC request; the status of the answer, whose headers are read."""
        return await self.post_json("/", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})

    async def post_json(self, path: str, content: dict[str, Any]) -> int:
        """Sends JSON in A2A 1.0; the status of the answer, whose headers are read."""
        body = orjson.dumps(content)
        self._writer.write(
            b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n"
            b"A2A-Extensions: https://taskplane.dev/extensions/growing-text/v1\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (path.encode(), self._host, len(body), body)
        )
        return await self._head()

    async def get_json(self, path: str) -> Any:
        """The JSON of a GET."""
        return orjson.loads(await self.get(path))

    async def get(self, path: str) -> bytes:
        """The body of a GET."""
        self._writer.write(b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (path.encode(), self._host))
        await self._head()
        return await self.body()

    async def put_up(self, path: str, media_type: str, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer to a POST."""
        self._writer.write(
            b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
            % (path.encode(), self._host, media_type.encode(), len(body))
        )
        self._writer.write(body)
        await self._writer.drain()
        return await self._head(), await self.body()

    async def _head(self) -> int:
        head = await self._reader.readuntil(b"\r\n\r\n")
        lowered = head.lower()
        self._chunked = b"transfer-encoding: chunked" in lowered
        at = lowered.find(b"content-length:")
        self._length = int(lowered[at + 15 : lowered.index(b"\r", at)]) if at >= 0 else 0
        return int(head[9:12])

    async def body(self) -> bytes:
        """The whole body."""
        if not self._chunked:
            return await self._reader.readexactly(self._length)
        return b"".join([piece async for piece in self._pieces()])

    async def events(self) -> AsyncIterator[bytes]:
        """The data of each SSE event."""
        rest = b""
        async for piece in self._pieces():
            lines = (rest + piece).split(b"\n")
            rest = lines.pop()
            for line in lines:
                if line.startswith(b"data:"):
                    yield line[5:].strip()

    async def _pieces(self) -> AsyncIterator[bytes]:
        while True:
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            data = await self._reader.readexactly(size + 2)
            if not size:
                return
            yield data[:-2]

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def connect(port: int) -> AsyncGenerator[Connection]:
    """A connection to a server on this machine."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4 * 1024 * 1024)
    try:
        yield Connection(port, reader, writer)
    finally:
        writer.close()


def message(text: str) -> dict[str, Any]:
    """A user's message in a session of its own."""
    return {"message": {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}]}}
