"""Sockets for services, with health and reflection."""

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import grpc

from taskplane.runtime import reflection
from taskplane.runtime.anonymous import Anonymous
from taskplane.runtime.errors import Invalid, Unavailable
from taskplane.runtime.health import PATIENCE, PERIOD, Health, Probe
from taskplane.runtime.services import MAX_REQUEST, Services
from taskplane.runtime.validation import is_loopback

CONNECTION_AGE: Final = 10.0
"""Seconds after which a connection takes no new calls; gRPC varies it by up to a tenth. Its client connects anew,
through a balancer perhaps to another replica, and resolves its target again, which is when it finds new replicas."""
CONNECTION_GRACE: Final = 330.0
"""Seconds that calls then have to end; more than the longest unary call, an import of 300 s. A stream that goes on is
cut off as UNAVAILABLE, and its client resumes it on a newer connection."""

NOTICE: Final = 1.0
"""Seconds for which a server that is NOT_SERVING waits for its clients to go elsewhere."""

_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    ("grpc.max_receive_message_length", MAX_REQUEST),
    ("grpc.max_send_message_length", -1),
    # A compressed request is refused: its limit would count before it is decompressed, also for unknown callers.
    ("grpc.per_message_decompression", 0),
    # Clients may ping as often as they like; by default three pings within five minutes are too many.
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # Without this option a silent peer is noticed only after 60 s, with any keepalive_timeout_ms.
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Two processes on one port would share its calls at random.
    ("grpc.so_reuseport", 0),
)


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that listens. `address`: where a client on this machine finds it."""

    address: str
    port: int
    health: Health

    async def leave(self) -> None:
        """Report NOT_SERVING and wait until clients know it. Calls are served until the server stops.

        gRPC loses calls that arrive while a server stops (they end as CANCELLED), so they have to go elsewhere before.
        """
        await self.health.shut()
        await asyncio.sleep(NOTICE)


@asynccontextmanager
async def serving(
    services: Services,
    listen: str,
    *,
    ready: Probe | None = None,
    grace: float = 5.0,
    patience: float = PATIENCE,
    period: float = PERIOD,
    connection_age: float | None = CONNECTION_AGE,
    connection_grace: float = CONNECTION_GRACE,
    max_calls: int | None = None,
    max_anonymous: int | None = None,
    max_connection_calls: int | None = None,
    setting: str = "",
    interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
) -> AsyncGenerator[Serving]:
    """Serve on `listen` ("host:port", port 0 for any; "unix:/path") with health and reflection.

    Health follows `ready`; see `health.Health`. On exit it says NOT_SERVING, takes no new calls, and gives those that
    run `grace` seconds before they are cancelled. A connection takes new calls for `connection_age` seconds, and has
    `connection_grace` seconds more for those that run; None: no limit, for clients that would not go on with a stream
    on another connection. `max_calls`: further ones get RESOURCE_EXHAUSTED, without details. `max_anonymous`: the
    open streams of health and reflection, and the same number of their other calls; further ones are Exhausted. Without
    it they have no limit of their own. `max_connection_calls`: further ones of one connection wait in its client.
    `interceptors` see every call before our own handlers do. `setting` names the address.
    Invalid: a non-loopback address for internal services without a secret. Unavailable: the address cannot be had.
    """
    host = _host(listen)
    if services.internal and not services.secret and host != "unix" and not is_loopback(host):
        raise Invalid(
            f"refusing to listen on {listen}: other machines could call it without authentication",
            reason="INSECURE_LISTEN",
            suggestion="set internal_secret to the same value in every process, or listen on 127.0.0.1",
            fields={"internal_secret": "is required for a listen address beyond loopback"},
        )
    options: list[tuple[str, int]] = [*_OPTIONS]
    if connection_age is not None:
        options.append(("grpc.max_connection_age_ms", int(connection_age * 1_000)))
        options.append(("grpc.max_connection_age_grace_ms", int(connection_grace * 1_000)))
    if max_connection_calls is not None:
        options.append(("grpc.max_concurrent_streams", max_connection_calls))
    server = grpc.aio.server(options=options, interceptors=interceptors, maximum_concurrent_rpcs=max_calls)
    services.register(server)
    health = Health(services.names, ready, period=period, patience=patience)
    registry = server if max_anonymous is None else Anonymous(server, max_anonymous).registry
    await health.register(registry)
    reflection.register(services, registry)
    try:
        port = server.add_insecure_port(listen)
    except RuntimeError as error:
        raise Unavailable(
            f"cannot listen on {listen}: the address is in use or is not this machine's",
            reason="CANNOT_LISTEN",
            suggestion=f"stop the program that listens there, or set {setting} to another port" if setting else "",
        ) from error
    # Handlers inherit the context in which the server was started, so start it in an empty context.
    await asyncio.create_task(server.start(), context=contextvars.Context())
    probing = asyncio.create_task(health.run(), name="health", context=contextvars.Context())
    try:
        yield Serving(listen if listen.startswith("unix:") else f"{_reachable(host)}:{port}", port, health)
    finally:
        probing.cancel()
        await asyncio.wait({probing})
        await health.shut()
        await server.stop(grace)


def _host(listen: str) -> str:
    if listen.startswith("unix:"):
        return "unix"
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit():
        raise Invalid(f"{listen!r} is not a listen address; write host:port", reason="BAD_LISTEN")
    return host.removeprefix("[").removesuffix("]")


def _reachable(host: str) -> str:
    if host in ("", "0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
