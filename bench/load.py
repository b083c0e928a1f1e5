"""A lean HTTP/1.1 client on plain sockets, so that the servers are the bottleneck. Every answer is checked."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import orjson

CHUNK = 64


def chunk(index: int, size: int = CHUNK) -> str:
    """The text of one chunk: its number, over and over."""
    mark = f"{index:08d}"
    return (mark * (size // len(mark) + 1))[:size]


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
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        self._writer.write(
            b"POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n"
            b"A2A-Extensions: https://taskplane.dev/extensions/growing-text/v1\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (self._host, len(body), body)
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


async def blocking_sends(port: int, connections: int, seconds: float, text: str = "hello") -> float:
    """Sends per second; each answer must be the completed task with `text`, which the agent streams word by word."""
    done = 0
    start = time.perf_counter()

    async def worker() -> None:
        nonlocal done
        async with connect(port) as connection:
            while time.perf_counter() - start < seconds:
                await blocking_send(connection, text)
                done += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(worker())
    return done / (time.perf_counter() - start)


async def number_of_sends(port: int, connections: int, sends: int, text: str = "hello") -> None:
    """Make so many blocking sends, one after the other, on each of the connections."""

    async def worker() -> None:
        async with connect(port) as connection:
            for _ in range(sends):
                await blocking_send(connection, text)

    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(worker())


async def blocking_send(connection: Connection, text: str) -> None:
    """Make one send; its answer must be the completed task with `text`."""
    status = await connection.post("SendMessage", message(f"echo {text}"))
    task = orjson.loads(await connection.body()).get("result", {}).get("task", {})
    told = task.get("status", {})
    texts = [part.get("text") for part in told.get("message", {}).get("parts", [])]
    if status != 200 or told.get("state") != "TASK_STATE_COMPLETED" or texts != [text]:
        raise WrongAnswer(f"{status} {task}")


@dataclass(frozen=True)
class Streamed:
    """One measured stream: chunks per second, and seconds to its first event."""

    rate: float
    first: float


async def stream(port: int, chunks: int) -> Streamed:
    """Streams one `chunks` task; every chunk must arrive once with its bytes, and the end be a completion."""
    async with connect(port) as connection:
        start = time.perf_counter()
        first = 0.0
        seen = 0
        state = ""
        if await connection.post("SendStreamingMessage", message(f"chunks {chunks} {CHUNK}")) != 200:
            raise WrongAnswer("not 200")
        async for data in connection.events():
            first = first or time.perf_counter() - start
            result = orjson.loads(data)["result"]
            if update := result.get("artifactUpdate"):
                if update["artifact"]["parts"][0]["text"] != chunk(seen):
                    raise WrongAnswer(str(update))
                seen += 1
            elif status := result.get("statusUpdate"):
                state = status["status"]["state"]
        elapsed = time.perf_counter() - start
        if seen != chunks or state != "TASK_STATE_COMPLETED":
            raise WrongAnswer(f"{seen} of {chunks} chunks, {state}")
        return Streamed(chunks / elapsed, first)


async def streams(port: int, count: int, chunks: int) -> float:
    """Chunks per second over `count` streams at once."""
    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(stream(port, chunks))
    return count * chunks / (time.perf_counter() - start)


async def first_event(port: int, repeats: int) -> float:
    """Seconds to the first event of a stream: the median of `repeats`."""
    found = sorted([(await stream(port, 1)).first for _ in range(repeats)])
    return found[len(found) // 2]
