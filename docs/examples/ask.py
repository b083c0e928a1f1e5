"""Sends a message and prints each event of its task once, also when it is killed and started again.

It ends when the task has ended or waits for the user.

Usage: ask.py URL KEY TEXT
"""

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path

from taskplane.client import AT_REST, Client, Failure, Received


def place(file: Path) -> list[str]:
    """Return the task, cursor and state of the last event that was printed; empty the first time."""
    return file.read_text().split(" ") if file.exists() else ["", "", ""]


def show(event: Received, file: Path) -> None:
    """Print an event and keep its place."""
    number = event.cursor.rpartition("-")[2]
    print(*filter(None, [number, event.state, event.text]), flush=True)
    if event.cursor:
        new = file.with_suffix(".new")
        new.write_text(f"{event.task_id} {event.cursor} {event.state or ''}")
        new.replace(file)


async def ask(url: str, key: str, text: str) -> None:
    """Follow the task of `key`: from its message on, or after the last event that was printed."""
    file = Path(f"{key}.cursor")
    task_id, cursor, state = place(file)
    if state in AT_REST:
        return
    async with Client(url) as client:
        events = client.resume(task_id, cursor) if task_id else client.stream(text, key=key)
        async with aclosing(events):
            async for event in events:
                show(event, file)
                if event.state in AT_REST:
                    break


try:
    asyncio.run(ask(*sys.argv[1:]))
except Failure as failure:
    sys.exit(f"{failure.reason}: {failure.message}")
