"""All four services in one process. They call one another through the same stubs and interceptors as over sockets."""

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from taskplane.agents.loading import Agents
from taskplane.executor.composition import ExecutorService, agents_of, open_executor
from taskplane.executor.servicer import POLICY as EXECUTOR_POLICY
from taskplane.executor.settings import ExecutorSettings
from taskplane.gateway.bindings.grpc import GrpcBinding
from taskplane.gateway.server import Gateway, open_gateway
from taskplane.gateway.settings import GatewaySettings
from taskplane.runtime.channel import InProcessChannel
from taskplane.runtime.principal import Principal
from taskplane.runtime.server import Serving, serving
from taskplane.runtime.services import Services
from taskplane.sessions.composition import open_sessions
from taskplane.sessions.servicer import POLICY as SESSIONS_POLICY
from taskplane.sessions.settings import SessionsSettings
from taskplane.storage import migrate
from taskplane.tasks.composition import open_database, open_tasks
from taskplane.tasks.queue import RESIDENT
from taskplane.tasks.servicer import POLICY as TASKS_POLICY
from taskplane.tasks.settings import TasksSettings

# The user of gRPC calls that name no principal, if no secret is set (loopback only). HTTP uses the same name.
LOCAL_USER = "local"


@dataclass(frozen=True, slots=True)
class PlaneSettings:
    """The settings of each service, with one internal secret. `grpc_listen`: the address of all gRPC services."""

    tasks: TasksSettings
    sessions: SessionsSettings
    executor: ExecutorSettings
    gateway: GatewaySettings
    grpc_listen: str


class Plane:
    """A plane that is open and listening."""

    def __init__(self, gateway: Gateway, grpc: Serving, executor: ExecutorService) -> None:
        self.gateway = gateway
        self.grpc = grpc
        self.agents = executor.agents.names
        self._executor = executor

    def replace(self, newer: Agents) -> None:
        """Serve `newer` in place of the agents with the same names."""
        self._executor.replace(newer)

    @property
    def running(self) -> int:
        """Return the number of runs in flight."""
        return len(self._executor.runs.active)


@asynccontextmanager
async def open_plane(settings: PlaneSettings) -> AsyncGenerator[Plane]:
    """Open all services and listen. At exit, close them in an order that loses nothing that was acknowledged.

    Invalid, Refused, Unavailable: a service cannot be opened.
    """
    secret = settings.tasks.internal_secret.encode()
    default_caller = None if secret else Principal(settings.gateway.tenant, LOCAL_USER, LOCAL_USER)
    services = Services(
        policy={**TASKS_POLICY, **SESSIONS_POLICY, **EXECUTOR_POLICY}, secret=secret, default=default_caller
    )
    a2a = GrpcBinding()
    a2a.register(services)
    process_id = RESIDENT + secrets.token_hex(8)
    # Load the agents before the databases are opened, so that a failed load creates no file.
    agents = agents_of(settings.executor)
    await migrate.upgrade(settings.tasks.database_url, "taskplane.tasks")
    async with (
        open_database(settings.tasks) as engine,
        open_tasks(settings.tasks, engine, resident=process_id, pacer=services.pacer) as tasks,
        open_sessions(settings.sessions, services) as sessions,
        InProcessChannel(services) as channel,
    ):
        tasks.register(services)
        of_executor = _executor_settings(settings)
        async with open_executor(of_executor, services, channel, channel, process_id, agents=agents) as executor:

            async def ready() -> bool:
                return await tasks.ready() and await sessions.ready() and await executor.ready()

            async with serving(
                services,
                settings.grpc_listen,
                ready=ready,
                grace=settings.tasks.drain_timeout,
                connection_age=None,
            ) as listening:
                async with open_gateway(
                    settings.gateway,
                    tasks=channel,
                    sessions=channel,
                    executor=channel,
                    ready={"tasks": tasks.ready, "sessions": sessions.ready, "executor": executor.ready},
                    pacer=services.pacer,
                    a2a=a2a,
                    grpc_address=listening.address,
                ) as gateway:
                    yield Plane(gateway, listening, executor)
                    await listening.health.shut()
                    await executor.drain()
                await sessions.drain()
                await tasks.drain()


def _executor_settings(settings: PlaneSettings) -> ExecutorSettings:
    """Return the settings of the executor. Without API keys there is only one tenant, so "tenants" becomes "users"."""
    of_executor = settings.executor
    if of_executor.shared_by == "tenants" and not settings.gateway.api_keys:
        return replace(of_executor, shared_by="users")
    return of_executor
