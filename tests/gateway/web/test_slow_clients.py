"""Clients that begin a request or a stream and stall: each has a time limit and releases its resources."""

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
    """Open a connection to the gateway, with a time limit of 10 s."""
    reader, writer = await asyncio.open_connection("127.0.0.1", plane.gateway.port)
    try:
        async with asyncio.timeout(10):
            yield reader, writer
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("sent", [b"", b"{"])
async def test_a_missing_or_partial_body_is_answered_with_408(tmp_path: Path, sent: bytes) -> None:
    """The answer comes at the end of the time limit."""
    async with open_all(tmp_path, body_timeout=0.2) as plane, connected(plane) as (reader, writer):
        writer.write(_HEAD + sent)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        assert head.startswith(b"HTTP/1.1 408 ")
        assert b"BODY_TIMEOUT" in await reader.readexactly(length)


async def test_incomplete_headers_close_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for the first request of a connection and for later ones. An idle connection between two requests
    stays open."""
    monkeypatch.setattr(protocol, "HEADER_TIMEOUT", 0.3)
    async with open_all(tmp_path) as plane:
        async with connected(plane) as (reader, writer):
            writer.write(_PROBE[:20])
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        # On a busy machine the headers of the first request may come late.
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


async def test_an_abandoned_stream_leaves_no_garbage_cycles(tmp_path: Path) -> None:
    """C13: its current page is freed with it, not by a later garbage collection."""
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
