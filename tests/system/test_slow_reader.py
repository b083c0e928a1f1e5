"""A slow reader gets every event, costs no memory, and delays no other client."""

import asyncio
import time
from pathlib import Path

import pytest
from tests.support.thorough import THOROUGH
from tests.system.plane import STEADY, running
from tests.system.wire import client, send, stream, text_message

pytestmark = pytest.mark.more

# Seconds between two sends of another client: many, but below the capacity of the machine.
PAUSE = 0.0 if THOROUGH else 0.1
CHUNKS = 3000 if THOROUGH else 500


def resident_bytes(pid: int) -> int:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


async def test_a_reader_that_takes_ten_milliseconds_per_event_gets_all_events(tmp_path: Path) -> None:
    """C13, W8: meanwhile other clients are served, and the gateway does not grow."""
    numbers: list[int] = []
    sizes: list[int] = []
    done = asyncio.Event()
    async with running("four", tmp_path, STEADY) as plane, client(plane.url) as http:
        gateway = plane.processes["gateway"].pid

        async def others() -> None:
            async with client(plane.url) as other:
                while not done.is_set():
                    await send(other, "echo meanwhile")
                    sizes.append(resident_bytes(gateway))
                    await asyncio.sleep(PAUSE)

        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(others())
            began = time.monotonic()
            async with stream(http, "SendStreamingMessage", {"message": text_message(f"chunks {CHUNKS} 64")}) as events:
                async for event in events:
                    numbers.append(event.generation)
                    await asyncio.sleep(0.01)
            done.set()
            elapsed = time.monotonic() - began
        await plane.stop()
    assert numbers == list(range(1, CHUNKS + 4))
    half = len(sizes) // 2
    growth = max(sizes[half:]) - max(sizes[:half])
    print(f"{len(numbers)} events in {elapsed:.0f} s, {len(sizes)} sends meanwhile, growth {growth / 1e6:.1f} MB")
    assert len(sizes) > CHUNKS / 30
    assert growth < 8e6
