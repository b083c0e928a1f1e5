"""Turns of an agent with a language model behind it: how long a token takes from the model to the client."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import orjson

from bench import load, servers
from bench.sharing import Rows, memory, shown

# Turns at once, tokens of each, and seconds between two tokens.
WORKLOADS: Final = ((1, 200, 0.02), (16, 100, 0.05), (200, 40, 0.5))
_TASKPLANE: Final = "taskplane"
_SDK: Final = "SDK in memory"

Start = Callable[[Path, dict[str, str]], AbstractAsyncContextManager[int]]


async def measure() -> Rows:
    """Return every row, by what is measured."""
    rows: Rows = {}
    for turns, tokens, interval in WORKLOADS:
        for side, start in ((_TASKPLANE, _taskplane), (_SDK, _sdk)):
            name = f"a token to its client, {turns} turns at once, one each {interval * 1000:.0f} ms, {side}"
            rows[name] = await _measured(start, turns, tokens, interval)
            print(f"{name:90} {rows[name]}", flush=True)
    return rows


async def _measured(start: Start, turns: int, tokens: int, interval: float) -> str:
    folder = Path(tempfile.mkdtemp())
    try:
        async with _model() as model:
            environment = {
                "OPENAI_BASE_URL": f"http://127.0.0.1:{model}/v1",
                "OPENAI_API_KEY": "none",
                "BENCH_MODEL": f"{tokens}x{interval}",
            }
            async with start(folder, environment) as port:
                await _turn(port, tokens)
                before = await asyncio.to_thread(memory, folder)
                begun = time.perf_counter()
                taken = [
                    one for turn in await asyncio.gather(*[_turn(port, tokens) for _ in range(turns)]) for one in turn
                ]
                lasted = time.perf_counter() - begun
                after = await asyncio.to_thread(memory, folder)
                async with load.connect(model) as connection:
                    open_ = await connection.get_json("/open")
        connections = f"{open_['most']} connections to the model at most, {open_['now'] - 1} left"
        figures = f"{shown(taken)}, all after {lasted:.1f} s; {connections}"
        return figures + (f"; {before} MB before, {after} after" if before else "")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _turn(port: int, tokens: int) -> list[float]:
    """Return the milliseconds that each token of one turn took."""
    taken: list[float] = []
    async with load.connect(port) as connection:
        assert await connection.post("SendStreamingMessage", load.message("go")) == 200
        async for data in connection.events():
            now = time.monotonic_ns()
            for text in _pieces(orjson.loads(data)["result"]):
                taken += [(now - int(token)) / 1_000_000 for token in text.split()]
    if len(taken) != tokens:
        raise load.WrongAnswer(f"{len(taken)} tokens of {tokens}")
    return taken


def _pieces(result: dict[str, Any]) -> Iterator[str]:
    """Yield the pieces of a text that an event has: of a growing text, or of an artifact."""
    update = result.get("artifactUpdate")
    parts = update["artifact"]["parts"] if update is not None else []
    message = result.get("statusUpdate", {}).get("status", {}).get("message", {})
    if message.get("metadata", {}).get("kagent_adk_partial"):
        parts = message["parts"]
    for part in parts:
        yield part.get("text", "")


@asynccontextmanager
async def _model() -> AsyncGenerator[int]:
    async with servers.program("bench.model") as port:
        await servers.answering(port, "/open")
        yield port


def _taskplane(folder: Path, environment: dict[str, str]) -> AbstractAsyncContextManager[int]:
    settings = {"TASKPLANE_EXECUTOR_CAPACITY": "256", "TASKPLANE_GATEWAY_MAX_STREAMS_PER_PRINCIPAL": "1000"}
    return servers.started(
        "--data",
        str(folder),
        "--agent",
        "bench.model_agent:agent",
        log=folder / "log",
        environment=environment | settings,
    )


@asynccontextmanager
async def _sdk(folder: Path, environment: dict[str, str]) -> AsyncGenerator[int]:
    async with servers.program("bench.model_peer", "memory", str(folder), environment=environment) as port:
        await servers.answering(port, "/.well-known/agent-card.json")
        yield port
