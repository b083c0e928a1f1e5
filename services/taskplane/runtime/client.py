"""What every call of ours carries and how it fails, around any channel: deadline, request id, principal, our errors.

grpc.aio's own client interceptors need a channel with a socket; this works for both kinds and costs less.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from typing import Any, Final, cast

import grpc

from taskplane.runtime import logs, principal, status
from taskplane.runtime.errors import Unavailable
from taskplane.runtime.exchange import ChannelClosed, Pairs
from taskplane.runtime.identity import PRINCIPAL_KEY, Seal
from taskplane.runtime.interceptors import REQUEST_ID_KEY
from taskplane.runtime.memo import Memo
from taskplane.runtime.method import ChannelMethod, Habits
from taskplane.runtime.one_request import Over
from taskplane.runtime.principal import Principal

DEADLINE: Final = 10.0

_principal: Final = principal.current
_request_id: Final = logs.request_id.get
_Metadata = Iterable[tuple[str, str | bytes]]
_Outgoing = Callable[[_Metadata | None], Pairs]


def client(
    channel: grpc.aio.Channel, *, identity: Principal, secret: bytes = b"", deadline: float = DEADLINE
) -> grpc.aio.Channel:
    """A channel whose stubs call as the principal of `acting_as`, or else as `identity`.

    A unary call has `deadline` seconds unless it is called with `timeout=`; a stream has no deadline unless it is. The
    request id of the call being served goes along. Whatever fails is raised as a PlaneError, also by `async for`.
    A stream that is left before its end is cancelled with `cancel()`, or when nobody refers to it any more.
    """
    return _Client(channel, identity, Seal(secret), deadline)


class _Client(Over):
    def __init__(self, channel: grpc.aio.Channel, identity: Principal, seal: Seal, deadline: float) -> None:
        super().__init__(channel)
        self._identity = identity
        self._sealed: Memo[Principal, tuple[str, str]] = Memo(lambda who: (PRINCIPAL_KEY, seal.write(who)))
        self._deadline = deadline

    def _outgoing(self, given: _Metadata | None) -> Pairs:
        own = (
            self._sealed[_principal() or self._identity],
            (REQUEST_ID_KEY, _request_id() or logs.new_request_id()),
        )
        return own if given is None else (*own, *given)

    def unary_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, *_: Any, **__: Any
    ) -> Any:
        call = self._channel.unary_unary(method, request_serializer, response_deserializer)
        if isinstance(call, ChannelMethod):
            return call.of(Habits(self._outgoing, self._deadline, _translated))
        return _Unary(call, self._outgoing, self._deadline)

    def unary_stream(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, *_: Any, **__: Any
    ) -> Any:
        call = self._channel.unary_stream(method, request_serializer, response_deserializer)
        if isinstance(call, ChannelMethod):
            return call.of(Habits(self._outgoing, None, _translated))
        return _Stream(call, self._outgoing)


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
        if not isinstance(error, asyncio.CancelledError):
            return _translated(error)
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


def _translated(error: BaseException) -> BaseException:
    """What we raise for an error of gRPC; any other error is itself."""
    if isinstance(error, grpc.aio.AioRpcError):
        ours: BaseException = status.from_rpc_error(error)
    elif isinstance(error, (grpc.aio.UsageError, ChannelClosed)):
        ours = _closed()
    else:
        return error
    ours.__cause__ = error
    return ours


def _closed() -> Unavailable:
    return Unavailable("the channel to a part of the service was closed", reason="CHANNEL_CLOSED")
