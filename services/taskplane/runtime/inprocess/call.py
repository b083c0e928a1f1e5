"""Calls within this process, as their clients hold them."""

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any, Final

import grpc

from taskplane.runtime.inprocess.context import ServicerContext
from taskplane.runtime.inprocess.messages import Deserializer, MessageTooLarge, Serializer, received
from taskplane.runtime.inprocess.metadata import Pairs
from taskplane.runtime.services import MAX_REPLY

_NOTHING: Final[Any] = object()
_OK: Final = grpc.StatusCode.OK
_CANCELLED: Final = "Locally cancelled by application!"
_log = logging.getLogger(__name__)


class InProcessCall(grpc.aio.Call):
    """A call. It keeps the promises of `grpc.aio.Call`, and runs whether it is awaited or not.

    A caller that is cancelled while it waits for a reply waits until the handler has ended; after a second cancellation
    it does not.
    """

    def __init__(self, timeout: float | None, serialize: Serializer, deserialize: Deserializer) -> None:
        """`timeout`: in seconds. `serialize`, `deserialize`: the functions for a reply."""
        self._loop = asyncio.get_running_loop()
        self._deadline = None if timeout is None else self._loop.time() + timeout
        self._serialize = serialize
        self._deserialize = deserialize
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._status: grpc.StatusCode | None = None
        self._details = ""
        self._initial: Pairs = ()
        self._trailing: Pairs = ()
        self._cancelled = False
        self._callbacks: list[Callable[[Any], None]] = []
        self.task: asyncio.Task[None] | None = None
        """The handler, from the start of the call to its end."""

    def start(self, handler: Callable[[Any, Any], Awaitable[Any]], request: Any, metadata: Pairs) -> asyncio.Task[None]:
        """Run `handler` in a task with an empty context, until the deadline."""
        context = ServicerContext(self, metadata, self._write if self._streams else None)
        self.task = self._loop.create_task(self._serve(handler, request, context), context=contextvars.Context())
        self.task.add_done_callback(self._served)
        if self._deadline is not None:
            late = grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"
            self._timer = self._loop.call_at(self._deadline, self._stop, *late)
        return self.task

    def finish(self, code: grpc.StatusCode, details: str, context: ServicerContext | None = None) -> None:
        """End the call for its client, unless it has ended. A call that was cancelled ends as that."""
        if self._status is not None:
            return
        if self._cancelled:
            code, details, context = grpc.StatusCode.CANCELLED, _CANCELLED, None
        self._status, self._details = code, details
        if context is not None:
            self._initial, self._trailing = context.initial, context.trailing
        if self._timer is not None:
            self._timer.cancel()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        for callback in self._callbacks:
            self._loop.call_soon(callback, self)

    def cancel(self) -> bool:
        if self._cancelled or self.done():
            return False
        self._cancelled = True
        if self.task is not None:
            self.task.cancel()
        return True

    def cancelled(self) -> bool:
        return self._cancelled or self._status is grpc.StatusCode.CANCELLED

    def done(self) -> bool:
        return self._status is not None

    def time_remaining(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - self._loop.time())

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        if self.done():
            self._loop.call_soon(callback, self)
        else:
            self._callbacks.append(callback)

    async def initial_metadata(self) -> grpc.aio.Metadata:
        await self._end()
        return grpc.aio.Metadata(*self._initial)

    async def trailing_metadata(self) -> grpc.aio.Metadata:
        await self._end()
        return grpc.aio.Metadata(*self._trailing)

    async def code(self) -> grpc.StatusCode:
        await self._end()
        return self._status or grpc.StatusCode.UNKNOWN

    async def details(self) -> str:
        await self._end()
        return self._details

    async def wait_for_connection(self) -> None:
        """Return at once."""

    _streams = False
    """Whether the handler writes replies; otherwise it returns a single reply."""
    _reply: Any = _NOTHING

    async def _write(self, message: Any) -> None:
        """Hand a reply to the client."""

    def _ending(self) -> "asyncio.Future[None]":
        """Return a future of its own for each that waits for the end."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        return waiter

    async def _end(self) -> None:
        if self._status is None:
            await self._ending()

    async def _serve(
        self, handler: Callable[[Any, Any], Awaitable[Any]], request: Any, context: ServicerContext
    ) -> None:
        try:
            reply = await handler(request, context)
            code, details = context.status()
            if code is _OK and not self._streams:
                self._reply = received(reply, self._serialize, self._deserialize, MAX_REPLY, "Received")
            self.finish(code, details, context)
        except grpc.aio.AbortError:
            code, details = context.status()
            self.finish(code, details, context)
        except MessageTooLarge as error:
            self.finish(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        except Exception as error:  # noqa: BLE001 - answered as a server with a socket answers it
            _log.exception("a handler raised %s", type(error).__name__)
            self.finish(grpc.StatusCode.UNKNOWN, f"Unexpected {type(error)}: {error}")
        finally:
            for callback in context.done_callbacks:
                callback(context)

    def _served(self, _: object) -> None:
        # Its exception names the frames of the handler, and these the call: the three would be a cycle.
        self.task = None
        # The handler was cancelled, perhaps before it began.
        self.finish(grpc.StatusCode.CANCELLED, _CANCELLED)

    def _stop(self, code: grpc.StatusCode, details: str) -> None:
        """End the call for its client and cancel the handler."""
        self.finish(code, details)
        if self.task is not None:
            self.task.cancel()

    async def _leave(self) -> None:
        """Cancel the call, and wait until the handler has ended."""
        self.cancel()
        if self.task is not None:
            await asyncio.wait((self.task,))

    def _error(self) -> BaseException:
        if self._cancelled:
            return asyncio.CancelledError()
        return grpc.aio.AioRpcError(
            self._status or grpc.StatusCode.UNKNOWN,
            grpc.aio.Metadata(*self._initial),
            grpc.aio.Metadata(*self._trailing),
            details=self._details,
        )


class UnaryUnaryCall(InProcessCall, grpc.aio.UnaryUnaryCall[Any, Any]):
    """A call with one reply."""

    def __await__(self) -> Generator[Any, Any, Any]:
        if self._status is None:
            try:
                yield from self._ending()
            except asyncio.CancelledError:
                yield from self._leave().__await__()
                raise
        if self._status is not _OK:
            raise self._error()
        return self._reply


class UnaryStreamCall(InProcessCall, grpc.aio.UnaryStreamCall[Any, Any]):
    """A call with a stream of replies, handed over one at a time."""

    _streams = True
    _message: Any = _NOTHING
    _reader: "asyncio.Future[Any] | None" = None
    _taken: "asyncio.Future[None] | None" = None

    async def read(self) -> Any:
        message, self._message = self._message, _NOTHING
        if message is not _NOTHING:
            if self._taken is not None and not self._taken.done():
                self._taken.set_result(None)
        elif not self.done():
            self._reader = self._loop.create_future()
            try:
                message = await self._reader
            except asyncio.CancelledError:
                await self._leave()
                raise
            finally:
                self._reader = None
        if message is not _NOTHING:
            return message
        if self._status is not _OK:
            raise self._error()
        return grpc.aio.EOF

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (message := await self.read()) is not grpc.aio.EOF:
            yield message

    def finish(self, code: grpc.StatusCode, details: str, context: ServicerContext | None = None) -> None:
        super().finish(code, details, context)
        if self._status is not _OK:
            self._message = _NOTHING
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(_NOTHING)

    async def _write(self, message: Any) -> None:
        """Hand a message to the client that waits for it, or wait until it is taken. InternalError: the client left."""
        if self.done():
            raise grpc.aio.InternalError("the call has ended")
        try:
            message = received(message, self._serialize, self._deserialize, MAX_REPLY, "Received")
        except MessageTooLarge as error:
            self._stop(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        else:
            if self._reader is not None and not self._reader.done():
                self._reader.set_result(message)
                return
            self._message = message
        self._taken = self._loop.create_future()
        await self._taken
