"""A thread that runs functions for an event loop, one after the other.

An executor of `concurrent.futures` needs a second future behind each future of asyncio, about forty calls for each
function. Here an answer is one call on the loop.
"""

import asyncio
import logging
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")

_log = logging.getLogger(__name__)


class OneThread:
    """A thread and its queue of work."""

    def __init__(self, name: str, ended: Callable[[], None]) -> None:
        """Start it. It runs `ended` at last, after it was closed."""
        self._jobs: SimpleQueue[tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]] | None] = SimpleQueue()
        self._ended = ended
        self._closed = False
        # A process that gave up its loop without closing this ends all the same.
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[..., T], *args: Any) -> "asyncio.Future[T]":
        """Return the future of `fn(*args)`. It is left out if the future is cancelled before it began.

        RuntimeError: the thread was closed.
        """
        if self._closed:
            raise RuntimeError("the thread was closed")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put((future, fn, args))
        return future

    async def close(self) -> None:
        """Finish the queued work, and end the thread."""
        self._closed = True
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, fn, args = job
            if not future.cancelled():
                result = error = None
                try:
                    result = fn(*args)
                except BaseException as raised:  # noqa: BLE001 - raised where the future is awaited
                    error = raised
                try:
                    future.get_loop().call_soon_threadsafe(_settle, future, result, error)
                except RuntimeError:
                    _log.debug("a result arrived after the end of its event loop")
                # While the thread waits it holds no reference to finished work.
                del result, error
            del job, future, fn, args
        try:
            self._ended()
        except Exception:  # noqa: BLE001 - there is nobody left to hear of it
            _log.exception("a thread ended with an error")


def _settle(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
