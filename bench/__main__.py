"""`make bench`: taskplane and the SDK's server in alternating runs, and reads of a long session; prints the figures and
writes docs/benchmarks.md.

python -m bench [--runs 5] [--seconds 4] [--quick] [--no-write] [--only pages [--database-url URL]]
python -m bench --only sharing: one user beside others
python -m bench --only turns: turns with a language model
python -m bench --only sends: the steps of a blocking send, counted; writes nothing
python -m bench --only million --database-url URL: a million tasks on this empty PostgreSQL database
python -m bench --only replicas --database-url URL: two task stores on this empty PostgreSQL database
python -m bench --before PYTHON [--runs 5]: another version of taskplane in place of the SDK, by its interpreter
"""

import argparse
import asyncio
import math
import os
import platform
import sqlite3
import statistics
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from bench import load, million, model_turns, pages, replicas, sends, servers, sharing
from bench.bindings import Target, jsonrpc, over_grpc, rest
from bench.lean_http import connect
from bench.report import (
    FOUR,
    MEMORY,
    ONE,
    SQLITE,
    Figures,
    version_table,
    write,
    write_pages,
    write_sharing,
    write_turns,
)

TEN_WORDS = "a reply of ten words is still a short one"
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
# A server on a port for gRPC; its HTTP port.
Sides = dict[str, Callable[[int], AbstractAsyncContextManager[int]]]
SIDES: Sides = {
    ONE: lambda grpc_port: servers.one_process(grpc_port=grpc_port),
    FOUR: lambda grpc_port: servers.four_processes(grpc_port=grpc_port),
    MEMORY: lambda grpc_port: servers.peer("memory", grpc_port),
    SQLITE: lambda grpc_port: servers.peer("sqlite", grpc_port),
}


Workloads = dict[str, Callable[[Target], Awaitable[float]]]


def workloads(seconds: float, sqlite: bool) -> Workloads:
    """What is measured over each binding, by name; higher is better but for the time to the first event
    (milliseconds)."""
    chunks = 1_000 if sqlite else 4_000

    async def one_stream(target: Target) -> float:
        return (await load.stream(target, chunks)).rate

    async def first(target: Target) -> float:
        return 1_000 * await load.first_event(target, 25)

    return {
        "sends/s, 16 connections": lambda target: load.blocking_sends(target, 16, seconds),
        "sends/s, 1 connection": lambda target: load.blocking_sends(target, 1, seconds),
        "chunks/s, one stream of 4,000": one_stream,
        "chunks/s, 16 streams of 500": lambda target: load.streams(target, 16, 100 if sqlite else 500),
        "ms to the first event": first,
    }


def longer(seconds: float) -> Workloads:
    """What is measured over JSON-RPC alone."""
    return {
        "sends/s, 16 connections, ten words": lambda target: load.blocking_sends(target, 16, seconds, TEN_WORDS),
        "sends/s, 1 connection, ten words": lambda target: load.blocking_sends(target, 1, seconds, TEN_WORDS),
    }


def versions(python: str) -> Sides:
    """The sides of a comparison with the version of taskplane that `python` has."""
    return {
        ONE: SIDES[ONE],
        f"before, {ONE}": lambda _: servers.one_process(python=python),
        FOUR: SIDES[FOUR],
        f"before, {FOUR}": lambda _: servers.four_processes(python=python),
    }


async def measure(runs: int, seconds: float, sides: Sides, *, every_binding: bool = True) -> Figures:
    """Medians of `runs` alternating runs of every workload on every side, each warmed; with JSON-RPC alone unless
    `every_binding`."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in range(runs):
        for side, server in sides.items():
            async with server(grpc_port := servers.free_port()) as port:
                targets = {"": jsonrpc(port)}
                if every_binding:
                    targets |= {", over REST": rest(port), ", over gRPC": over_grpc(grpc_port)}
                for binding, target in targets.items():
                    await _warmed(target)
                    each = workloads(seconds, "SQLite" in side) | ({} if binding else longer(seconds))
                    for name, workload in each.items():
                        try:
                            value = await workload(target)
                        except Exception:
                            # The peer's store gives up on a slow disk ("database is locked"); its other figures count.
                            if not side.startswith("SDK"):
                                raise
                            value = math.nan
                        found[f"{name}{binding}"][side].append(value)
                        print(f"run {run + 1}/{runs}  {side:28} {name + binding:44} {value:10,.1f}", flush=True)
    return {name: {side: _median(all_) for side, all_ in by.items()} for name, by in found.items()}


async def _warmed(target: Target) -> None:
    # One first: the SDK's store makes its tables on the first request, and again on one that comes beside.
    await load.blocking_sends(target, 1, 0.3)
    await load.blocking_sends(target, 16, 1.0)
    await load.stream(target, 200)


def _median(values: list[float]) -> float:
    """Return the median of the runs that did not fail; NaN if all failed."""
    measured = [value for value in values if not math.isnan(value)]
    return statistics.median(measured) if measured else math.nan


async def bytes_per_event() -> dict[str, dict[int, float]]:
    """SQL bytes bound per chunk, by side and number of chunks; a warm-up stream is not counted."""
    found: dict[str, dict[int, float]] = {"taskplane": {}, "SDK on SQLite": {}}
    counting = servers.free_port()
    async with servers.one_process(counting) as port:
        for chunks in (250, 1_000, 4_000):
            found["taskplane"][chunks] = await _bytes(port, counting, "/", chunks)
    async with servers.peer("sqlite") as port:
        for chunks in (250, 1_000):
            found["SDK on SQLite"][chunks] = await _bytes(port, port, "/bench/bytes", chunks)
    return found


async def _bytes(port: int, counter: int, path: str, chunks: int) -> float:
    async def total() -> int:
        async with connect(counter) as connection:
            return int((await connection.get_json(path))["bytes"])

    before = await total()
    await load.stream(jsonrpc(port), chunks)
    return (await total() - before) / chunks


def main() -> None:
    """Runs everything and reports."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="alternating runs; the median counts")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of each closed-loop measurement")
    parser.add_argument("--quick", action="store_true", help="one short run")
    parser.add_argument("--no-write", action="store_true", help="leave docs/benchmarks.md as it is")
    parser.add_argument(
        "--only",
        choices=["pages", "sharing", "turns", "million", "replicas", "sends"],
        help="measure this alone, and leave the rest of the page",
    )
    parser.add_argument(
        "--database-url", default="", help="read the pages from this PostgreSQL database; writes nothing"
    )
    parser.add_argument(
        "--before", default="", help="the interpreter of another version to compare with; writes nothing"
    )
    options = parser.parse_args()
    runs, seconds = (1, 1.5) if options.quick else (options.runs, options.seconds)
    target = None if options.no_write or options.database_url else PAGE
    if options.only == "million":
        asyncio.run(million.measure(options.database_url))
        return
    if options.only == "sends":
        asyncio.run(sends.show())
        return
    if options.only == "replicas":
        asyncio.run(replicas.measure(options.database_url, seconds))
        return
    if options.only == "sharing":
        write_sharing(asyncio.run(sharing.measure()), _here(), target)
        return
    if options.only == "turns":
        write_turns(asyncio.run(model_turns.measure()), _here(), target)
        return
    if options.only == "pages" or options.database_url:
        write_pages(asyncio.run(pages.measure(runs, options.database_url)), _here(), target)
        return
    if options.before:
        print(
            "\n".join(version_table(asyncio.run(measure(runs, seconds, versions(options.before), every_binding=False))))
        )
        return
    durability = asyncio.run(servers.durability())
    print("\n".join(durability), flush=True)
    figures = asyncio.run(measure(runs, seconds, SIDES))
    sizes = asyncio.run(bytes_per_event())
    setting = f"{_here()}, median of {runs} alternating runs; " + "; ".join(durability)
    write(figures, sizes, setting, target)
    write_pages(asyncio.run(pages.measure(runs)), _here(), target)
    write_sharing(asyncio.run(sharing.measure()), _here(), target)
    write_turns(asyncio.run(model_turns.measure()), _here(), target)


def _here() -> str:
    return f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {os.cpu_count()} cores"


if __name__ == "__main__":
    main()
