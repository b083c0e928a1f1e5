"""One call on a channel of ours: its state, and in one process the context its handler sees."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Never

import grpc

EMPTY: Final[Any] = object()
"""There is no message."""
OK: Final = grpc.StatusCode.OK
LOCALLY_CANCELLED: Final = "Locally cancelled by application!"

Pairs = tuple[tuple[str, str | bytes], ...]


class TooLarge(Exception):
    """A message beyond what its receiver takes."""


class ChannelClosed(asyncio.CancelledError):
    """A call was cancelled because its channel was closed."""


def too_large(what: str, size: int, limit: int) -> str:
    """What gRPC says of a message beyond its limit, in bytes."""
    return f"{what} message larger than max ({size} vs. {limit})"


class Exchange(grpc.aio.ServicerContext[Any, Any]):
    """Where the two sides of a call meet. `status` is None until the call has ended for its client.

    What says nothing of its own keeps the promise of `grpc.aio.ServicerContext`.
    """

    # What few calls ever change.
    text = ""
    initial: Pairs = ()
    trailing: Pairs = ()
    _details = ""
    _aborted: BaseException | None = None

    def __init__(self, loop: asyncio.AbstractEventLoop, metadata: Pairs) -> None:
        self.loop = loop
        self.metadata = metadata
        self.task: asyncio.Task[None] | None = None
        self.row: dict[Exchange, None] | None = None
        """Where it stands among the calls that run."""
        self.deadline: float | None = None
        self.settled: asyncio.Future[None] | None = None
        """Done with the call, if anybody waits for it; see `settling`."""
        self.status: grpc.StatusCode | None = None
        self.reply: Any = EMPTY
        self.cancellation: type[asyncio.CancelledError] | None = None
        """Why this side cancelled the call, if it did."""
        self.chosen: grpc.StatusCode | None = None
        """The status that the handler set."""
        self.callbacks: tuple[Callable[[], Any], ...] = ()

    # How it ends.

    def finish(self, code: grpc.StatusCode, text: str = "") -> None:
        """Ends the call for its client. The first end counts, and a cancellation whatever came of it."""
        if self.status is not None:
            return
        if self.cancellation is not None:
            code, text, self.trailing = grpc.StatusCode.CANCELLED, LOCALLY_CANCELLED, ()
        self.status = code
        if text:
            self.text = text
        settled = self.settled
        if settled is not None and not settled.done():
            settled.set_result(None)

    def leave(self) -> None:
        """The handler has run to its end: what it registered for that is run."""
        if self.row is not None:
            self.row.pop(self, None)
        if self.callbacks:
            callbacks, self.callbacks = self.callbacks, ()
            for callback in callbacks:
                callback()

    def expire(self) -> None:
        """The deadline: the client is answered now, and the handler is cancelled."""
        self.trailing = ()
        self.finish(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
        self._stop()

    def cancel(self, why: type[asyncio.CancelledError] = asyncio.CancelledError) -> bool:
        """The client's cancellation: the handler is cancelled, and the call ends with it. False: too late."""
        if self.status is not None or self.cancellation is not None:
            return False
        self.cancellation = why
        self._stop()
        return True

    def settling(self) -> asyncio.Future[None]:
        """Done when the call has ended for its client."""
        if self.settled is None:
            self.settled = self.loop.create_future()
            if self.status is not None:
                self.settled.set_result(None)
        return self.settled

    async def ended(self) -> None:
        """Returns when the handler has run to its end, `finally` and all."""
        if self.task is not None:
            await asyncio.wait((self.task,))

    def failure(self) -> BaseException:
        """What the client of a call without an answer gets."""
        if self.cancellation is not None:
            return self.cancellation()
        return grpc.aio.AioRpcError(
            self.status or grpc.StatusCode.UNKNOWN,
            grpc.aio.Metadata(*self.initial),
            grpc.aio.Metadata(*self.trailing),
            details=self.text,
        )

    def refused(self) -> bool:
        """Whether the handler set a status other than OK or aborted; the call then ends with that.

        A handler may have swallowed its own abort; the call is aborted nevertheless.
        """
        if self.chosen is None or (self.chosen is OK and self._aborted is None):
            return False
        self.finish(self.chosen if self.chosen is not OK else grpc.StatusCode.UNKNOWN, self._details)
        return True

    def raise_if_aborted(self) -> None:
        """AbortError: the handler aborted the call, whatever it made of that."""
        if self._aborted is not None:
            raise self._aborted

    def _stop(self) -> None:
        task = self.task
        if task is None:
            self.finish(grpc.StatusCode.CANCELLED, LOCALLY_CANCELLED)
        elif not task.done():
            # A handler that has not begun yet ends without a word of its own.
            task.add_done_callback(self._stopped)
            task.cancel()

    def _stopped(self, _: object) -> None:
        self.finish(grpc.StatusCode.CANCELLED, LOCALLY_CANCELLED)
        self.leave()

    # What a handler may ask of its context.

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> Never:
        if self._aborted is not None:
            raise grpc.aio.UsageError("Abort already called!")
        self.chosen = code
        self._details = details or self._details
        self.trailing = tuple(trailing_metadata) or self.trailing
        self._aborted = grpc.aio.AbortError("Locally aborted.")
        raise self._aborted

    async def abort_with_status(self, status: grpc.Status) -> Never:
        await self.abort(status.code, status.details, status.trailing_metadata or ())

    async def read(self) -> Never:
        raise grpc.aio.UsageError("the request of this call is not a stream")

    async def write(self, message: Any) -> None:
        raise grpc.aio.UsageError("the reply of this call is not a stream")

    async def send_initial_metadata(self, initial_metadata: Any) -> None:
        self.initial = tuple(initial_metadata)

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        self.trailing = tuple(trailing_metadata)

    def trailing_metadata(self) -> Any:
        return self.trailing

    def invocation_metadata(self) -> Any:
        return self.metadata

    def set_code(self, code: grpc.StatusCode) -> None:
        self.chosen = code

    def code(self) -> Any:
        return self.chosen

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
        self.callbacks = (*self.callbacks, lambda: callback(self))

    def cancelled(self) -> bool:
        return self.status is grpc.StatusCode.CANCELLED

    def done(self) -> bool:
        return self.status is not None


class Stream(Exchange):
    """An exchange with a stream of replies, handed over one at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, metadata: Pairs, measured: Callable[[Any], Any]) -> None:
        """`measured` gives a message the form its client knows, or raises TooLarge."""
        super().__init__(loop, metadata)
        self._measured = measured
        self._reader: asyncio.Future[Any] | None = None
        self._taken: asyncio.Future[None] | None = None

    def finish(self, code: grpc.StatusCode, text: str = "") -> None:
        super().finish(code, text)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(EMPTY)

    async def take(self) -> Any:
        """The next message, or EMPTY when the call has ended."""
        if self.status is not None:
            return EMPTY
        if self._reader is not None and not self._reader.done():
            raise grpc.aio.UsageError("another read of this stream is waiting")
        if self.reply is EMPTY:
            self._reader = self.loop.create_future()
            return await self._reader
        message, self.reply = self.reply, EMPTY
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(None)
        return message

    async def write(self, message: Any) -> None:
        """Hands a message to the client that waits for it, or waits until it is taken. CancelledError: it has gone."""
        self.raise_if_aborted()
        if self.status is not None:
            raise asyncio.CancelledError
        try:
            message = self._measured(message)
        except TooLarge as error:
            self.finish(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
            raise asyncio.CancelledError from error
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(message)
            return
        self.reply = message
        self._taken = self.loop.create_future()
        await self._taken
