"""A channel to the services of this process, without a socket but with the same rules.

Every call runs in a task of its own with an empty context, so that the handler sees only the metadata of the caller.
Size limits, deadlines, cancellation, statuses and trailers are those of a socket. Messages are not copied: both sides
treat them as immutable. A stream hands over one message at a time. A caller that is cancelled waits until the handler
has run its `finally`.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Any, Never, Self

import grpc

from taskplane.runtime.inprocess.call import InProcessCall, UnaryStreamCall, UnaryUnaryCall
from taskplane.runtime.inprocess.messages import Deserializer, MessageTooLarge, Serializer, received
from taskplane.runtime.inprocess.metadata import received as received_metadata
from taskplane.runtime.services import MAX_REQUEST, Services


class InProcessChannel(grpc.aio.Channel):
    """A channel that calls the handlers of `services`. It keeps the promises of `grpc.aio.Channel`.

    There are no methods that stream requests: a stub for one raises TypeError when it is called.
    """

    def __init__(self, services: Services) -> None:
        """Connect to `services`; those registered later are served, too."""
        self._services = services
        self._calls: dict[asyncio.Task[None], InProcessCall] = {}
        self._closed = asyncio.Event()
        self._open = True

    def unary_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, *_: Any, **__: Any
    ) -> Any:
        return partial(self._call, UnaryUnaryCall, method, request_serializer, response_deserializer)

    def unary_stream(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, *_: Any, **__: Any
    ) -> Any:
        return partial(self._call, UnaryStreamCall, method, request_serializer, response_deserializer)

    def stream_unary(self, method: str, *_: Any, **__: Any) -> Any:
        return _unserved(method)

    def stream_stream(self, method: str, *_: Any, **__: Any) -> Any:
        return _unserved(method)

    def _call(
        self,
        kind: type[UnaryUnaryCall | UnaryStreamCall],
        path: str,
        serialize: Serializer,
        deserialize: Deserializer,
        request: Any,
        *,
        timeout: float | None = None,
        metadata: Iterable[tuple[str, str | bytes]] | None = None,
        **_: object,
    ) -> InProcessCall:
        """Start a call. Options that concern a connection have no effect."""
        if not self._open:
            raise grpc.aio.UsageError("Channel is closed.")
        pairs = received_metadata(metadata or ())
        method: Any = self._services.handlers.get(path)
        handler = method and (method.unary_unary if kind is UnaryUnaryCall else method.unary_stream)
        call = kind(timeout, method and method.response_serializer, deserialize)
        if not handler:
            call.finish(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
            return call
        if timeout is not None and timeout <= 0:
            call.finish(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
            return call
        try:
            request = received(request, serialize, method.request_deserializer, MAX_REQUEST, "Sent")
        except MessageTooLarge as error:
            call.finish(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
            return call
        task = call.start(handler, request, pairs)
        self._calls[task] = call
        task.add_done_callback(self._calls.pop)
        return call

    async def close(self, grace: float | None = None) -> None:
        """Start no more calls, give running calls `grace` seconds, then cancel them and wait until they have ended."""
        self._open = False
        self._closed.set()
        if self._calls and grace:
            await asyncio.wait(self._calls, timeout=grace)
        tasks = list(self._calls)
        for call in self._calls.values():
            call.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Return READY, or SHUTDOWN once it is closed."""
        return grpc.ChannelConnectivity.READY if self._open else grpc.ChannelConnectivity.SHUTDOWN

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        if self.get_state() is last_observed_state:
            await self._closed.wait()

    async def channel_ready(self) -> None:
        """Return at once."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.close()


def _unserved(method: str) -> Callable[..., Never]:
    # Stubs make a caller of every method, so it refuses when it is called.
    def refuse(*_: Any, **__: Any) -> Never:
        raise TypeError(f"{method}: methods with request streams are not supported in process")

    return refuse
