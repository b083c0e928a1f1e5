"""The ends of a stream over gRPC that neither its events nor its client decide about."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from taskplane.gateway.a2a.follow import Item
from taskplane.gateway.a2a.streams import PayloadStream
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.plane import Plane
from taskplane.runtime.errors import PlaneError, Unauthenticated, Unavailable

_CREDENTIALS_INTERVAL: Final = 60.0


class EndedStream:
    """A stream that ends at an event boundary when the process drains or the credentials of its caller expire, and at
    once when a write blocks for too long. Its end is an error, since a client must not take it for that of the task."""

    def __init__(self, plane: Plane, caller: Caller) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[Any] = task
        self._plane = plane
        self._caller = caller
        self._loop = asyncio.get_running_loop()
        self._end: PlaneError | None = None
        self._stuck_end: PlaneError | None = None
        self._reading = False
        self._look = self._loop.call_later(_CREDENTIALS_INTERVAL, self._check_credentials)

    @classmethod
    @contextmanager
    def of(cls, plane: Plane, caller: Caller) -> "Generator[EndedStream]":
        """Return a stream of the current task while the body runs."""
        stream = cls(plane, caller)
        try:
            with plane.streams.running(stream):
                if plane.streams.draining:
                    stream.drain()
                yield stream
        finally:
            stream._look.cancel()

    def drain(self) -> None:
        """End the stream at the next event boundary."""
        self._stop(
            Unavailable(
                "this server is shutting down; the task continues",
                reason="SHUTTING_DOWN",
                suggestion="subscribe to the task with the last cursor, in a moment",
                retry_after=1.0,
            )
        )

    async def following(self, flow: PayloadStream) -> list[Item] | None:
        """Return the next elements of a stream, None at its end. Raise the error of another end.

        Elements at hand come before it: they tell the client of a send which task it began.
        """
        if self._end is not None and flow.waits:
            raise self._end
        self._reading = True
        try:
            return await anext(flow)
        except StopAsyncIteration:
            return None
        except asyncio.CancelledError:
            if self._end is None:
                raise
            self._task.uncancel()
            raise self._end from None
        finally:
            self._reading = False

    @contextmanager
    def writing(self) -> Generator[None]:
        """End the stream if the body, which yields one message, takes longer than a write may.

        The write is cancelled outside of the body, which is closed then, and raises the error in place of the
        cancellation: gRPC sends no status for that, and the client would wait for ever.
        """
        timer = self._loop.call_later(self._plane.settings.write_timeout, self._stuck)
        try:
            yield
        except GeneratorExit:
            if self._stuck_end is None:
                raise
            self._task.uncancel()
            raise self._stuck_end from None
        finally:
            timer.cancel()

    def _stuck(self) -> None:
        self._stuck_end = Unavailable(
            f"the client took no event for {self._plane.settings.write_timeout:g} s; the task continues",
            reason="WRITE_TIMEOUT",
            suggestion="subscribe to the task with the last cursor",
        )
        self._task.cancel()

    def _check_credentials(self) -> None:
        if self._plane.authenticator.alive(self._caller):
            self._look = self._loop.call_later(_CREDENTIALS_INTERVAL, self._check_credentials)
        else:
            self._stop(Unauthenticated("the credentials are no longer valid", reason="BAD_CREDENTIALS"))

    def _stop(self, end: PlaneError) -> None:
        if self._end is None:
            self._end = end
            if self._reading:
                self._task.cancel()
