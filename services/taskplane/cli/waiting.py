"""Tells of a queued task that nothing takes it, while a command waits for it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast

from taskplane.api.message_metadata import WAITING
from taskplane.cli.render import one_line
from taskplane.cli.report import note
from taskplane.client.events import FullTask
from taskplane.client.failures import Failure

# Seconds before the first read: the server shows nothing within the first second. Each pause is longer than the last.
_FIRST: Final = 1.1
_LONGER: Final = 1.3
_LONGEST: Final = 5.0
# Looks after which a task that something may take is said to wait.
_PATIENT: Final = 3
_MOST: Final = 1_000

Reads = Callable[[], Awaitable[FullTask] | None]


@asynccontextmanager
async def telling_why_it_waits(read: Reads) -> AsyncGenerator[None]:
    """Report on stderr, during the body, if its task waits for an agent that no process runs, and when the wait ends.

    `read` returns a read of the task, or None while the task is not queued; then no call is made.
    """
    telling = asyncio.create_task(_tell(read), name="queue")
    try:
        yield
    finally:
        telling.cancel()


def waiting_lines(metadata: Mapping[str, Any]) -> list[str]:
    """Return from its metadata why a task will not begin, and the remedy; empty if it is not queued or will begin."""
    found = metadata.get(WAITING)
    if not isinstance(found, dict):
        return []
    told = cast("dict[str, Any]", found)
    return [one_line(str(told[key]), _MOST) for key in ("message", "suggestion") if told.get(key)]


async def _tell(read: Reads) -> None:
    pause, looks, told = _FIRST, 0, False
    while True:
        await asyncio.sleep(pause)
        pause = min(pause * _LONGER, _LONGEST)
        reading = read()
        if reading is None:
            continue
        with suppress(Failure):
            task = await reading
            if task.state != "submitted":
                continue
            lines = waiting_lines(task.metadata)
            looks += 1
            if lines and not told:
                for line in lines:
                    note(f"  {line}")
            elif told and not lines:
                note("  A process runs the agent now.")
            elif looks == _PATIENT and not lines:
                note("  The task waits in the queue.")
            told = bool(lines)
