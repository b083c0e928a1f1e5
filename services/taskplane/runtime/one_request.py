"""What our channels have in common: a call has one request, and a channel is closed on the way out."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Never, Self

import grpc


class OneRequest(grpc.aio.Channel):
    """A channel without methods that stream requests, since no service of ours has one."""

    def stream_unary(self, method: str, *_: Any, **__: Any) -> Any:
        return _unserved(method)

    def stream_stream(self, method: str, *_: Any, **__: Any) -> Any:
        return _unserved(method)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.close()


class Over(OneRequest):
    """A channel over another one, whose state is its own and which is closed with it."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def close(self, grace: float | None = None) -> None:
        await self._channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._channel.channel_ready()


def _unserved(method: str) -> Callable[..., Never]:
    """Stubs make a caller per method, so it refuses when it is called."""

    def refuse(*_: Any, **__: Any) -> Never:
        raise TypeError(f"{method}: no service of ours streams requests")

    return refuse
