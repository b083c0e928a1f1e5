"""Sends a message and prints each event of its task once, also when it is killed and started again.

Usage: ask.py URL KEY TEXT
"""

import asyncio
import sys
from pathlib import Path

from taskplane.client import Client, Failure, Received


def place(file: Path) -> list[str]:
    """Return the task and the cursor of the last event that was printed; nothing the first time."""
    return file.read_text().split() if file.exists() else []


def show(event: Received, file: Path) -> None:
    """Print an event and keep its place."""
    number = event.cursor.rpartition("-")[2]
    print(*filter(None, [number, event.state, event.text]), flush=True)
    if event.cursor:
        new = file.with_suffix(".new")
        new.write_text(f"{event.task_id} {event.cursor}")
        new.replace(file)


async def ask(url: str, key: str, text: str) -> None:
    """Follow the task of `key`: from its message on, or after the last event that was printed."""
    file = Path(f"{key}.cursor")
    before = place(file)
    async with Client(url) as client:
        async for event in client.resume(*before) if before else client.stream(text, key=key):
            show(event, file)


try:
    asyncio.run(ask(*sys.argv[1:]))
except Failure as failure:
    sys.exit(f"{failure.reason}: {failure.message}")
