"""The concerns of a client around any channel: deadline, request id, principal, and our errors.

grpc.aio's own client interceptors need a channel with a socket; this works for the in-process channel, too.
"""

import asyncio
from collections.abc import AsyncIterator, Generator, Iterable
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, Final, cast

import grpc

from taskplane.runtime import logs, principal, status, tracing
from taskplane.runtime.errors import PlaneError, Unavailable
from taskplane.runtime.identity import PRINCIPAL_KEY, PrincipalSigner
from taskplane.runtime.inprocess.channel import InProcessChannel
from taskplane.runtime.interceptors import REQUEST_ID_KEY
from taskplane.runtime.principal import Principal

DEADLINE: Final = 10.0
PATIENCE: Final = 3.0
"""Seconds for which services wait for each other (`patience`); a replica that leaves does so within one, and behind a
balancer it may take two connections more to find another one."""

_Metadata = Iterable[tuple[str, str | bytes]]
_NO_SERVER: Final = grpc.ChannelConnectivity.TRANSIENT_FAILURE
_FAILURES: Final = (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.CancelledError)


def client(
    channel: grpc.aio.Channel,
    *,
    identity: Principal,
    secret: bytes = b"",
    deadline: float = DEADLINE,
    patience: float = 0.0,
) -> grpc.aio.Channel:
    """Return a channel with stubs that call as the principal of `acting_as`, or else as `identity`.

    A unary call has `deadline` seconds unless it is called with `timeout=`; a stream has no deadline unless it is. The
    request id and the trace of the call being served go along. Every failure is raised as a PlaneError, also by `async
    for`. A stream that is left before its end is cancelled with `cancel()`, or when nobody refers to it any more.
    Everything but the two kinds of methods is that of `channel`.

    With `patience`, a unary call that finds all servers of the channel gone waits up to so many seconds for one before
    it is made; where the channel has a socket it is a coroutine then, and no `grpc.aio.Call`. So a call that must not
    be repeated is not lost while a server leaves and its balancer chooses another one.
    """
    return cast("grpc.aio.Channel", _Client(channel, identity, PrincipalSigner(secret), deadline, patience))


class _Client:
    def __init__(
        self,
        channel: grpc.aio.Channel,
        identity: Principal,
        signer: PrincipalSigner,
        deadline: float,
        patience: float,
    ) -> None:
        self._channel = channel
        self._identity = identity
        self._signed = lru_cache(maxsize=1_024)(signer.write)
        self._deadline = deadline
        self._patience = patience

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def metadata(self, given: _Metadata) -> list[tuple[str, str | bytes]]:
        """Return the metadata of a call: the caller, the request, the trace, and the given metadata."""
        who = (PRINCIPAL_KEY, self._signed(principal.current() or self._identity))
        request = (REQUEST_ID_KEY, logs.request_id.get() or logs.new_request_id())
        return [who, request, *tracing.carrier(), *given] if tracing.LIVE.on else [who, request, *given]

    def unary_unary(self, *args: Any, **kwargs: Any) -> Any:
        method = _Method(self, self._channel.unary_unary(*args, **kwargs), _UnaryCall, self._deadline)
        # No server of a channel within this process is ever gone for a while.
        waits = self._patience and not isinstance(self._channel, InProcessChannel)
        return partial(self._call_patiently, method) if waits else method

    def unary_stream(self, *args: Any, **kwargs: Any) -> Any:
        return _Method(self, self._channel.unary_stream(*args, **kwargs), _StreamCall, None)

    async def _call_patiently(self, method: "_Method", request: Any, **options: Any) -> Any:
        """Call `method`, first waiting for a server where a call would fail at once."""
        if self._channel.get_state() is _NO_SERVER:
            with suppress(TimeoutError, grpc.aio.UsageError):
                async with asyncio.timeout(self._patience):
                    while self._channel.get_state(try_to_connect=True) is _NO_SERVER:
                        await self._channel.wait_for_state_change(_NO_SERVER)
        return await cast("_UnaryCall", method(request, **options))


class _Method:
    def __init__(self, client: _Client, method: Any, call: "type[_Call]", deadline: float | None) -> None:
        self._client = client
        self._method = method
        self._call = call
        self._deadline = deadline

    def __call__(
        self, request: Any, *, timeout: float | None = None, metadata: _Metadata = (), **options: Any
    ) -> "_Call":
        if timeout is None:
            timeout = self._deadline
        try:
            call = self._method(request, timeout=timeout, metadata=self._client.metadata(metadata), **options)
        except grpc.aio.UsageError as error:
            raise _closed() from error
        return self._call(call)


class _Call:
    """The call underneath; `code`, `details` and the metadata are as it has them."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._cancelled = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def cancel(self) -> bool:
        self._cancelled = True
        return cast("bool", self._call.cancel())

    def _translated(self, error: BaseException) -> PlaneError | None:
        """Convert an error of gRPC to a PlaneError; None if the caller was cancelled."""
        if isinstance(error, grpc.aio.AioRpcError):
            return status.from_rpc_error(error)
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and (self._cancelled or task is None or task.cancelling()):
            # grpc.aio does it only if the cancellation comes at the right moment (1.85: not while the headers arrive).
            self._call.cancel()
            return None
        # Nobody cancelled the caller: its channel was closed under it.
        return _closed()


class _UnaryCall(_Call):
    def __await__(self) -> Generator[Any, Any, Any]:
        try:
            waiting: Generator[Any, Any, Any] = self._call.__await__()
            return (yield from waiting)
        except _FAILURES as error:
            if (ours := self._translated(error)) is None:
                raise
            raise ours from error


class _StreamCall(_Call):
    def __init__(self, call: Any) -> None:
        super().__init__(call)
        self._loop = asyncio.get_running_loop()

    def __del__(self) -> None:
        # A channel refers to its calls, so they never notice that their users have gone. The collector may come in any
        # thread, and in the midst of anything.
        if not self._loop.is_closed() and not self._call.done():
            self._loop.call_soon_threadsafe(self._call.cancel)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        if (reply := await self.read()) is grpc.aio.EOF:
            raise StopAsyncIteration
        return reply

    async def read(self) -> Any:
        try:
            return await self._call.read()
        except _FAILURES as error:
            if (ours := self._translated(error)) is None:
                raise
            raise ours from error


def _closed() -> Unavailable:
    return Unavailable("the channel to another service was closed", reason="CHANNEL_CLOSED")
