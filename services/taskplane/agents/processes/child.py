"""The program of the process of an agent, which `supervisor` starts.

The agent has the main thread, and an event loop there that is kept from run to run; it may block it. A second thread
talks to the executor, and ends the process when the executor is gone.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Final

from taskplane.agents import agent as port
from taskplane.agents.faults import is_ours
from taskplane.agents.hosted import Hosted
from taskplane.agents.loading import load_agents
from taskplane.agents.processes import frames, reports
from taskplane.agents.processes.calls import CallsByFrames
from taskplane.agents.sources import place_of, said, standing_at, trimmed
from taskplane.agents.threads import RunElsewhere, end, wind_down
from taskplane.runtime import logs, tracing
from taskplane.runtime.loops import complete

log = logging.getLogger("taskplane.agents.processes.child")

ALIVE_EVERY: Final = 1.0
"""Seconds between two signs of life of the executor."""
EXIT_FENCED: Final = 70
"""Exit code of a process that stopped a run of its own accord, since the executor stood still beyond the lease."""
# Signs of life in a row that may be missing. They are counted, since a process that was stopped itself heard none.
_MISSING: Final = 3
LEAVING: Final = 10.0
"""Seconds that a process may take to end once it is wanted no more."""


class _Talk:
    """The conversation with the executor, in an event loop beside the loop of the agent."""

    def __init__(self, loop: asyncio.AbstractEventLoop, over: "asyncio.Future[None]") -> None:
        self.load: Future[frames.Load] = Future()
        self.loaded: Future[Hosted] = Future()
        self._loop = loop
        self._over = over
        self._writer: asyncio.StreamWriter
        self._begun: frames.Begin | None = None
        self._calls: CallsByFrames
        self._run: RunElsewhere | None = None
        self._cancelled = asyncio.Event()
        self._stepping: asyncio.Task[None] | None = None
        self._until = 0.0
        self._missing = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, channel: socket.socket) -> None:
        """Follow the executor's frames, until it closes the channel or is gone; then end the process."""
        reader, self._writer = await asyncio.open_unix_connection(sock=channel)
        self._start(self._watch())
        while (frame := await frames.receive(reader)) is not None:
            self._missing = 0
            self._take(frame)
        if self._begun is not None or not self.loaded.done():
            # Without the executor the agent's changes are lost, and soon another process may have its task.
            os._exit(1)
        self._loop.call_soon_threadsafe(end, self._over)
        await asyncio.sleep(LEAVING)
        os._exit(1)

    def _take(self, frame: object) -> None:
        match frame:
            case frames.Load():
                self.load.set_result(frame)
            case frames.Begin():
                self._until = frame.until
                self._cancelled = asyncio.Event()
                self._begun, self._calls = frame, CallsByFrames(self._writer)
            case frames.Next():
                self._stepping = self._start(self._step())
            case frames.Alive():
                self._until = frame.until
            case frames.Cancelled():
                self._cancelled.set()
            case frames.Answer():
                self._calls.take(frame)
            case frames.Close():
                self._start(self._close())
            case _:
                raise TypeError(f"unexpected frame from the executor: {frame!r}")

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _watch(self) -> None:
        """End the process if its executor hangs for longer than the lease of the task is certain: then another process
        may run the task."""
        while True:
            await asyncio.sleep(ALIVE_EVERY)
            self._missing += 1
            if self._begun is not None and self._missing > _MISSING and time.monotonic() > self._until:
                log.error("the executor does not respond, and the lease of the task may be lost: stopping the run")
                os._exit(EXIT_FENCED)

    async def _step(self) -> None:
        try:
            if self._run is None:
                self._run = await self._begin()
            answer = reports.framed(reports.Yielded(await anext(self._run)))
        except StopAsyncIteration:
            answer = reports.framed(reports.Ended())
        except BaseException as error:
            if is_ours(error):
                raise
            public = said(error) if isinstance(error, port.AgentError) else ""
            # The place of a yield with a change that cannot be sent.
            at = place_of(error) or (standing_at(self._run) if isinstance(error, (TypeError, ValueError)) else "")
            answer = reports.framed(reports.Raised(_trace(error), public, at))
        self._writer.write(answer)

    async def _begin(self) -> RunElsewhere:
        # A run that is closed meanwhile ends no import.
        hosted = await asyncio.shield(asyncio.wrap_future(self.loaded))
        begun = self._begun
        assert begun is not None
        turn = port.Turn(**begun.turn, cancelled=self._cancelled, calls=self._calls)
        logs.request_id.set(begun.request_id)
        logs.task_id.set(turn.task_id)
        with tracing.within(begun.traceparent):
            return RunElsewhere(self._loop, turn, getattr(hosted.agent, begun.method))

    async def _close(self) -> None:
        trace = ""
        try:
            if self._stepping is not None:
                self._stepping.cancel()
                await asyncio.wait([self._stepping])
            if self._run is not None:
                await self._run.aclose()
        except BaseException as error:
            if is_ours(error):
                raise
            trace = _trace(error)
        if self.loaded.done() and self.loaded.exception() is not None:
            # The next process may have more luck.
            os._exit(1)
        self._calls.close()
        self._begun = self._run = self._stepping = None
        self._writer.write(reports.framed(reports.Closed(trace)))


def main() -> int:
    """Load the agent and run it as the executor says, until that closes the channel."""
    channel = _take_channel()
    for number in (signal.SIGINT, signal.SIGTERM):
        # These signals are sent to the whole group of processes; the executor handles them. A handler, unlike an
        # ignored signal, is not inherited by the commands that an agent starts.
        signal.signal(number, _do_nothing)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    over = loop.create_future()
    talk = _Talk(loop, over)
    threading.Thread(target=lambda: asyncio.run(talk.serve(channel)), name="taskplane-executor", daemon=True).start()
    load = talk.load.result()
    logs.setup(load.log_level)
    sys.path[:] = load.path
    try:
        talk.loaded.set_result(load_agents([load.source], allow_crash=load.allow_crash).named(""))
    except BaseException as error:  # noqa: BLE001 - raised by the run that needs it
        talk.loaded.set_exception(error)
    tracing.look_for_sdk()
    complete(loop, over)
    wind_down(loop)
    loop.close()
    return 0


def _do_nothing(number: int, frame: object) -> None:
    pass


def _take_channel() -> socket.socket:
    """Return the socket that is the standard input, and leave an empty one in its place."""
    channel = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return channel


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, trimmed(error))).rstrip()


if __name__ == "__main__":
    sys.exit(main())
