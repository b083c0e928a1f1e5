"""What every call of ours carries and how it fails, around any channel: deadline, request id, principal, our errors.

grpc.aio's own client interceptors need a channel with a socket; this works for both kinds and costs less.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from types import TracebackType
from typing import Any, Final, Self, cast

import grpc

from taskplane.runtime import logs, principal, status
from taskplane.runtime.errors import Unavailable
from taskplane.runtime.identity import PRINCIPAL_KEY, Seal
from taskplane.runtime.interceptors import REQUEST_ID_KEY
from taskplane.runtime.local import unserved
from taskplane.runtime.principal import Principal

DEADLINE: Final = 10.0

_Metadata = grpc.aio.Metadata | Sequence[tuple[str, str | bytes]]
_Outgoing = Callable[[_Metadata | None], tuple[tuple[str, str | bytes], ...]]


def client(
    channel: grpc.aio.Channel, *, identity: Principal, secret: bytes = b"", deadline: float = DEADLINE
) -> grpc.aio.Channel:
    """A channel whose stubs call as the principal of `acting_as`, or else as `identity`.

    A unary call has `deadline` seconds unless it is called with `timeout=`; a stream has no deadline unless it is. The
    request id of the call being served goes along. Whatever fails is raised as a PlaneError, also by `async for`.
    A stream that is left before its end is cancelled with `cancel()`, or when nobody refers to it any more.
    """
    return _Client(channel, identity, Seal(secret), deadline)


class _Client(grpc.aio.Channel):
    def __init__(self, channel: grpc.aio.Channel, identity: Principal, seal: Seal, deadline: float) -> None:
        self._channel = channel
        self._identity = identity
        self._write = seal.write
        self._deadline = deadline
        # The principal of the last call, and what was written for it.
        self._last = (identity, seal.write(identity))

    def _outgoing(self, extra: _Metadata | None) -> tuple[tuple[str, str | bytes], ...]:
        who = principal.current() or self._identity
        if who is not self._last[0]:
            self._last = (who, self._write(who))
        metadata = (
            (PRINCIPAL_KEY, self._last[1]),
            (REQUEST_ID_KEY, logs.request_id.get() or logs.new_request_id()),
        )
        return metadata if extra is None else (*metadata, *extra)

    def unary_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, *_: Any, **__: Any
    ) -> Any:
        return _Unary(
            self._channel.unary_unary(method, request_serializer, response_deserializer), self._outgoing, self._deadline
        )

    def unary_stream(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, *_: Any, **__: Any
    ) -> Any:
        return _Stream(self._channel.unary_stream(method, request_serializer, response_deserializer), self._outgoing)

    def stream_unary(self, method: str, *_: Any, **__: Any) -> Any:
        return unserved(method)

    def stream_stream(self, method: str, *_: Any, **__: Any) -> Any:
        return unserved(method)

    async def close(self, grace: float | None = None) -> None:
        await self._channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._channel.channel_ready()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.close()


class _Unary:
    __slots__ = ("_call", "_deadline", "_outgoing")

    def __init__(self, call: Any, outgoing: _Outgoing, deadline: float) -> None:
        self._call = call
        self._outgoing = outgoing
        self._deadline = deadline

    def __call__(
        self, request: Any, *, timeout: float | None = None, metadata: _Metadata | None = None, **options: Any
    ) -> "_UnaryCall":
        try:
            call = self._call(
                request,
                timeout=self._deadline if timeout is None else timeout,
                metadata=self._outgoing(metadata),
                **options,
            )
        except grpc.aio.UsageError as error:
            raise _closed() from error
        return _UnaryCall(call)


class _Stream:
    __slots__ = ("_call", "_outgoing")

    def __init__(self, call: Any, outgoing: _Outgoing) -> None:
        self._call = call
        self._outgoing = outgoing

    def __call__(
        self, request: Any, *, timeout: float | None = None, metadata: _Metadata | None = None, **options: Any
    ) -> "_StreamCall":
        try:
            call = self._call(request, timeout=timeout, metadata=self._outgoing(metadata), **options)
        except grpc.aio.UsageError as error:
            raise _closed() from error
        return _StreamCall(call)


class _Call:
    """The call underneath; `code`, `details` and the metadata are as it has them."""

    __slots__ = ("_call", "_cancelled")

    def __init__(self, call: Any) -> None:
        self._call = call
        self._cancelled = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def cancel(self) -> bool:
        self._cancelled = True
        return cast("bool", self._call.cancel())

    def _failed(self, error: BaseException) -> BaseException:
        if isinstance(error, grpc.aio.AioRpcError):
            return status.from_rpc_error(error)
        if isinstance(error, grpc.aio.UsageError):
            return _closed()
        task = asyncio.current_task()
        if self._cancelled or task is None or task.cancelling():
            # grpc.aio does it only if the cancellation comes at the right moment (1.85: not while the headers arrive).
            self._call.cancel()
            return error
        # Nobody cancelled the caller: its channel was closed under it.
        return _closed()


class _UnaryCall(_Call):
    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, Any]:
        try:
            reply = cast("Any", (yield from self._call.__await__()))
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.CancelledError) as error:
            failed = self._failed(error)
            if failed is error:
                raise
            raise failed from error
        return reply


class _StreamCall(_Call):
    __slots__ = ("_loop",)

    def __init__(self, call: Any) -> None:
        super().__init__(call)
        self._loop = asyncio.get_running_loop()

    def __del__(self) -> None:
        # A grpc.aio channel refers to its calls, so they never notice that their users have gone.
        if not self._loop.is_closed() and not self._call.done():
            self._call.cancel()

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        reply = await self.read()
        if reply is grpc.aio.EOF:
            raise StopAsyncIteration
        return reply

    async def read(self) -> Any:
        try:
            return await self._call.read()
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.CancelledError) as error:
            failed = self._failed(error)
            if failed is error:
                raise
            raise failed from error


def _closed() -> Unavailable:
    return Unavailable("the channel to a part of the service was closed", reason="CHANNEL_CLOSED")
