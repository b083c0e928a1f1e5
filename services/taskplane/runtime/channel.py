"""The channels rooms talk over: a socket, or straight into this process; one wrapper around either."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import grpc

from taskplane.runtime.client import client
from taskplane.runtime.inprocess.channel import InProcessChannel
from taskplane.runtime.services import MAX_REPLY, MAX_REQUEST

__all__ = ["InProcessChannel", "client", "connect"]

_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    ("grpc.max_send_message_length", MAX_REQUEST),
    ("grpc.max_receive_message_length", MAX_REPLY),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # A restarted service is found again within about a second, not within two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Channels of one process to one address would share a connection and its backoff.
    ("grpc.use_local_subchannel_pool", 1),
)


@asynccontextmanager
async def connect(target: str) -> AsyncGenerator[grpc.aio.Channel]:
    """A channel to `target` ("host:port", "dns:///name:port", "unix:/path"); closed on exit, cutting off its calls.

    Requests may have 4 MiB and replies 64 MiB, else RESOURCE_EXHAUSTED, which our client raises as Invalid. A peer that
    went silent is noticed within 15 s.
    """
    channel = grpc.aio.insecure_channel(target, options=_OPTIONS)
    try:
        yield channel
    finally:
        await channel.close()
