"""Two task stores on one PostgreSQL database: the gateway at one and the executor at the other, or both at one.

What one store commits the other hears by a notification. Measured are the time from an event's commit to its arrival at
a client, the time from a cancel to the end of the run, and blocking sends.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from itertools import chain
from typing import Any, Final
from uuid import uuid4

import httpx
import orjson

from bench import load, servers
from bench.bindings import jsonrpc
from bench.lean_http import WrongAnswer

STREAMS: Final = 4
CANCELS: Final = 20


@asynccontextmanager
async def plane(database_url: str, *, apart: bool) -> AsyncGenerator[tuple[int, str]]:
    """Start two task stores and one of each other process; yield the gateway's port and the executor's HTTP address."""
    one, other, sessions, executor, ops, gateway = (servers.free_port() for _ in range(6))
    environment = {
        "TASKPLANE_TASKS_DATABASE_URL": database_url,
        "TASKPLANE_TASKS_OPS_LISTEN": "",
        "TASKPLANE_SESSIONS_DATABASE_URL": database_url,
        "TASKPLANE_SESSIONS_OPS_LISTEN": "",
        "TASKPLANE_SESSIONS_LISTEN": f"127.0.0.1:{sessions}",
        "TASKPLANE_EXECUTOR_LISTEN": f"127.0.0.1:{executor}",
        "TASKPLANE_EXECUTOR_OPS_LISTEN": f"127.0.0.1:{ops}",
        "TASKPLANE_EXECUTOR_TASKS": f"127.0.0.1:{one}",
        "TASKPLANE_EXECUTOR_SESSIONS": f"127.0.0.1:{sessions}",
        "TASKPLANE_GATEWAY_PORT": str(gateway),
        "TASKPLANE_GATEWAY_GRPC_PORT": "0",
        "TASKPLANE_GATEWAY_TASKS": f"127.0.0.1:{other if apart else one}",
        "TASKPLANE_GATEWAY_SESSIONS": f"127.0.0.1:{sessions}",
        "TASKPLANE_GATEWAY_EXECUTOR": f"127.0.0.1:{executor}",
    }
    async with AsyncExitStack() as stack:
        for service, port in (("tasks", one), ("tasks", other), ("sessions", 0), ("executor", 0), ("gateway", 0)):
            listen = {"TASKPLANE_TASKS_LISTEN": f"127.0.0.1:{port}"} if port else {}
            await stack.enter_async_context(servers.serving(service, environment | listen))
        await servers.ready(gateway)
        yield gateway, f"http://127.0.0.1:{ops}"


async def measure(database_url: str, seconds: float) -> None:
    """Measure both arrangements, one after the other, and print the figures."""
    for name, apart in (("both at one store", False), ("at different stores", True)):
        async with plane(database_url, apart=apart) as (port, ops), httpx.AsyncClient(verify=False) as http:
            url = f"http://127.0.0.1:{port}"
            await load.blocking_sends(jsonrpc(port), 16, 1.0)
            sends = await load.blocking_sends(jsonrpc(port), 16, seconds)
            late = sorted(chain(*await asyncio.gather(*(_latencies(http, url) for _ in range(STREAMS)))))
            stops = sorted([await _stop(http, url, ops) for _ in range(CANCELS)])
            print(
                f"{name:20} {sends:7.1f} sends/s at 16 connections; an event is seen {statistics.median(late):.1f} ms"
                f" after its commit (p99 {late[int(len(late) * 0.99)]:.1f} ms of {len(late)}); a run ends"
                f" {statistics.median(stops):.0f} ms after its cancel (at most {stops[-1]:.0f} ms of {len(stops)})",
                flush=True,
            )


async def _latencies(http: httpx.AsyncClient, url: str) -> list[float]:
    """Return for each event of a stream the milliseconds since it was committed; the first ones are read later."""
    task = await _begin(http, url, "slow 200")
    found: list[float] = []
    async with http.stream("GET", f"{url}/api/tasks/{task}/events", timeout=60.0) as response:
        async for line in response.aiter_lines():
            if line.startswith("data:"):
                at = datetime.fromisoformat(orjson.loads(line[5:])["time"])
                found.append(1000 * (time.time() - at.timestamp()))
    return found[5:]


async def _stop(http: httpx.AsyncClient, url: str, ops: str) -> float:
    """Return the milliseconds from the answer to a cancel to the moment when nothing runs any more."""
    task = await _begin(http, url, "slow 4000")
    while not await _running(http, ops):
        await asyncio.sleep(0.01)
    await _call(http, url, "CancelTask", {"id": task})
    began = time.perf_counter()
    while await _running(http, ops):
        await asyncio.sleep(0.005)
    return 1000 * (time.perf_counter() - began)


async def _running(http: httpx.AsyncClient, ops: str) -> bool:
    text = (await http.get(f"{ops}/metrics")).text
    return any(line.startswith("taskplane_runs{") and not line.endswith(" 0.0") for line in text.splitlines())


async def _begin(http: httpx.AsyncClient, url: str, words: str) -> str:
    message = {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": [{"text": words}]}
    asked = {"message": message, "configuration": {"returnImmediately": True}}
    return str((await _call(http, url, "SendMessage", asked))["task"]["id"])


async def _call(http: httpx.AsyncClient, url: str, method: str, params: dict[str, Any]) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = (await http.post(url, json=body, headers={"A2A-Version": "1.0"}, timeout=60.0)).json()
    if "result" not in answer:
        raise WrongAnswer(str(answer))
    return answer["result"]
