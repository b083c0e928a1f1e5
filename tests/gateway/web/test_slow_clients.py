"""Clients that begin a request, or a stream, and do not go on: none holds what it has for longer than it is given."""

import asyncio
import gc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.gateway.plane import Plane, open_all

from taskplane.gateway.web import protocol

_HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n"
_PROBE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@asynccontextmanager
async def connected(plane: Plane) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to the gateway; what happens on it takes at most 10 s."""
    reader, writer = await asyncio.open_connection("127.0.0.1", plane.gateway.port)
    try:
        async with asyncio.timeout(10):
            yield reader, writer
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("sent", [b"", b"{"])
async def test_a_body_that_does_not_come_is_told_so(tmp_path: Path, sent: bytes) -> None:
    """Whether none of it came or a part, the request is answered when its time is over."""
    async with open_all(tmp_path, body_timeout=0.2) as plane, connected(plane) as (reader, writer):
        writer.write(_HEAD + sent)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        assert head.startswith(b"HTTP/1.1 408 ")
        assert b"BODY_TIMEOUT" in await reader.readexactly(length)


async def test_headers_that_do_not_end_close_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a first request as those of a later one, and a connection that is idle between two stays."""
    monkeypatch.setattr(protocol, "HEADER_TIMEOUT", 0.3)
    async with open_all(tmp_path) as plane:
        async with connected(plane) as (reader, writer):
            writer.write(_PROBE[:20])
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        # Those of the first request may come late, on a busy machine.
        monkeypatch.setattr(protocol, "HEADER_TIMEOUT", 10.0)
        async with connected(plane) as (reader, writer):
            for _ in range(3):
                writer.write(_PROBE)
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200 ")
                await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
                monkeypatch.setattr(protocol, "HEADER_TIMEOUT", 0.3)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.5)
            writer.write(_PROBE[:20])
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)


async def test_a_stream_that_is_left_leaves_nothing_to_the_garbage_collector(tmp_path: Path) -> None:
    """C13: the page that it was at is freed with it, and not at some collection long after."""
    async with open_all(tmp_path) as plane:
        task = await plane.send("flood 3000")
        gc.collect()
        gc.disable()
        try:
            async with connected(plane) as (reader, writer):
                path = f"/api/tasks/{task['id']}/events"
                writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                await reader.readuntil(b"\r\n\r\n")
            await plane.at_zero()
            await plane.at_zero('taskplane_rpc_open_streams{method="/taskplane.api.tasks.v1.TaskStore/WatchTask"}')
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = {type(one).__name__ for one in gc.garbage}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert left.isdisjoint({"WatchTaskResponse", "UnaryStreamCall", "Protocol"}), left
