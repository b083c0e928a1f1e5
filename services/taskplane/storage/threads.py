"""Threads that run jobs on connections of their own, one hop per job.

Through aiosqlite every statement would cost several hops; here a whole transaction costs one, and answers that are
ready together wake the event loop once.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, Generic, Protocol, TypeVar

from taskplane.storage.driver_errors import translated
from taskplane.storage.engine import closing

Done = Callable[[Any, BaseException | None], None]


class Resource(Protocol):
    """What a thread opens and works on."""

    def interrupt(self) -> None:
        """Ends what it is doing just now. Called by another thread."""

    def close(self) -> None:
        """Called by the thread at its end."""


R = TypeVar("R", bound=Resource)

_log = logging.getLogger(__name__)

_INTERRUPT_AGAIN: Final = 0.02


class Job(Generic[R]):
    """One piece of work, from its submission to its answer."""

    __slots__ = ("args", "done", "dropped", "error", "resource", "result", "work")

    def __init__(
        self, work: Callable[..., Any], args: tuple[Any, ...], done: Done, dropped: Callable[[], bool] | None
    ) -> None:
        self.work = work
        self.args = args
        self.done = done
        self.dropped = dropped
        self.resource: R | None = None
        self.result: Any = None
        self.error: BaseException | None = None

    def perform(self, resource: R) -> None:
        """Runs it, in a thread; what it comes to is kept for the loop."""
        if self.dropped is not None and self.dropped():
            return
        self.resource = resource
        try:
            self.result = self.work(resource, *self.args)
        except BaseException as error:  # noqa: BLE001 - belongs to the caller, who waits on the loop
            self.error = translated(error)
        finally:
            self.resource = None


class Threads(Generic[R]):
    """Each thread has one resource; all take their jobs from one queue, in order."""

    def __init__(self, name: str, connect: Callable[[], R], count: int = 1) -> None:
        """`connect` is called in each thread; what it opens is closed there, too."""
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[Job[R] | None] = SimpleQueue()
        self._answers: deque[Job[R]] = deque()
        self._waking = False
        self.closed = False
        self._opened: list[asyncio.Future[None]] = [self._loop.create_future() for _ in range(count)]
        self._threads = [
            threading.Thread(target=self._run, args=(opened,), name=f"taskplane-{name}", daemon=True)
            for opened in self._opened
        ]

    async def start(self) -> None:
        """Opens the connections. Raises what `connect` raises. To be followed by `stop` in any case."""
        for thread in self._threads:
            thread.start()
        await asyncio.gather(*self._opened)

    async def stop(self) -> None:
        """Finishes what was given, closes the connections and ends the threads. What is given later is refused."""
        self.closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            if thread.ident:
                await asyncio.to_thread(thread.join)

    def submit(
        self, work: Callable[..., Any], args: tuple[Any, ...], done: Done, dropped: Callable[[], bool] | None = None
    ) -> Job[R]:
        """`work(resource, *args)` in a thread; then `done(result, error)` on the loop, the error as `translated`.

        One that is `dropped` before it began is left out; its result is None. Unavailable: the threads were stopped.
        """
        if self.closed:
            raise closing()
        job: Job[R] = Job(work, args, done, dropped)
        self._jobs.put(job)
        return job

    def interrupt(self, job: Job[R]) -> None:
        """Ends the running statement of `job`, and those that follow. One that was dropped in time has none."""
        resource = job.resource
        if resource is not None:
            resource.interrupt()
            # Only a statement that runs is interrupted, so once may be too early.
            self._loop.call_later(_INTERRUPT_AGAIN, self.interrupt, job)

    def _run(self, opened: "asyncio.Future[None]") -> None:
        try:
            resource = self._connect()
        except BaseException as error:  # noqa: BLE001 - belongs to the caller of start
            self._loop.call_soon_threadsafe(_settle_opened, opened, error)
            return
        self._loop.call_soon_threadsafe(_settle_opened, opened, None)
        try:
            while (job := self._jobs.get()) is not None:
                job.perform(resource)
                self._answer(job)
        finally:
            resource.close()

    def _answer(self, job: Job[R]) -> None:
        self._answers.append(job)
        if self._waking:
            return
        self._waking = True
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:
            _log.warning("the event loop ended before its last transaction was answered")

    def _deliver(self) -> None:
        # Cleared first: an answer that comes in between is taken below or wakes the loop once more.
        self._waking = False
        try:
            while self._answers:
                job = self._answers.popleft()
                job.done(job.result, job.error)
        finally:
            # Not empty only where `done` raised, which must not keep the others waiting.
            if self._answers:
                self._loop.call_soon(self._deliver)


def _settle_opened(opened: "asyncio.Future[None]", error: BaseException | None) -> None:
    if opened.cancelled():
        return
    if error is None:
        opened.set_result(None)
    else:
        opened.set_exception(error)
