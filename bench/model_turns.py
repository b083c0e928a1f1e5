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

from bench import servers
from bench.lean_http import WrongAnswer, connect, message
from bench.processes import Process
from bench.sharing import Rows, shown

# Turns at once, tokens of each, seconds between two tokens, and whether all turns have them at the same moments.
WORKLOADS: Final = (
    (1, 200, 0.02, False),
    (16, 100, 0.05, False),
    (200, 60, 0.5, False),
    (200, 60, 0.5, True),
)
_TASKPLANE: Final = "taskplane"
_SDK: Final = "SDK in memory"

Start = Callable[[Path, dict[str, str]], AbstractAsyncContextManager[int]]


class Turns:
    """Turns of one server at once. What counts are the tokens of the time in which all of them speak: from the last
    first token to the first last one."""

    def __init__(self, port: int, tokens: int, process: Process) -> None:
        self._port = port
        self._tokens = tokens
        self._process = process
        # When each token was sent, in nanoseconds, and how many of them it took to its client.
        self._taken: list[tuple[int, int]] = []
        self._waiting = 0
        # Times of the clock and of processors at the beginning and the end of what counts.
        self._from: tuple[int, float] = (0, 0.0)
        self._until: tuple[int, float] | None = None

    async def run(self, count: int) -> str:
        """Return the figures of so many turns."""
        begun = time.monotonic_ns()
        self._waiting = count
        await asyncio.gather(*[self._turn() for _ in range(count)])
        assert self._until is not None
        lasted = (self._until[0] - self._from[0]) / 1e9
        taken = [took / 1e6 for sent, took in self._taken if self._from[0] <= sent <= self._until[0]]
        if not taken:
            return "some turns had all their tokens before others had one"
        used = self._until[1] - self._from[1]
        return (
            f"{shown(taken)} of {len(taken):,} tokens; {1_000 * used / len(taken):.2f} ms of a processor for each, "
            f"{100 * used / lasted:.0f} % of one; all spoke after {(self._from[0] - begun) / 1e9:.1f} s"
        )

    async def _turn(self) -> None:
        seen = 0
        async with connect(self._port) as connection:
            assert await connection.post("SendStreamingMessage", message("go")) == 200
            async for data in connection.events():
                now = time.monotonic_ns()
                sent = [int(one) for text in _pieces(orjson.loads(data)["result"]) for one in text.split()]
                self._taken += [(one, now - one) for one in sent]
                if sent and not seen:
                    self._waiting -= 1
                    if not self._waiting:
                        self._from = now, self._process.seconds()
                seen += len(sent)
                if seen == self._tokens and self._until is None:
                    self._until = now, self._process.seconds()
        if seen != self._tokens:
            raise WrongAnswer(f"{seen} tokens of {self._tokens}")


async def measure() -> Rows:
    """Return every row, by what is measured."""
    rows: Rows = {}
    for turns, tokens, interval, together in WORKLOADS:
        pace = f"one each {interval * 1000:.0f} ms" + (", all at the same moments" if together else "")
        behaviour = f"{tokens}x{interval}" + ("-together" if together else "")
        for side, start in ((_TASKPLANE, _taskplane), (_SDK, _sdk)):
            name = f"a token to its client, {turns} turns at once, {pace}, {side}"
            rows[name] = await _measured(start, turns, tokens, behaviour)
            print(f"{name:90} {rows[name]}", flush=True)
    return rows


async def _measured(start: Start, turns: int, tokens: int, behaviour: str) -> str:
    folder = Path(tempfile.mkdtemp())
    try:
        async with _model() as model:
            environment = {
                "OPENAI_BASE_URL": f"http://127.0.0.1:{model}/v1",
                "OPENAI_API_KEY": "none",
                "BENCH_MODEL": behaviour,
            }
            async with start(folder, environment) as port:
                process = Process(folder)
                # So that everything is imported.
                await Turns(port, tokens, process).run(1)
                before = process.memory()
                figures = await Turns(port, tokens, process).run(turns)
                peak = process.memory(peak=True)
                async with connect(model) as connection:
                    open_ = await connection.get_json("/open")
        return f"{figures}; {open_['most']} connections to the model at most; {before} MB before, {peak} at most"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _pieces(result: dict[str, Any]) -> Iterator[str]:
    """Yield the pieces of a text that an event has: of a growing text, or of an artifact."""
    update = result.get("artifactUpdate")
    parts: list[dict[str, Any]] = update["artifact"]["parts"] if update is not None else []
    message: dict[str, Any] = result.get("statusUpdate", {}).get("status", {}).get("message", {})
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
