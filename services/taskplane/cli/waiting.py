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

# Seconds before the first look: the server says nothing within the first second. Each pause is longer than the one
# before.
_FIRST: Final = 1.1
_LONGER: Final = 1.3
_LONGEST: Final = 5.0
# Looks after which a task that something may take is said to wait.
_PATIENT: Final = 3
_MOST: Final = 1_000

Reads = Callable[[], Awaitable[FullTask] | None]


@asynccontextmanager
async def telling_why_it_waits(read: Reads) -> AsyncGenerator[None]:
    """Say on stderr, beside the body, that its task waits for an agent that no process runs, and when that is over.

    `read` returns a read of the task; None while it is not queued, which costs no call.
    """
    telling = asyncio.create_task(_tell(read), name="queue")
    try:
        yield
    finally:
        telling.cancel()


def waiting_lines(metadata: Mapping[str, Any]) -> list[str]:
    """Return why a task will not begin and the remedy, by its metadata; none if it is not queued or will begin."""
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
