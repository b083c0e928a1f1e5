"""A channel whose calls share a tunnel."""

import asyncio
import contextvars
from typing import Any, Final

import grpc

from taskplane.api.tunnel.v1 import tunnel_pb2 as pb
from taskplane.api.tunnel.v1.tunnel_pb2_grpc import TunnelStub
from taskplane.runtime.exchange import Exchange, Pairs
from taskplane.runtime.method import ChannelMethod
from taskplane.runtime.one_request import Over
from taskplane.runtime.running import Running
from taskplane.runtime.tunnel.link import Link, Remote, RemoteStream, RemoteUnary

# Seconds after which a new tunnel is opened, so that a balancer gets to spread the calls anew.
_LIFE: Final = 600.0
# What gRPC itself serves, for a whole process: its health for one.
_NOT_OURS: Final = "/grpc."


class TunnelChannel(Over):
    """A channel whose calls go through one tunnel over `channel`; what is called keeps its own deadlines, metadata,
    statuses, trailers and cancellation. A tunnel that breaks fails its calls as UNAVAILABLE, and the next call opens
    another. `channel` is closed with it; gRPC's own services are called on it directly.

    What says nothing of its own keeps the promise of `grpc.aio.Channel`.
    """

    def __init__(self, channel: grpc.aio.Channel) -> None:
        super().__init__(channel)
        self._open = TunnelStub(channel).Open
        self.under_way = Running()
        """The calls that have not ended."""
        self.links: dict[Link, asyncio.Task[None]] = {}
        """The tunnels that have not ended."""
        self._link: Link | None = None

    def unary_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        if method.startswith(_NOT_OURS):
            return self._channel.unary_unary(method, request_serializer, response_deserializer, *args, **kwargs)
        return _TunnelMethod(self, method, request_serializer, response_deserializer, streaming=False)

    def unary_stream(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        if method.startswith(_NOT_OURS):
            return self._channel.unary_stream(method, request_serializer, response_deserializer, *args, **kwargs)
        return _TunnelMethod(self, method, request_serializer, response_deserializer, streaming=True)

    def link(self, loop: asyncio.AbstractEventLoop) -> Link:
        """The tunnel for a new call."""
        link = self._link
        if link is not None and link.open:
            if loop.time() - link.opened < _LIFE:
                return link
            link.leave()
        link = self._link = Link(self._open(), loop)
        # Nothing of the call that happens to be the first goes along with all the others.
        task = loop.create_task(link.run(), name="tunnel", context=contextvars.Context())
        self.links[link] = task
        task.add_done_callback(lambda _: self.links.pop(link, None))
        return link

    async def close(self, grace: float | None = None) -> None:
        """No call starts any more; those that run have `grace` seconds, then they are cut off."""
        self.under_way.closed = True
        if grace and (settling := [exchange.settling() for exchange in self.under_way.all()]):
            await asyncio.wait(settling, timeout=grace)
        tasks = list(self.links.values())
        for link in list(self.links):
            link.cut()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.under_way.stop()
        await super().close()


class _TunnelMethod(ChannelMethod):
    """One method as a client calls it through a tunnel."""

    def __init__(self, channel: TunnelChannel, path: str, serialize: Any, deserialize: Any, *, streaming: bool) -> None:
        super().__init__(channel.under_way, path, streaming=streaming)
        self._channel = channel
        self._serialize = serialize
        self._parse = deserialize if deserialize is not None else bytes

    def _exchange(self, loop: asyncio.AbstractEventLoop, metadata: Pairs) -> Exchange:
        return (RemoteStream if self._streaming else RemoteUnary)(loop, metadata, self._parse)

    def _sent(self, exchange: Exchange, request: Any) -> tuple[Any, int]:
        raw = self._serialize(request) if self._serialize is not None else request
        return raw, len(raw)

    def _begin(self, exchange: Exchange, request: Any, timeout: float | None) -> None:
        assert isinstance(exchange, Remote)
        begin = pb.Begin(method=self._path, streaming=self._streaming, timeout=timeout or 0.0)
        self._channel.link(exchange.loop).begin(exchange, begin, request)
