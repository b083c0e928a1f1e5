"""Serving gRPC: what is registered once, and the sockets it is served on."""

import asyncio
import contextvars
import ipaddress
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn, cast

import grpc
from grpc_reflection.v1alpha import reflection

from taskplane.runtime.errors import Invalid, Unavailable
from taskplane.runtime.health import PATIENCE, PERIOD, Health, Probe
from taskplane.runtime.identity import Seal
from taskplane.runtime.interceptors import Context, Method, tolerant, wrap
from taskplane.runtime.policy import Access
from taskplane.runtime.principal import Principal

__all__ = ["MAX_REPLY", "MAX_REQUEST", "Access", "Context", "Services", "Serving", "serving"]

MAX_REQUEST: Final = 4 * 1024 * 1024
"""Bytes of a request at most."""
MAX_REPLY: Final = 64 * 1024 * 1024
"""Bytes of a reply at most, as our own channels take them."""

_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    ("grpc.max_receive_message_length", MAX_REQUEST),
    ("grpc.max_send_message_length", -1),
    # Pings from clients every 10 s are welcome. (`min_recv_ping_interval_without_data_ms` has no effect, grpcio 1.85.)
    ("grpc.http2.min_ping_interval_without_data_ms", 2_500),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # Without it a peer that went silent is noticed after 60 s, whatever keepalive_timeout_ms says.
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Lets a balancer spread clients anew; streams that are open go on.
    ("grpc.max_connection_age_ms", 30 * 60 * 1000),
    # Two processes on one port would share its calls at random.
    ("grpc.so_reuseport", 0),
)


class Services(grpc.aio.Server):
    """The services of a process, each method with its concerns around it, for sockets and local channels alike.

    It goes where the generated `add_XServicer_to_server` wants a server. It listens nowhere: `serving` does.
    """

    def __init__(self, *, policy: Mapping[str, Access], secret: bytes = b"", default: Principal | None = None) -> None:
        """`policy` has a line per method path ("/package.Service/Method"); a method without one is refused.

        With `secret`, a principal counts only if it is signed with it, and `default` counts for nothing. Without, calls
        that name no principal are made by `default`, or refused as UNAUTHENTICATED.
        """
        self.secret = secret
        self.handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        """Every method by its path, wrapped."""
        self.names: list[str] = []
        """The full names of the services."""
        self._policy = dict(policy)
        self._seal = Seal(secret)
        self._default = default

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Does nothing: generated code registers a service twice; `add_registered_method_handlers` has the names."""

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: "Mapping[str, grpc.RpcMethodHandler[Any, Any]]"
    ) -> None:
        """Takes a service. ValueError: it is there already."""
        if service_name in self.names:
            raise ValueError(f"{service_name} is registered already")
        self.names.append(service_name)
        for name, handler in method_handlers.items():
            path = f"/{service_name}/{name}"
            method = Method(
                path=path,
                streaming=bool(handler.response_streaming),
                access=self._policy.get(path),
                seal=self._seal,
                signed=bool(self.secret),
                default=self._default,
            )
            self.handlers[path] = wrap(handler, method)

    def register(self, server: grpc.aio.Server) -> None:
        """Adds every service to a server that listens."""
        for service in self.names:
            prefix = f"/{service}/"
            methods = {
                path[len(prefix) :]: _tolerant(h) for path, h in self.handlers.items() if path.startswith(prefix)
            }
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))

    def add_insecure_port(self, address: str) -> NoReturn:
        """Refused: `serving` listens."""
        raise TypeError("Services listens nowhere; use taskplane.runtime.server.serving")

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials) -> NoReturn:
        """Refused: `serving` listens."""
        raise TypeError("Services listens nowhere; use taskplane.runtime.server.serving")

    async def start(self) -> NoReturn:
        """Refused: `serving` starts and stops."""
        raise TypeError("Services cannot be started; use taskplane.runtime.server.serving")

    async def stop(self, grace: float | None) -> NoReturn:
        """Refused: `serving` starts and stops."""
        raise TypeError("Services cannot be stopped; use taskplane.runtime.server.serving")

    async def wait_for_termination(self, timeout: float | None = None) -> NoReturn:
        """Refused: `serving` starts and stops."""
        raise TypeError("Services never runs; use taskplane.runtime.server.serving")


def _tolerant(handler: "grpc.RpcMethodHandler[Any, Any]") -> "grpc.RpcMethodHandler[Any, Any]":
    """The same handler, whose concerns also see what cannot be parsed."""
    parse, form = tolerant(handler.request_deserializer), handler.response_serializer
    if handler.response_streaming:
        return grpc.unary_stream_rpc_method_handler(cast("Any", handler.unary_stream), parse, form)
    return grpc.unary_unary_rpc_method_handler(cast("Any", handler.unary_unary), parse, form)


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that listens: `address` is what a client on this machine connects to."""

    address: str
    port: int
    health: Health


@asynccontextmanager
async def serving(
    services: Services,
    listen: str,
    *,
    ready: Probe | None = None,
    grace: float = 5.0,
    patience: float = PATIENCE,
    period: float = PERIOD,
) -> AsyncGenerator[Serving]:
    """Serves on `listen` ("host:port", port 0 for any; "unix:/path") with health and reflection.

    Health follows `ready`; see `health.Health`. On exit it says NOT_SERVING, takes no new calls, and gives those that
    run `grace` seconds before they are cancelled. Invalid: a non-loopback address without a secret. Unavailable: the
    address cannot be had.
    """
    host = _host(listen)
    if not services.secret and not _is_loopback(host):
        raise Invalid(
            f"refusing to listen on {listen}: it can be reached from other machines and nothing would be authenticated",
            reason="INSECURE_LISTEN",
            suggestion="set internal_secret to the same value in every process, or listen on 127.0.0.1",
            fields={"internal_secret": "needed for a listen address that is not loopback"},
        )
    server = grpc.aio.server(options=_OPTIONS)
    services.register(server)
    health = Health(services.names, ready, period=period, patience=patience)
    await health.register(server)
    reflection.enable_server_reflection([*services.names, "grpc.health.v1.Health", reflection.SERVICE_NAME], server)
    try:
        port = server.add_insecure_port(listen)
    except RuntimeError as error:
        raise Unavailable(
            f"cannot listen on {listen}: the address is in use or is not this machine's", reason="CANNOT_LISTEN"
        ) from error
    # Handlers inherit the context the server was started in: let it be an empty one.
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
        raise Invalid(f"{listen!r} is not an address to listen on; write host:port", reason="BAD_LISTEN")
    return host.removeprefix("[").removesuffix("]")


def _is_loopback(host: str) -> bool:
    if host in ("localhost", "unix"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _reachable(host: str) -> str:
    if host in ("", "0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
