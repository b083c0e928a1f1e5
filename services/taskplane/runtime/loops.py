"""Event loops that nobody but their owner ends."""

import asyncio
import logging
from typing import Any

_log = logging.getLogger(__name__)


def complete(loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]") -> None:
    """Run the loop until a future of it is done, and raise its exception.

    asyncio ends a loop in which a task or a callback raises SystemExit or KeyboardInterrupt, or calls `loop.stop()`.
    Here this is logged, and the loop continues; the code that awaits the task gets its exception.
    """
    while True:
        try:
            loop.run_until_complete(future)
            return
        except (SystemExit, KeyboardInterrupt, RuntimeError):
            # asyncio raises RuntimeError for a loop that was stopped.
            if future.done():
                raise
            _log.exception("code in the event loop tried to end it; the loop continues")
