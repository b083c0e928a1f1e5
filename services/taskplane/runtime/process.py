"""The life of a process: its event loop, its signals, and an end that comes even if something hangs."""

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from taskplane.runtime.guard import Guard
from taskplane.runtime.loops import complete

DRAIN: Final = 30.0
LEAVING: Final = 1.0

_log = logging.getLogger(__name__)


def run(main: Callable[[asyncio.Event], Awaitable[None]], *, drain: float = DRAIN) -> int:
    """Run `main(stop)` to its end and return 0; its exceptions go through.

    SIGTERM and SIGINT set `stop`; `main` then has `drain` seconds, after which the process ends with code 3 whatever it
    is doing, also if its event loop was blocked all the time. A second SIGINT ends it at once. The deadline also holds
    for the rest when `main` ended by itself. Nothing else ends it: where a callback exits or stops the event loop,
    this is logged, and the loop goes on.
    """

    async def guarded() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def drained(number: signal.Signals) -> None:
            _log.info("%s: draining for up to %g s", number.name, drain)
            stop.set()

        guard.begin(lambda number: loop.call_soon_threadsafe(drained, number))
        try:
            await main(stop)
        finally:
            guard.hurry()

    settle()
    guard = Guard(drain)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            loop = runner.get_loop()
            complete(loop, loop.create_task(guarded()))
    finally:
        guard.end()
    return 0


def leave(code: int) -> NoReturn:
    """End the process with `code`. Threads that a library left and Python would wait for have `LEAVING` seconds."""
    timer = threading.Timer(LEAVING, _leave_behind, (code,))
    timer.daemon = True
    timer.start()
    sys.exit(code)


def _leave_behind(code: int) -> None:
    main = threading.main_thread()
    left = [thread.name for thread in threading.enumerate() if not thread.daemon and thread is not main]
    if left:
        sys.stderr.write(f"the process ends without waiting for these threads: {', '.join(left)}\n")
        sys.stderr.flush()
        os._exit(code)


def settle() -> None:
    """Hide all present objects from the garbage collector and let it run less often. For after start-up."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
