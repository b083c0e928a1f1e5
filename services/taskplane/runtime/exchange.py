"""One call on a local channel: its state, which both sides share, and the context its handler sees."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Never

import grpc

EMPTY: Final[Any] = object()
"""There is no message."""
OK: Final = grpc.StatusCode.OK
LOCALLY_CANCELLED: Final = "Locally cancelled by application!"

_Pairs = tuple[tuple[str, str | bytes], ...]


class TooLarge(Exception):
    """A message beyond what its receiver takes."""


def too_large(what: str, size: int, limit: int) -> str:
    """What gRPC says of a message beyond its limit, in bytes."""
    return f"{what} message larger than max ({size} vs. {limit})"


class Exchange(grpc.aio.ServicerContext[Any, Any]):
    """Where the two sides of a call meet. `status` is None until the call has ended for its client.

    What says nothing of its own keeps the promise of `grpc.aio.ServicerContext`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, metadata: _Pairs, measured: Callable[[Any], Any]) -> None:
        """`measured` gives a message the form its client knows, or raises TooLarge."""
        self.loop = loop
        self.settled: asyncio.Future[None] = loop.create_future()
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.deadline: float | None = None
        self.status: grpc.StatusCode | None = None
        self.text = ""
        self.initial: _Pairs = ()
        self.trailing: _Pairs = ()
        self.reply: Any = EMPTY
        self.locally_cancelled = False
        self.callbacks: list[Callable[[], Any]] | None = None
        self._metadata = metadata
        self._measured = measured
        self._code: grpc.StatusCode | None = None
        self._details = ""
        self._aborted: BaseException | None = None
        self._reader: asyncio.Future[None] | None = None
        self._taken: asyncio.Future[None] | None = None

    # How it ends.

    def finish(self, code: grpc.StatusCode, text: str = "") -> None:
        """Ends the call for its client. The first end counts, and a cancellation whatever came of it."""
        if self.status is not None:
            return
        if self.locally_cancelled:
            code, text, self.trailing = grpc.StatusCode.CANCELLED, LOCALLY_CANCELLED, ()
        self.status = code
        self.text = text
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if not self.settled.done():
            self.settled.set_result(None)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def expire(self) -> None:
        """The deadline: the client is answered now, and the handler is cancelled."""
        self.trailing = ()
        self.finish(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
        self._stop()

    def cancel(self) -> bool:
        """The client's cancellation: the handler is cancelled, and the call ends with it. False: too late."""
        if self.status is not None or self.locally_cancelled:
            return False
        self.locally_cancelled = True
        self._stop()
        return True

    async def ended(self) -> None:
        """Returns when the handler has run to its end, `finally` and all."""
        if self.task is not None:
            await asyncio.wait((self.task,))

    def failure(self) -> BaseException:
        """What the client of a call without an answer gets."""
        if self.locally_cancelled:
            return asyncio.CancelledError()
        return grpc.aio.AioRpcError(
            self.status or grpc.StatusCode.UNKNOWN,
            grpc.aio.Metadata(*self.initial),
            grpc.aio.Metadata(*self.trailing),
            details=self.text,
        )

    def refused(self) -> bool:
        """Whether the handler set a status other than OK; the call then ends with it."""
        if self._code is None or self._code is OK:
            return False
        self.finish(self._code, self._details)
        return True

    def raise_if_aborted(self) -> None:
        """A handler may have swallowed its own abort; the call is aborted nevertheless."""
        if self._aborted is not None:
            raise self._aborted

    def call_back(self) -> None:
        """Runs what the handler registered for the end of the call, once."""
        callbacks, self.callbacks = self.callbacks, None
        for callback in callbacks or ():
            callback()

    def _stop(self) -> None:
        task = self.task
        if task is None:
            self.finish(grpc.StatusCode.CANCELLED, LOCALLY_CANCELLED)
        elif not task.done():
            # A handler that has not begun yet ends without a word of its own.
            task.add_done_callback(lambda _: self.finish(grpc.StatusCode.CANCELLED, LOCALLY_CANCELLED))
            task.cancel()

    # A stream, handed over one message at a time.

    async def take(self) -> Any:
        """The next message, or EMPTY when the call has ended."""
        if self._reader is not None and not self._reader.done():
            raise grpc.aio.UsageError("another read of this stream is waiting")
        while self.status is None:
            if self.reply is not EMPTY:
                message, self.reply = self.reply, EMPTY
                if self._taken is not None and not self._taken.done():
                    self._taken.set_result(None)
                return message
            self._reader = self.loop.create_future()
            await self._reader
        return EMPTY

    async def write(self, message: Any) -> None:
        """Hands over a message and returns when it has been taken. CancelledError: the client is gone."""
        self.raise_if_aborted()
        if self.status is not None:
            raise asyncio.CancelledError
        try:
            self.reply = self._measured(message)
        except TooLarge as error:
            self.finish(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
            raise asyncio.CancelledError from error
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
        self._taken = self.loop.create_future()
        await self._taken

    # What a handler may ask of its context.

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> Never:
        if self._aborted is not None:
            raise grpc.aio.UsageError("Abort already called!")
        self._code = code
        self._details = details or self._details
        self.trailing = tuple(trailing_metadata) or self.trailing
        self._aborted = grpc.aio.AbortError("Locally aborted.")
        raise self._aborted

    async def abort_with_status(self, status: grpc.Status) -> Never:
        await self.abort(status.code, status.details, status.trailing_metadata or ())

    async def read(self) -> Never:
        raise grpc.aio.UsageError("the request of this call is not a stream")

    async def send_initial_metadata(self, initial_metadata: Any) -> None:
        self.initial = tuple(initial_metadata)

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        self.trailing = tuple(trailing_metadata)

    def trailing_metadata(self) -> Any:
        return self.trailing

    def invocation_metadata(self) -> Any:
        return self._metadata

    def set_code(self, code: grpc.StatusCode) -> None:
        self._code = code

    def code(self) -> Any:
        return self._code

    def set_details(self, details: str) -> None:
        self._details = details

    def details(self) -> str:
        return self._details

    def set_compression(self, compression: grpc.Compression) -> None:
        """Nothing is compressed where nothing is sent."""

    def disable_next_message_compression(self) -> None:
        """Nothing is compressed where nothing is sent."""

    def peer(self) -> str:
        return "local"

    def peer_identities(self) -> Iterable[bytes] | None:
        return None

    def peer_identity_key(self) -> str | None:
        return None

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        return {}

    def time_remaining(self) -> Any:
        return None if self.deadline is None else max(0.0, self.deadline - self.loop.time())

    def add_done_callback(self, callback: Any) -> None:
        self.callbacks = [*(self.callbacks or ()), lambda: callback(self)]

    def cancelled(self) -> bool:
        return self.status is grpc.StatusCode.CANCELLED

    def done(self) -> bool:
        return self.status is not None
