"""A slow reader gets everything, costs no memory, and slows nobody down."""

import asyncio
import time
from pathlib import Path

import pytest
from tests.system.plane import Plane
from tests.system.wire import client, send, stream, text_message

pytestmark = pytest.mark.asyncio(loop_scope="module")


def resident_bytes(pid: int) -> int:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


async def test_a_reader_of_ten_milliseconds_an_event_gets_all_of_3000(plane: Plane) -> None:
    """C13: `chunks 3000 64`, while others are served and the process does not grow."""
    process = plane.processes["dev"].pid
    numbers: list[int] = []
    served = 0
    sizes: list[int] = []
    done = asyncio.Event()

    async def others() -> None:
        nonlocal served
        async with client(plane.url) as http:
            while not done.is_set():
                await send(http, "echo meanwhile")
                served += 1
                sizes.append(resident_bytes(process))
                # At a measured pace: what is kept of the newest tasks grows until it is full, whoever reads.
                await asyncio.sleep(0.05)

    async with client(plane.url) as http, asyncio.TaskGroup() as group:
        group.create_task(others())
        began = time.monotonic()
        async with stream(http, "SendStreamingMessage", {"message": text_message("chunks 3000 64")}) as events:
            async for event in events:
                numbers.append(event.generation)
                await asyncio.sleep(0.01)
        done.set()
        elapsed = time.monotonic() - began
    assert numbers == list(range(1, 3004))
    half = len(sizes) // 2
    growth = max(sizes[half:]) - max(sizes[:half])
    print(f"{len(numbers)} events in {elapsed:.0f} s, {served} sends meanwhile, growth {growth / 1e6:.1f} MB")
    assert served > 100
    assert growth < 32e6
