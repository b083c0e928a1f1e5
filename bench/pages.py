"""Reading a long session: 10,000 messages in 2,000 tasks, the first read after a start and those that follow."""

import asyncio
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from bench import servers
from bench.lean_http import Connection, WrongAnswer, connect, message
from bench.long_session import repeated

TASKS: Final = 2_000
MESSAGES: Final = 5 * TASKS
WARM: Final = 20
"""Reads of which the median counts."""

PAGE: Final = 100
_SESSION: Final = "long"
# What the long one is made of.
_SMALL: Final = "one"


@dataclass(frozen=True)
class Read:
    """A route, how many things its answer has, and whether they are messages."""

    route: str
    count: int
    of_messages: bool = True

    @property
    def path(self) -> str:
        return f"/api/sessions/{_SESSION}/{self.route}"


READS: Final = (
    Read("messages", PAGE),
    Read(f"task-infos?limit={PAGE}", PAGE, of_messages=False),
    Read(f"effective_history?limit={PAGE}", PAGE),
    Read("task-infos", TASKS, of_messages=False),
    Read("effective_history", MESSAGES),
)


@dataclass(frozen=True)
class Times:
    """Milliseconds: the first read of the session by a process that has read another one, and the median of those that
    follow it."""

    cold: float
    warm: float


Pages = dict[str, Times]


async def measure(starts: int, database_url: str = "") -> Pages:
    """Medians over so many starts for each read. On SQLite files, or on the empty PostgreSQL database that is named."""
    folder = Path(tempfile.mkdtemp())
    where = ("--database-url", database_url) if database_url else ("--data", str(folder))
    try:
        async with servers.started(*where, log=folder / "log") as port:
            await _build(port)
        found: Pages = {}
        for read in READS:
            times: list[Times] = []
            for _ in range(starts):
                async with servers.started(*where, log=folder / "log") as port:
                    times.append(await _times(port, read))
            cold, warm = (statistics.median(getattr(one, name) for one in times) for name in ("cold", "warm"))
            found[read.route] = Times(cold, warm)
            print(f"{read.route:32} {cold:8.1f} ms first, {warm:8.1f} ms then", flush=True)
        return found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _build(port: int) -> None:
    """One real turn, of five messages, then the file of many."""
    begun = time.perf_counter()
    async with connect(port) as connection:
        asked = message("tool")
        asked["message"]["contextId"] = _SMALL
        if await connection.post("SendMessage", asked) != 200:
            raise WrongAnswer("not 200")
        await connection.body()
        exported = await connection.get(f"/api/sessions/{_SMALL}/export")
        lines = await asyncio.to_thread(repeated, exported, TASKS)
        status, answer = await connection.put_up(f"/api/sessions/import?id={_SESSION}", "application/x-ndjson", lines)
        if status != 201:
            raise WrongAnswer(answer.decode())
    print(f"made {MESSAGES:,} messages in {TASKS:,} tasks in {time.perf_counter() - begun:.1f} s", flush=True)


async def _times(port: int, read: Read) -> Times:
    async with connect(port) as connection:
        await connection.get(f"/api/sessions/{_SMALL}/{read.route}")
        taken = [await _time(connection, read) for _ in range(1 + WARM)]
    return Times(taken[0], statistics.median(taken[1:]))


async def _time(connection: Connection, read: Read) -> float:
    begun = time.perf_counter()
    body = await connection.get(read.path)
    taken = time.perf_counter() - begun
    data: Any = orjson.loads(body).get("data")
    count = len(data["messages"] if read.of_messages else data)
    if count != read.count:
        raise WrongAnswer(f"{read.route}: {count} things, not {read.count}")
    return 1_000 * taken
