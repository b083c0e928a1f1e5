"""Programs in Node that use the client in TypeScript, and the official client in JavaScript."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

import pytest
from tests.support.node import NO_TYPESCRIPT, NODE, TYPESCRIPT

Json = dict[str, Any]

packages: Final = pytest.mark.skipif(bool(NO_TYPESCRIPT), reason=NO_TYPESCRIPT)
# Of one line: a task with its whole history.
_LONGEST: Final = 64 * 1024 * 1024


class Program:
    """A program of `clients/typescript/test`, which reads and prints lines of JSON."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._sent, self._printed = process.stdin, process.stdout

    async def say(self, line: Any) -> None:
        """Send a line."""
        self._sent.write(f"{json.dumps(line)}\n".encode())
        await self._sent.drain()

    async def hear(self) -> Any:
        """Return the next line."""
        async with asyncio.timeout(60):
            line = await self._printed.readline()
        assert line, "the program has ended"
        return json.loads(line)


class Official(Program):
    """The official client of A2A. Its acts are those of `clients/typescript/test/official.ts`."""

    async def act(self, act: str, **given: Any) -> AsyncGenerator[Any]:
        """Yield the events or the answer of an act; the last one is its failure, if it fails."""
        await self.say({"act": act, **given})
        while True:
            heard = await self.hear()
            if heard == {"ended": act}:
                return
            yield heard
            if "failed" in heard:
                return

    async def acted(self, act: str, **given: Any) -> list[Any]:
        """Return what an act yields."""
        return [each async for each in self.act(act, **given)]


class Calls(Program):
    """The methods of `Sessions`, called by their names."""

    async def __call__(self, method: str, *arguments: Any) -> Any:
        """Return the answer of a method; of `watch`, the first change."""
        await self.say([method, *arguments])
        return await self.hear()

    async def until(self, change: str) -> Json:
        """Return the next change of this name of a watch; `end`: the watch ended."""
        while (found := await self.hear())["name"] != change:
            assert found["name"] != "end"
        return dict(found)


@asynccontextmanager
async def _running(name: str, argument: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(NODE, f"test/{name}.ts", argument),
        cwd=TYPESCRIPT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LONGEST,
    )
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def official(**given: Any) -> AsyncGenerator[Official]:
    """Run the official client of a version over a binding."""
    async with _running("official", json.dumps(given)) as process:
        yield Official(process)


async def acted(act: str, where: Json, **given: Any) -> list[Any]:
    """Let the official client act once, and return what it printed."""
    async with official(**where) as client:
        return await client.acted(act, **given)


@asynccontextmanager
async def acting(act: str, where: Json, **given: Any) -> AsyncGenerator[AsyncGenerator[Any]]:
    """Let the official client act once, and yield what it prints."""
    async with official(**where) as client, aclosing(client.act(act, **given)) as printed:
        yield printed


@asynccontextmanager
async def sessions(url: str) -> AsyncGenerator[Calls]:
    """Yield the sessions of a server."""
    async with _running("sessions", url) as process:
        yield Calls(process)
