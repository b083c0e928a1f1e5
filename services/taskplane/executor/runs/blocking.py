"""A watch over the event loop: a thread that notices a blocking call, and logs its place."""

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from taskplane.executor.runs.agent_turn import AgentTurn
from taskplane.executor.runs.router_call import RouterCall
from taskplane.executor.runs.run import Run
from taskplane.executor.runs.status_texts import StatusTexts
from taskplane.runtime.guard import give_up

log = logging.getLogger(__name__)

# How often per `after` the loop beats and the thread looks.
_BEATS: Final = 4
# Innermost frames that are logged.
_FRAMES: Final = 6


@contextmanager
def noticing_blocks(after: float, limit: float = 0.0) -> Generator[None]:
    """Log an error whenever the running event loop has been blocked for `after` seconds, once each time; 0: never.

    End the process with code 3 when the loop has been blocked for `limit` seconds; 0: never. Time in which the whole
    process was stopped does not count.
    """
    if not after and not limit:
        yield
        return
    watch = _Watch(asyncio.get_running_loop(), after, limit)
    watch.begin()
    try:
        yield
    finally:
        watch.end()


class _Watch:
    def __init__(self, loop: asyncio.AbstractEventLoop, after: float, limit: float) -> None:
        self._loop = loop
        self._after = after
        self._limit = limit
        self._every = min(each for each in (after, limit) if each) / _BEATS
        self._watched = threading.get_ident()
        self._beaten = time.monotonic()
        self._told = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="taskplane-loop-watch", daemon=True)
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self._beat()
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()
        self._thread.join()

    def _beat(self) -> None:
        now = time.monotonic()
        if self._told:
            log.info("the event loop continues")
            self._told = False
        self._beaten = now
        self._timer = self._loop.call_later(self._every, self._beat)

    def _look(self) -> None:
        beaten, looks = self._beaten, 0
        while not self._ended.wait(self._every):
            looks = looks + 1 if self._beaten == beaten else 0
            beaten = self._beaten
            blocked = time.monotonic() - beaten
            if self._after and blocked > self._after and not self._told:
                self._told = True
                self._tell(blocked)
            if self._limit and blocked > self._limit and looks * self._every > self._limit:
                give_up(f"the event loop has been blocked for {blocked:.1f} s, which exceeds BLOCKED_LIMIT")

    def _tell(self, blocked: float) -> None:
        frame = sys._current_frames().get(self._watched)  # pyright: ignore[reportPrivateUsage]
        run = _run_of(frame)
        where = "".join(traceback.format_stack(frame)[-_FRAMES:]) if frame is not None else ""
        if run is None:
            log.warning("the event loop has been blocked for %.1f s here:\n%s", blocked, where)
            return
        log.error(
            "the agent %s has blocked the event loop for %.1f s in task %s: all other work of this process stands still"
            " meanwhile. Await slow calls, write `run` as a plain generator, or run the agent in its own thread or"
            ' process, with Policy(isolation="thread") or --agent %s@thread. The blocking call:\n%s',
            run.agent,
            blocked,
            run.task_id,
            run.agent,
            where,
        )


_AtWork = Run | AgentTurn | RouterCall | StatusTexts


def _run_of(frame: FrameType | None) -> _AtWork | None:
    """Return the part of a run that executes a frame."""
    while frame is not None:
        found = frame.f_locals.get("self")
        if isinstance(found, _AtWork):
            return found
        frame = frame.f_back
    return None
