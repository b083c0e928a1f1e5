"""The workloads of a client, over any binding. Every answer is checked."""

import asyncio
import time
from dataclasses import dataclass

from bench.bindings import COMPLETED, Channel, Target
from bench.lean_http import WrongAnswer

CHUNK = 64


def chunk(index: int, size: int = CHUNK) -> str:
    """The text of one chunk: its number, over and over."""
    mark = f"{index:08d}"
    return (mark * (size // len(mark) + 1))[:size]


async def blocking_sends(target: Target, connections: int, seconds: float, text: str = "hello") -> float:
    """Sends per second; each answer must be the completed task with `text`, which the agent streams word by word."""
    done = 0
    start = time.perf_counter()

    async def worker() -> None:
        nonlocal done
        async with target() as channel:
            while time.perf_counter() - start < seconds:
                await blocking_send(channel, text)
                done += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(worker())
    return done / (time.perf_counter() - start)


async def number_of_sends(target: Target, connections: int, sends: int, text: str = "hello") -> None:
    """Make so many blocking sends, one after the other, on each of the connections."""

    async def worker() -> None:
        async with target() as channel:
            for _ in range(sends):
                await blocking_send(channel, text)

    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(worker())


async def blocking_send(channel: Channel, text: str) -> None:
    """Make one send; its answer must be the completed task with `text`."""
    answer = await channel.send(f"echo {text}")
    if answer != (COMPLETED, [text]):
        raise WrongAnswer(str(answer))


@dataclass(frozen=True)
class Streamed:
    """One measured stream: chunks per second, and seconds to its first event."""

    rate: float
    first: float


async def stream(target: Target, chunks: int) -> Streamed:
    """Streams one `chunks` task; every chunk must arrive once with its bytes, and the end be a completion."""
    async with target() as channel:
        start = time.perf_counter()
        first = 0.0
        seen = 0
        state = ""
        async for piece in channel.stream(f"chunks {chunks} {CHUNK}"):
            first = first or time.perf_counter() - start
            if piece.text is not None:
                if piece.text != chunk(seen):
                    raise WrongAnswer(str(piece))
                seen += 1
            state = piece.state or state
        elapsed = time.perf_counter() - start
        if seen != chunks or state != COMPLETED:
            raise WrongAnswer(f"{seen} of {chunks} chunks, {state}")
        return Streamed(chunks / elapsed, first)


async def streams(target: Target, count: int, chunks: int) -> float:
    """Chunks per second over `count` streams at once."""
    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(stream(target, chunks))
    return count * chunks / (time.perf_counter() - start)


async def first_event(target: Target, repeats: int) -> float:
    """Seconds to the first event of a stream: the median of `repeats`."""
    found = sorted([(await stream(target, 1)).first for _ in range(repeats)])
    return found[len(found) // 2]
