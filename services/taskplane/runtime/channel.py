"""The channels between services: through a socket, or within a process. `client` wraps both."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import grpc
from google.protobuf.descriptor import FileDescriptor

from taskplane.runtime.client import client
from taskplane.runtime.inprocess.channel import InProcessChannel
from taskplane.runtime.service_config import service_config
from taskplane.runtime.services import MAX_REPLY, MAX_REQUEST
from taskplane.runtime.target import target

__all__ = ["InProcessChannel", "client", "connect"]

_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    ("grpc.max_send_message_length", MAX_REQUEST),
    ("grpc.max_receive_message_length", MAX_REPLY),
    # A peer that is silent for a second is pinged. On a busy machine its process may answer late.
    ("grpc.keepalive_time_ms", 1_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    # Without this option a silent peer is noticed only after 60 s, with any keepalive_timeout_ms.
    ("grpc.http2.ping_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # A restarted service is found again within about a second, not within two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A name is resolved again whenever a connection ends; the default is not more often than every 30 s.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    # Channels of one process to one address would share a connection and its backoff.
    ("grpc.use_local_subchannel_pool", 1),
)


@asynccontextmanager
async def connect(address: str, *files: FileDescriptor) -> AsyncGenerator[grpc.aio.Channel]:
    """Open a channel to `address`, a gRPC target or a list (see `target`); closed on exit, which cuts its calls off.

    Calls are spread over all addresses. With the .proto files of the services that are called there, they go to those
    that are healthy only, and idempotent calls are retried (see `service_config`). Requests may have 4 MiB and replies
    64 MiB, else RESOURCE_EXHAUSTED, which our client raises as Invalid. A peer that went silent is left within 4 s, and
    calls that wait for it end as UNAVAILABLE. Invalid `BAD_TARGET`: it is no address.
    """
    options = (*_OPTIONS, ("grpc.service_config", service_config(*files)))
    channel = grpc.aio.insecure_channel(target(address), options=options)
    try:
        yield channel
    finally:
        await channel.close()
