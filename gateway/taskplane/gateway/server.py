"""The HTTP server of the gateway: composition, listening and draining."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Generator, Mapping
from dataclasses import dataclass
from typing import Final

import grpc
import uvicorn

from taskplane.api.executor.v1.executor_pb2_grpc import AgentExecutorStub
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.gateway.agents import Agents
from taskplane.gateway.app import application
from taskplane.gateway.auth import Authenticator
from taskplane.gateway.plane import Plane
from taskplane.gateway.probes import Probe, probes
from taskplane.gateway.protocol import Protocol
from taskplane.gateway.settings import GatewaySettings
from taskplane.gateway.streams import Streams
from taskplane.gateway.worker import Worker
from taskplane.runtime.channel import client
from taskplane.runtime.errors import Unavailable
from taskplane.runtime.principal import Principal

# Bytes of kernel memory that a stalled reader costs at most, besides the transport's buffer.
SEND_BUFFER: Final = 256 * 1024
_BACKLOG: Final = 2048
# Longer than the keep-alive of common clients and proxies, which could otherwise use a closing connection.
_IDLE: Final = 75


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway that listens. `url` is its address for clients on this machine, `public_url` its address in agent
    cards."""

    host: str
    port: int
    url: str
    public_url: str


@contextlib.asynccontextmanager
async def open_gateway(
    settings: GatewaySettings,
    *,
    tasks: grpc.aio.Channel,
    sessions: grpc.aio.Channel,
    executor: grpc.aio.Channel,
    ready: Mapping[str, Probe] | None = None,
) -> AsyncGenerator[Gateway]:
    """Serve HTTP until the context is left; then report not ready, end the streams after `drain_delay` seconds, and the
    requests after `shutdown_timeout` seconds at the latest.

    The channels are not wrapped by `client`. `ready` maps service names to readiness checks; None: use the gRPC health
    protocol, which in-process channels do not serve. Raise Invalid if other machines could call without
    authentication; Unavailable `CANNOT_LISTEN`.
    """
    authenticator = Authenticator(settings)
    identity = Principal("", "", "gateway", service=True)
    secret = settings.internal_secret.encode()
    clients = {
        name: client(channel, identity=identity, secret=secret)
        for name, channel in (("tasks", tasks), ("sessions", sessions), ("executor", executor))
    }
    stub = AgentExecutorStub(clients["executor"])
    streams = Streams(settings.max_streams, settings.max_streams_per_principal)
    drain = asyncio.Event()
    with contextlib.closing(Worker()) as worker, _listening(settings) as listener:
        port: int = listener.getsockname()[1]
        name = f"[{settings.host}]" if ":" in settings.host else settings.host
        here = "127.0.0.1" if settings.host in ("0.0.0.0", "::", "") else name
        gateway = Gateway(
            settings.host, port, f"http://{here}:{port}", settings.public_url.rstrip("/") or f"http://{here}:{port}"
        )
        plane = Plane(
            settings=settings,
            public_url=gateway.public_url,
            tasks=TaskStoreStub(clients["tasks"]),
            sessions=SessionHistoryStub(clients["sessions"]),
            executor=stub,
            agents=Agents(stub, settings.card_age),
            authenticator=authenticator,
            streams=streams,
            worker=worker,
            probes=ready if ready is not None else probes(clients),
            draining=drain.is_set,
        )
        async with _serving(plane, listener):
            try:
                yield gateway
            finally:
                drain.set()
                await asyncio.sleep(settings.drain_delay)
                streams.drain()


@contextlib.contextmanager
def _listening(settings: GatewaySettings) -> Generator[socket.socket]:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets whose protocol is given explicitly.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted connections inherit it.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        try:
            listener.bind((settings.host, settings.port))
        except OSError as error:
            raise Unavailable(
                f"cannot listen on {settings.host}:{settings.port}: {error.strerror}",
                reason="CANNOT_LISTEN",
                suggestion="stop what listens there, or set TASKPLANE_GATEWAY_PORT to another port",
            ) from error
        listener.setblocking(False)
        yield listener


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to the process and reports when it has started."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


@contextlib.asynccontextmanager
async def _serving(plane: Plane, listener: socket.socket) -> AsyncGenerator[None]:
    config = uvicorn.Config(
        application(plane),
        http=Protocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=plane.settings.shutdown_timeout,
        reset_contextvars=True,
    )
    server = _Server(config)
    running = asyncio.create_task(server.serve([listener]), name="http server")
    up = asyncio.create_task(server.up.wait())
    await asyncio.wait({running, up}, return_when=asyncio.FIRST_COMPLETED)
    up.cancel()
    if running.done():
        running.result()
        raise Unavailable("the HTTP server did not start", reason="CANNOT_LISTEN")
    try:
        yield
    finally:
        server.should_exit = True
        await running
