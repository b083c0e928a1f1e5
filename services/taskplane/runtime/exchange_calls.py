"""Calls on our own channels as their clients hold them: what grpc.aio's call objects do, over an `Exchange`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

import grpc

from taskplane.runtime.exchange import EMPTY, OK, Exchange, Stream

Failed = Callable[[BaseException], BaseException]
"""What a client raises for an error of gRPC."""


class _Call:
    """A call as its client holds it."""

    def __init__(self, exchange: Exchange, failed: Failed) -> None:
        self.exchange = exchange
        self._failed = failed

    def cancel(self) -> bool:
        return self.exchange.cancel()

    def cancelled(self) -> bool:
        return self.exchange.cancellation is not None or self.exchange.cancelled()

    def done(self) -> bool:
        return self.exchange.done()

    def time_remaining(self) -> float | None:
        remaining: float | None = self.exchange.time_remaining()
        return remaining

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self.exchange.settling().add_done_callback(lambda _: callback(self))

    async def initial_metadata(self) -> grpc.aio.Metadata:
        await self._end()
        return grpc.aio.Metadata(*self.exchange.initial)

    async def trailing_metadata(self) -> grpc.aio.Metadata:
        await self._end()
        return grpc.aio.Metadata(*self.exchange.trailing)

    async def code(self) -> grpc.StatusCode:
        await self._end()
        return self.exchange.status or grpc.StatusCode.UNKNOWN

    async def details(self) -> str:
        await self._end()
        return self.exchange.text

    async def wait_for_connection(self) -> None:
        """There is nothing to connect to."""

    async def _end(self) -> None:
        if self.exchange.status is None:
            await asyncio.wait((self.exchange.settling(),))


class UnaryCall(_Call, grpc.aio.UnaryUnaryCall[Any, Any]):
    """A call with one reply. It runs whether it is awaited or not."""

    def __await__(self) -> Generator[Any, Any, Any]:
        exchange = self.exchange
        if exchange.status is None:
            settled = exchange.settled
            if settled is None:
                settled = exchange.settled = exchange.loop.create_future()
            try:
                yield from settled
            except asyncio.CancelledError:
                exchange.cancel()
                yield from exchange.ended().__await__()
                raise
        if exchange.status is OK:
            return exchange.reply
        raise self._failed(exchange.failure())


class StreamCall(_Call, grpc.aio.UnaryStreamCall[Any, Any]):
    """A call with a stream of replies. It is cancelled when nobody refers to it any more."""

    def __init__(self, stream: Stream, failed: Failed) -> None:
        super().__init__(stream, failed)
        self._stream = stream

    def __del__(self) -> None:
        stream = self._stream
        if stream.status is None and not stream.loop.is_closed():
            # The collector may come in any thread, and in the midst of anything.
            stream.loop.call_soon_threadsafe(stream.cancel)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        stream = self._stream
        try:
            message = await stream.take()
        except asyncio.CancelledError:
            stream.cancel()
            await stream.ended()
            raise
        if message is not EMPTY:
            return message
        if stream.status is OK:
            raise StopAsyncIteration
        raise self._failed(stream.failure())

    async def read(self) -> Any:
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            return grpc.aio.EOF
