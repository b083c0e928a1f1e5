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

from taskplane.runtime.loops import complete

EXIT_STUCK: Final = 3
"""Exit code of a process that did not end within its drain deadline."""
DRAIN: Final = 30.0
LEAVING: Final = 1.0

_log = logging.getLogger(__name__)


def run(main: Callable[[asyncio.Event], Awaitable[None]], *, drain: float = DRAIN) -> int:
    """Run `main(stop)` to its end and return 0; its exceptions go through.

    SIGTERM and SIGINT set `stop`; `main` then has `drain` seconds, after which the process ends with code 3 whatever it
    is doing. A second SIGINT ends it at once. The deadline also holds for what is left when `main` ended by itself.
    Nothing else ends it: where a callback exits or stops the event loop, this is logged, and the loop goes on.
    """
    watchdog = _Watchdog(drain)

    async def guarded() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def asked(number: signal.Signals) -> None:
            if stop.is_set():
                if number is signal.SIGINT:
                    os._exit(128 + number)
                return
            _log.info("%s: draining for up to %g s", number.name, drain)
            watchdog.start()
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, asked, number)
        try:
            await main(stop)
        finally:
            watchdog.start()

    settle()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            loop = runner.get_loop()
            complete(loop, loop.create_task(guarded()))
    finally:
        watchdog.cancel()
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
        sys.stderr.write(f"these threads did not end, and the process does not wait for them: {', '.join(left)}\n")
        sys.stderr.flush()
        os._exit(code)


def settle() -> None:
    """Hide all present objects from the garbage collector and let it run less often. For after start-up."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


class _Watchdog:
    """A thread, so that a blocked event loop cannot hold it up."""

    def __init__(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True
        self._started = False

    def start(self) -> None:
        if not self._started:
            self._started = True
            self._timer.start()

    def cancel(self) -> None:
        self._timer.cancel()

    @staticmethod
    def _expire() -> None:
        sys.stderr.write("did not end within the drain deadline; giving up\n")
        sys.stderr.flush()
        os._exit(EXIT_STUCK)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
