"""What one blocking send costs in steps: Python calls by layer, SQL statements, commits, hand-overs between threads."""

import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from bench import load, servers
from bench.bindings import Binding, jsonrpc, over_grpc, rest
from bench.calls import HANDED_OVER
from bench.lean_http import connect

_SENDS = 25
_FUNCTIONS = 25
_OWN = ("services/taskplane/", "gateway/taskplane/")


@dataclass(frozen=True)
class Cost:
    """Steps of one send, on average."""

    calls: Counter[str]
    """Python calls by `file:line:function`."""
    statements: Counter[str]
    handed_over: float


async def measure(connections: int, sends: int = _SENDS, binding: Binding = jsonrpc) -> Cost:
    """Count `sends` blocking sends on each of so many connections."""
    async with counted() as (port, grpc_port, counting):
        target = binding(grpc_port if binding is over_grpc else port)
        await load.number_of_sends(target, connections, 10)
        before = await _read(counting)
        await load.number_of_sends(target, connections, sends)
        after = await _read(counting)
    count = connections * sends
    own = str(Path(__file__).parent)
    calls = Counter({name: n / count for name, n in (after[0] - before[0]).items() if not name.startswith(own)})
    handed_over = calls.pop(HANDED_OVER, 0)
    return Cost(calls, Counter({name: n / count for name, n in (after[1] - before[1]).items()}), handed_over)


@asynccontextmanager
async def counted() -> AsyncGenerator[tuple[int, int, int], None]:
    """Run `taskplane dev` on SQLite files with its calls counted; its ports of HTTP and of gRPC, and the port that
    tells the calls."""
    folder = Path(tempfile.mkdtemp())
    counting, grpc_port = servers.free_port(), servers.free_port()
    try:
        program = ("-m", "bench.counted", str(counting))
        async with servers.started(
            "--data",
            str(folder),
            program=program,
            environment={"BENCH_CALLS": "1"},
            log=folder / "log",
            grpc_port=grpc_port,
        ) as port:
            yield port, grpc_port, counting
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _read(counting: int) -> tuple[Counter[str], Counter[str]]:
    async with connect(counting) as connection:
        found = await connection.get_json("/calls")
    return Counter(found["calls"]), Counter(found["statements"])


def layers(calls: Counter[str]) -> Counter[str]:
    """Sum calls up by layer: a package of the project, or a library."""
    found: Counter[str] = Counter()
    for name, count in calls.items():
        found[_layer(name.rpartition(":")[0].rpartition(":")[0])] += count
    return found


def _layer(file: str) -> str:
    for own in _OWN:
        if own in file:
            rest = file.partition(own)[2].split("/")
            return "/".join(
                rest[:2] if rest[0] in ("runtime", "tasks", "executor", "sessions", "storage") else rest[:1]
            )
    if "/site-packages/" in file:
        return file.partition("/site-packages/")[2].split("/")[0].removesuffix(".py")
    path = Path(file)
    return (
        path.parent.name
        if path.stem == "__init__" or path.parent.name in ("asyncio", "concurrent", "futures")
        else path.stem
    )


def report(connections: int, cost: Cost, binding: Binding = jsonrpc) -> str:
    """Put the steps of a send in lines."""
    lines = [f"{binding.__name__}, {connections} connections: {sum(cost.calls.values()):,.0f} Python calls per send"]
    lines += [f"  {layer:40} {count:8.1f}" for layer, count in layers(cost.calls).most_common() if count >= 0.5]
    lines += [f"  statement {word:30} {count:8.2f}" for word, count in cost.statements.most_common()]
    lines += [f"  {'handed over to a thread':40} {cost.handed_over:8.2f}"]
    return "\n".join(lines)


async def show() -> None:
    """Count over each binding, with 16 connections and with one; print the layers and the functions called most."""
    root = f"{Path(__file__).parent.parent}/"
    for binding, connections in product((jsonrpc, rest, over_grpc), (16, 1)):
        cost = await measure(connections, _SENDS if connections > 1 else 4 * _SENDS, binding)
        print(report(connections, cost, binding))
        for name, count in cost.calls.most_common(_FUNCTIONS):
            print(f"    {count:8.2f} {name.removeprefix(root).rpartition('site-packages/')[2]}", flush=True)
