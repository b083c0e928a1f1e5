"""A worker: the part of an executor that claims tasks and runs agents, in a process or on a host of its own."""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from taskplane.agents.loading import Agents, load_agents
from taskplane.api.sessions.v1 import sessions_pb2
from taskplane.api.tasks.v1 import tasks_pb2
from taskplane.executor.composition import ExecutorService, open_runs
from taskplane.runtime import logs, process
from taskplane.runtime.channel import connect
from taskplane.runtime.errors import Unauthenticated, Unavailable
from taskplane.runtime.health import Health
from taskplane.runtime.ops import serving_ops
from taskplane.runtime.settings import load
from taskplane.worker.settings import PREFIX, WorkerSettings

log = logging.getLogger(__name__)


class Worker:
    """A process that claims the tasks of agents from the queue, and runs them.

        Worker(MyAgent(), name="mine", tasks="tasks.internal:50051", sessions="sessions.internal:50052").run()

    An executor serves the card (`--agent mine=worker:card.json`) and creates the tasks. A worker sees the tasks of all
    users of its agents, like an executor. So it calls the stores as a service.
    """

    def __init__(
        self,
        agent: Any,
        *,
        name: str,
        tasks: str | None = None,
        sessions: str | None = None,
        secret: str | None = None,
        capacity: int | None = None,
        ops_listen: str | None = None,
    ) -> None:
        """`agent`: an argument of `taskplane.agents.adapters.adapt`. `name`: as the executor serves it. `tasks`,
        `sessions`: addresses of both stores. `secret`: the `internal_secret` of the plane. `capacity`: number of runs
        at once. `ops_listen`: address for /metrics, /healthz and /readyz, or "".

        Missing arguments, and every other setting, come from TASKPLANE_WORKER_<FIELD>. Invalid: a setting is wrong.
        """
        self._agents = Agents({name: agent})
        self._settings = load(
            WorkerSettings,
            PREFIX,
            tasks=tasks,
            sessions=sessions,
            internal_secret=secret,
            capacity=capacity,
            ops_listen=ops_listen,
        )

    def run(self) -> int:
        """Work until SIGTERM or SIGINT, then drain; return the exit code. Sets up the log of the process.

        Unauthenticated: the secret is not that of the plane.
        """
        return run(self._settings, self._agents)

    async def serve(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then drain: for a process with an event loop of its own.

        Unauthenticated: the secret is not that of the plane.
        """
        await _serve(self._settings, self._agents, stop)


def run(settings: WorkerSettings, agents: Agents | None = None) -> int:
    """Run a worker until SIGTERM or SIGINT. Return the exit code. `agents`: by default from the settings.

    Invalid: an agent cannot be loaded, or an address is malformed. Unauthenticated: the plane has another secret.
    """
    logs.setup(settings.log_level)
    if agents is None:
        agents = load_agents(settings.agents, allow_crash=settings.allow_crash)
    drain = settings.drain_timeout + settings.cancel_grace + 10.0
    return process.run(partial(_serve, settings, agents), drain=drain)


async def _admitted(service: ExecutorService, stop: asyncio.Event, store: str) -> bool:
    """Wait until the task store accepts this process as a service; return False if `stop` is set before."""
    admission = asyncio.ensure_future(service.admitted())
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((admission, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not admission.done():
            return False
        admission.result()
        return True
    except Unauthenticated as error:
        raise Unauthenticated(
            f"the task store at {store} refuses this worker as a service: {error.message}",
            reason=error.reason,
            suggestion=f"set {PREFIX}INTERNAL_SECRET to the internal_secret of the plane",
        ) from error
    finally:
        admission.cancel()
        stopping.cancel()


@asynccontextmanager
async def _serving_operators(settings: WorkerSettings, health: Health) -> AsyncGenerator[str]:
    """Serve the HTTP port for operators and yield its URL. If the default port is taken, use any free one."""
    async with AsyncExitStack() as stack:
        try:
            serving = serving_ops(settings.ops_listen, health, setting=PREFIX + "OPS_LISTEN")
            url = await stack.enter_async_context(serving)
        except Unavailable:
            if settings.ops_listen != WorkerSettings().ops_listen:
                raise
            host = settings.ops_listen.rpartition(":")[0]
            serving = serving_ops(f"{host}:0", health, setting=PREFIX + "OPS_LISTEN")
            url = await stack.enter_async_context(serving)
        yield url


async def _serve(settings: WorkerSettings, agents: Agents, stop: asyncio.Event) -> None:
    async with (
        connect(settings.tasks, tasks_pb2.DESCRIPTOR) as tasks,
        connect(settings.tasks, tasks_pb2.DESCRIPTOR) as renewals,
        connect(settings.tasks, tasks_pb2.DESCRIPTOR) as appends,
        connect(settings.sessions, sessions_pb2.DESCRIPTOR) as sessions,
        open_runs(
            settings,
            tasks,
            sessions,
            secrets.token_hex(8),
            agents,
            kind="worker",
            renewals=renewals,
            appends=appends,
        ) as service,
    ):
        health = Health((), service.ready)
        async with _serving_operators(settings, health) as ops:
            if await _admitted(service, stop, settings.tasks):
                service.start(health.run(), name="health")
                log.info(
                    "worker ready: agents %s, task store %s, session history %s, operators %s",
                    ", ".join(agents.names),
                    settings.tasks,
                    settings.sessions,
                    ops or "nowhere",
                )
                await stop.wait()
            await health.shut()
            await service.drain()
