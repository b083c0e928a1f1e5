"""A channel to the servicers of this process. It saves the socket, and is not kinder than one.

Every call runs in a task of its own with an empty context, so nothing of the caller is seen but its metadata. Size
limits, deadlines, cancellation, statuses and trailers are those of a socket. Messages are handed over as they are, not
copied: both sides treat them as immutable. A stream hands over one message at a time. A caller that is cancelled waits
until the handler has finished its `finally`; cancelled once more it does not.
"""

import asyncio
from typing import Any

import grpc

from taskplane.runtime.exchange import ChannelClosed, Exchange
from taskplane.runtime.local_method import LocalMethod
from taskplane.runtime.one_request import OneRequest
from taskplane.runtime.running import Running
from taskplane.runtime.services import Services


class LocalChannel(OneRequest):
    """A channel that calls `services` directly. Use it through stubs, like any other, and close it like any other.

    What says nothing of its own keeps the promise of `grpc.aio.Channel`.
    """

    def __init__(self, services: Services) -> None:
        """What is registered later is served, too."""
        self._services = services
        self._under_way = Running()
        self._end = asyncio.Event()

    @property
    def running(self) -> set[Exchange]:
        """The calls whose handlers have not ended yet."""
        return self._under_way.all()

    def unary_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, *_: Any, **__: Any
    ) -> Any:
        return self._method(method, request_serializer, response_deserializer, streaming=False)

    def unary_stream(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, *_: Any, **__: Any
    ) -> Any:
        return self._method(method, request_serializer, response_deserializer, streaming=True)

    def _method(self, path: str, serialize: Any, deserialize: Any, *, streaming: bool) -> LocalMethod:
        return LocalMethod(self._services.handlers, self._under_way, path, serialize, deserialize, streaming=streaming)

    async def close(self, grace: float | None = None) -> None:
        """No call starts any more; those that run have `grace` seconds, then they are cancelled and waited for."""
        self._under_way.closed = True
        self._end.set()
        tasks = {exchange.task for exchange in self.running if exchange.task is not None}
        if tasks and grace:
            await asyncio.wait(tasks, timeout=grace)
        for exchange in self.running:
            exchange.cancel(ChannelClosed)
        if tasks:
            await asyncio.wait(tasks)
        self._under_way.stop()

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """READY until it is closed."""
        return grpc.ChannelConnectivity.SHUTDOWN if self._under_way.closed else grpc.ChannelConnectivity.READY

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Returns when the state is another one; the only change there is is the end."""
        if self.get_state() is last_observed_state:
            await self._end.wait()

    async def channel_ready(self) -> None:
        """It is."""
