"""The HTTP server of the gateway: composition, listening and draining."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import grpc
import uvicorn

from taskplane.api.executor.v1.executor_pb2_grpc import AgentExecutorStub
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskOperationsStub, TaskStoreStub
from taskplane.gateway.agents import Agents
from taskplane.gateway.app import application
from taskplane.gateway.auth.authenticator import SCHEMES, Authenticator, Configured
from taskplane.gateway.bindings.grpc import GrpcBinding
from taskplane.gateway.built_page import BuiltPage
from taskplane.gateway.card_signing import CardSigner
from taskplane.gateway.plane import Plane
from taskplane.gateway.probes import Probe, probes
from taskplane.gateway.settings import GatewaySettings
from taskplane.gateway.web.protocol import Protocol
from taskplane.gateway.web.streams import Streams
from taskplane.gateway.web.translation_thread import TranslationThread
from taskplane.gateway.web.uploads import Uploads
from taskplane.runtime.client import PATIENCE, client
from taskplane.runtime.http_server import listening, serving_http
from taskplane.runtime.pacing import Pacer
from taskplane.runtime.principal import Principal

# Bytes of kernel memory that a stalled reader costs at most, besides the transport's buffer.
SEND_BUFFER: Final = 256 * 1024
_BACKLOG: Final = 2048
# Longer than the keep-alive of common clients and proxies, which could otherwise use a closing connection.
_IDLE: Final = 75


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway that listens. `url` is its address for clients on this machine, `public_url` its address in agent
    cards; `why_no_page` is empty if it has the web page."""

    host: str
    port: int
    url: str
    public_url: str
    why_no_page: str


@contextlib.asynccontextmanager
async def open_gateway(
    settings: GatewaySettings,
    *,
    tasks: grpc.aio.Channel,
    sessions: grpc.aio.Channel,
    executor: grpc.aio.Channel,
    ready: Mapping[str, Probe] | None = None,
    direct: Mapping[str, grpc.aio.Channel] | None = None,
    pacer: Pacer | None = None,
    page: Traversable | None = None,
    a2a: GrpcBinding | None = None,
    grpc_address: str = "",
    schemes: Sequence[Configured] = SCHEMES,
) -> AsyncGenerator[Gateway]:
    """Serve HTTP until the context is left; then report not ready, end the streams after `drain_delay` seconds, and the
    requests, also those over gRPC, `shutdown_timeout` seconds later at the latest.

    The channels are not wrapped by `client`. `ready` maps service names to readiness checks; None: use the gRPC health
    protocol, which in-process channels do not serve. `direct`: by the same names, channels that lead to services which
    are not healthy, too, and are asked why only. `pacer`: that of the services in this process, if there are any.
    `page`: the folder of the built web page; None: the one in this package. `a2a`: A2A over gRPC, which a server of the
    caller has at `grpc_address`. `schemes`: the ways to authenticate. Raise Invalid if other machines could call
    without authentication, or cards cannot be signed; Unavailable `CANNOT_LISTEN`.
    """
    authenticator = Authenticator(settings, schemes)
    signer = CardSigner.configured(settings)
    identity = Principal("", "", "gateway", service=True)
    secret = settings.internal_secret.encode()
    channels = {"tasks": tasks, "sessions": sessions, "executor": executor}

    def clients(of: Mapping[str, grpc.aio.Channel], patience: float = 0.0) -> dict[str, grpc.aio.Channel]:
        return {
            name: client(channel, identity=identity, secret=secret, patience=patience) for name, channel in of.items()
        }

    patient = clients(channels, PATIENCE)
    stub = AgentExecutorStub(patient["executor"])
    streams = Streams(settings.max_streams, settings.max_streams_per_principal)
    drain = asyncio.Event()
    with (
        contextlib.closing(TranslationThread()) as worker,
        listening(settings.host, settings.port, setting="TASKPLANE_GATEWAY_PORT", send_buffer=SEND_BUFFER) as listener,
    ):
        port: int = listener.getsockname()[1]
        name = f"[{settings.host}]" if ":" in settings.host else settings.host
        here = "127.0.0.1" if settings.host in ("0.0.0.0", "::", "") else name
        url = f"http://{here}:{port}"
        built = BuiltPage(page or files("taskplane.gateway") / "dist")
        gateway = Gateway(settings.host, port, url, settings.public_url.rstrip("/") or url, built.why_not)
        plane = Plane(
            settings=settings,
            public_url=gateway.public_url,
            public_grpc=settings.public_grpc or ("" if settings.public_url else grpc_address),
            tasks=TaskStoreStub(patient["tasks"]),
            operations=TaskOperationsStub(patient["tasks"]),
            sessions=SessionHistoryStub(patient["sessions"]),
            executor=stub,
            agents=Agents(stub, settings.card_age),
            authenticator=authenticator,
            streams=streams,
            worker=worker,
            signer=signer,
            page=built,
            pacer=pacer or Pacer(),
            uploads=Uploads(settings),
            probes=ready if ready is not None else probes(clients(channels), clients(direct or {})),
            draining=drain.is_set,
        )
        async with (
            a2a.open(plane) if a2a is not None else contextlib.nullcontext(),
            serving_http(_config(plane), listener),
        ):
            try:
                yield gateway
            finally:
                drain.set()
                await asyncio.sleep(settings.drain_delay)
                streams.drain()


def _config(plane: Plane) -> uvicorn.Config:
    return uvicorn.Config(
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
