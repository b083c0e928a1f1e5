"""Cancellation of a request: of one that blocks, when its client disconnects or this process drains; of each one that
is open when the process ends."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from taskplane.gateway.web.http import ClientGone, Request
from taskplane.gateway.web.streams import Streams
from taskplane.runtime.errors import Unavailable

# Seconds; most requests are answered earlier and need no watcher.
_WATCH_AFTER: Final = 1.0


@asynccontextmanager
async def cancel_on_disconnect(request: Request, streams: Streams) -> AsyncGenerator[None]:
    """Cancel the body, and raise ClientGone, when the client closes the connection; also as `cancel_on_drain` does."""
    async with cancel_on_drain(streams) as wait:
        watcher = _DisconnectWatcher(request, wait)
        timer = asyncio.get_running_loop().call_later(_WATCH_AFTER, watcher.start)
        try:
            yield
        finally:
            timer.cancel()
            watcher.close()


@asynccontextmanager
async def cancel_on_drain(streams: Streams) -> AsyncGenerator["Wait"]:
    """Cancel the body, and raise Unavailable `SHUTTING_DOWN`, if this process drains; if it drains already, the body
    does not run."""
    streams.check_open()
    task = asyncio.current_task()
    assert task is not None
    wait = Wait(task)
    with streams.running(wait):
        try:
            yield wait
        except asyncio.CancelledError:
            if wait.end is None:
                raise
            task.uncancel()
            raise wait.end from None


class ToldAtEnd:
    """Raise Unavailable `SHUTTING_DOWN` if the body is cancelled: the HTTP server cancels the requests that are open at
    the end of this process. No generator, which takes more steps: every request enters this."""

    __slots__ = ()

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _traceback: object) -> None:
        if not isinstance(error, asyncio.CancelledError):
            return
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
        raise Unavailable(
            "this server is shutting down; whether it carried out the request is not known",
            reason="SHUTTING_DOWN",
            suggestion="repeat it in a moment, a send under its idempotency key",
            retry_after=1.0,
        ) from None


class Wait:
    """A request that blocks. `end`: the error that has ended it."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.end: Exception | None = None
        self._task = task

    def drain(self) -> None:
        """End with the error that a task continues; a message may not have become one yet."""
        self.stop(
            Unavailable(
                "this server is shutting down; a task continues if there is one",
                reason="SHUTTING_DOWN",
                suggestion="repeat the send under the same idempotency key in a moment, or get the task",
                retry_after=1.0,
            )
        )

    def stop(self, end: Exception) -> None:
        """End with an error; only the first one counts."""
        if self.end is None:
            self.end = end
            self._task.cancel()


class _DisconnectWatcher:
    def __init__(self, request: Request, wait: Wait) -> None:
        self._request = request
        self._wait = wait
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._watching = asyncio.create_task(self._watch())

    def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        self._wait.stop(ClientGone())
