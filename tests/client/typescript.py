"""Programs in Node that use the client in TypeScript."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from tests.support.node import NO_TYPESCRIPT, NODE, TYPESCRIPT

Json = dict[str, Any]

packages: Final = pytest.mark.skipif(bool(NO_TYPESCRIPT), reason=NO_TYPESCRIPT)
# Of one line: a task with its whole history.
_LONGEST: Final = 64 * 1024 * 1024


@asynccontextmanager
async def program(name: str, *arguments: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Run a program of `clients/typescript/test`, and end it if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *(NODE, f"test/{name}.ts", *arguments),
        cwd=TYPESCRIPT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LONGEST,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def lines(process: asyncio.subprocess.Process) -> AsyncIterator[Any]:
    """Yield what a program prints, until it ends."""
    assert process.stdout is not None
    while line := await process.stdout.readline():
        yield json.loads(line)
    assert await process.wait() == 0


@asynccontextmanager
async def official(**given: Any) -> AsyncGenerator[AsyncIterator[Any]]:
    """Let the official client act, and yield what it prints."""
    async with program("official", json.dumps(given)) as process:
        yield lines(process)


async def acted(**given: Any) -> list[Any]:
    """Let the official client act, and return what it printed."""
    async with asyncio.timeout(60), official(**given) as found:
        return [each async for each in found]


class Calls:
    """The methods of `Sessions`, called by their names."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        self._sent = process.stdin
        self._printed = lines(process)

    async def __call__(self, method: str, *arguments: Any) -> Any:
        """Return the answer of a method; of `watch`, the first change."""
        self._sent.write(f"{json.dumps([method, *arguments])}\n".encode())
        await self._sent.drain()
        async with asyncio.timeout(30):
            return await anext(self._printed)

    async def until(self, change: str) -> Json:
        """Return the next change of this name of a watch; `end`: the watch ended."""
        async with asyncio.timeout(30):
            while (found := await anext(self._printed))["name"] != change:
                assert found["name"] != "end"
        return dict(found)


@asynccontextmanager
async def sessions(url: str) -> AsyncGenerator[Calls]:
    """Yield the sessions of a server."""
    async with program("sessions", url) as process:
        yield Calls(process)
