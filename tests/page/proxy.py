"""Proxies that serve a plane below a path: our own, which forwards bytes unchanged, and nginx."""

import asyncio
import re
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from tests.repo.tree import ROOT
from tests.support.nginx import nginx


@asynccontextmanager
async def below(path: str, url: str) -> AsyncGenerator[str]:
    """The address at which the plane at `url` is served below `path`, which begins with a slash and ends without."""
    behind = urlsplit(url)

    async def relayed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line, _, headers = head.partition(b"\r\n")
        method, target, version = line.split(b" ")
        if not target.startswith(f"{path}/".encode()):
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        there, onward = await asyncio.open_connection(behind.hostname, behind.port)
        try:
            # One connection for each request, so that no other head has to be changed.
            rest = b"\r\n".join(each for each in headers.split(b"\r\n") if not each.lower().startswith(b"connection:"))
            onward.write(b" ".join((method, target.removeprefix(path.encode()), version)) + b"\r\n")
            onward.write(b"Connection: close\r\n" + rest)
            await _first(_copied(reader, onward), _copied(there, writer))
        finally:
            onward.close()

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await relayed(reader, writer)
        writer.close()

    server = await asyncio.start_server(passed, "127.0.0.1", 0)
    try:
        port: int = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}{path}"
    finally:
        server.close()


@asynccontextmanager
async def below_in_nginx(url: str) -> AsyncGenerator[str]:
    """The address at which nginx serves the plane at `url`, with the lines of docs/page.md."""
    [given] = re.findall(r"```nginx\n(location (\S+)/ .*?)```", (ROOT / "docs/page.md").read_text(), re.DOTALL)
    location = given[0].replace("http://127.0.0.1:8080", url)
    assert url in location
    async with nginx(location) as address:
        yield address + given[1]


async def _first(*copies: Coroutine[Any, Any, None]) -> None:
    """Copies both ways until one side is done."""
    tasks = [asyncio.create_task(copy) for copy in copies]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
