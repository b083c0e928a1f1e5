"""One user beside others: a long queue, long logs that are read or not, a long session, and large imports."""

import asyncio
import hashlib
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx

from bench import servers
from bench.processes import Process

QUEUED: Final = 10_000
EVENTS: Final = 49_000
TURNS: Final = 2_000
HELLOS: Final = 60
_MEGABYTES: Final = 50
_STALLED: Final = 200
# So few runs at once that the queue grows while it is filled.
_SETTINGS: Final = {
    "TASKPLANE_TASKS_QUEUED_PER_OWNER": "0",
    "TASKPLANE_TASKS_QUEUED_PER_TENANT": "0",
    "TASKPLANE_EXECUTOR_CAPACITY": "20",
    "TASKPLANE_GATEWAY_MAX_STREAMS_PER_PRINCIPAL": "1000",
}

_DIGEST: Final = hashlib.sha256(b"secret").hexdigest()
_KEYS: Final = [
    f'[[keys]]\nid = "{user}"\nsha256 = "{_DIGEST}"\nowner = "{user}"\ntenant = "{tenant}"'
    for user, tenant in (("ann", "one"), ("bob", "one"), ("eve", "other"))
]

Rows = dict[str, str]


async def measure() -> Rows:
    """Every row, by what is measured."""
    rows: Rows = {}
    for part in (_queue, _long_tasks, _readers, _turns, _imports, _stalled):
        for name, value in (await part()).items():
            rows[name] = value
            print(f"{name:70} {value}", flush=True)
    return rows


@asynccontextmanager
async def _plane(**settings: str) -> AsyncGenerator[tuple[httpx.AsyncClient, Path]]:
    folder = Path(tempfile.mkdtemp())
    keys = folder / "keys.toml"
    keys.write_text("\n".join(_KEYS))
    environment = {**_SETTINGS, **{name: value.format(keys=keys) for name, value in settings.items()}}
    try:
        async with (
            servers.started("--data", str(folder), log=folder / "log", environment=environment) as port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=600.0) as http,
        ):
            yield http, folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _send(http: httpx.AsyncClient, user: str, text: str, context: str = "", *, wait: bool = True) -> Any:
    message = {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}]}
    if context:
        message["contextId"] = context
    params = {"message": message, "configuration": {"returnImmediately": not wait, "historyLength": 0}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    names = {"X-User-Id": user, "X-API-Key": f"{user}.secret"}
    reply = await http.post("/", json=body, headers={"A2A-Version": "1.0", **names})
    return reply.json()["result"]["task"]


async def _times(call: Callable[[], Awaitable[object]], count: int) -> list[float]:
    """Milliseconds of so many calls, one after the other."""
    taken: list[float] = []
    for _ in range(count):
        begun = time.perf_counter()
        await call()
        taken.append(1_000 * (time.perf_counter() - begun))
    return taken


async def _queue() -> Rows:
    async with _plane() as (http, _):
        many = asyncio.Semaphore(16)

        async def queue() -> None:
            async with many:
                await _send(http, "ann", "slow 2", wait=False)

        alone = await _times(lambda: _send(http, "bob", "hello"), HELLOS)
        await asyncio.gather(*[queue() for _ in range(QUEUED)])
        beside = await _times(lambda: _send(http, "bob", "hello"), HELLOS)
    return {
        "`hello`, nobody else waits": shown(alone),
        f"`hello` of one user, {QUEUED:,} tasks of another one queued, of half a second each": shown(beside),
    }


async def _long_tasks() -> Rows:
    """About one of the tasks at work ends each second, and the next one of the queue begins."""
    name = "TASKPLANE_GATEWAY_API_KEYS"
    async with _plane(**{name: "{keys}", "TASKPLANE_EXECUTOR_CAPACITY": "100"}) as (http, _):
        many = asyncio.Semaphore(16)

        async def queue() -> None:
            async with many:
                await _send(http, "ann", "slow 240", wait=False)

        await asyncio.gather(*[queue() for _ in range(QUEUED)])
        within = await _times(lambda: _send(http, "bob", "hello"), 3 * HELLOS)
        across = await _times(lambda: _send(http, "eve", "hello"), 3 * HELLOS)
    beside = f"beside {QUEUED:,} tasks of 60 s of another owner, of which 75 run at once"
    return {
        f"`hello` {beside}, in the same tenant": shown(within),
        f"`hello` {beside}, in another tenant": shown(across),
    }


async def _readers() -> Rows:
    rows: Rows = {}
    async with _plane() as (http, _):
        task = await _send(http, "ann", f"flood {EVENTS}")
        path = f"/api/tasks/{task['id']}/events"
        for readers in (0, 1, 10):
            async with servers.reading(http.base_url.port or 0, path, readers):
                await asyncio.sleep(1.0)
                hellos = await _times(lambda: _send(http, "bob", "hello"), HELLOS)
            rows[f"`hello` beside {readers} readers of a log of {EVENTS:,} events"] = shown(hellos)
    return rows


async def _turns() -> Rows:
    async with _plane() as (http, _):
        taken = await _times(lambda: _send(http, "ann", "hello", "session"), TURNS)
    return {f"a turn of one session, turns {at - 99:,} to {at:,}": shown(taken[at - 100 : at]) for at in (110, TURNS)}


async def _imports() -> Rows:
    async with _plane() as (http, folder):
        await _send(http, "ann", f"chunks {_MEGABYTES} {1024 * 1024}", "large")
        headers = {"X-User-Id": "ann"}
        body = (await http.get("/api/sessions/large/export", headers=headers)).content
        process = Process(folder)
        before = process.memory()
        headers |= {"content-type": "application/x-ndjson"}
        answers = await asyncio.gather(
            *[http.post(f"/api/sessions/import?id={uuid4().hex}", content=body, headers=headers) for _ in range(6)]
        )
        done = sum(answer.status_code == 201 for answer in answers)
        peak = process.memory(peak=True)
        await asyncio.sleep(2.0)
        after = process.memory()
    name = f"memory, six imports of a task of {_MEGABYTES} MB at once"
    return {name: f"{before} MB before, {peak} at most, {after} after; {done} imported, {6 - done} told to come again"}


async def _stalled() -> Rows:
    async with _plane() as (http, folder):
        task = await _send(http, "ann", f"flood {EVENTS}")
        head = f"GET /api/tasks/{task['id']}/events HTTP/1.1\r\nHost: localhost\r\nX-User-Id: ann\r\n\r\n".encode()

        async def stall() -> asyncio.StreamWriter:
            # Reading stops at the limit.
            reader, writer = await asyncio.open_connection("127.0.0.1", http.base_url.port, limit=1024)
            writer.write(head)
            await reader.readuntil(b"\r\n\r\n")
            return writer

        process = Process(folder)
        before = process.memory()
        writers = await asyncio.gather(*[stall() for _ in range(_STALLED)])
        await asyncio.sleep(10.0)
        during = process.memory()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(2.0)
        after = process.memory()
    name = f"memory, {_STALLED} readers of a log of {EVENTS:,} events that do not read"
    return {name: f"{before} MB before, {during} while they stay, {after} after"}


def shown(taken: list[float]) -> str:
    ordered = sorted(taken)
    return f"p50 {statistics.median(ordered):.1f} ms, p99 {ordered[int(0.99 * (len(ordered) - 1))]:.1f} ms"
