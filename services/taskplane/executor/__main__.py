"""The executor as a process: `python -m taskplane.executor`, with settings from TASKPLANE_EXECUTOR_*."""

import asyncio
import logging
import secrets
from functools import partial

from taskplane.api.sessions.v1 import sessions_pb2
from taskplane.api.tasks.v1 import tasks_pb2
from taskplane.executor.composition import open_executor
from taskplane.executor.servicer import POLICY
from taskplane.executor.settings import PREFIX, ExecutorSettings
from taskplane.runtime import logs, process
from taskplane.runtime.channel import connect
from taskplane.runtime.ops import serving_ops
from taskplane.runtime.server import serving
from taskplane.runtime.services import Services
from taskplane.runtime.settings import load

_log = logging.getLogger("taskplane.executor")


async def serve(settings: ExecutorSettings, stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then drain."""
    services = Services(policy=POLICY, secret=settings.internal_secret.encode())
    async with (
        connect(settings.tasks, tasks_pb2.DESCRIPTOR) as tasks,
        connect(settings.tasks, tasks_pb2.DESCRIPTOR) as renewals,
        connect(settings.tasks, tasks_pb2.DESCRIPTOR) as appends,
        connect(settings.sessions, sessions_pb2.DESCRIPTOR) as sessions,
        open_executor(
            settings, services, tasks, sessions, secrets.token_hex(8), renewals=renewals, appends=appends
        ) as service,
        serving(services, settings.listen, ready=service.ready) as server,
        serving_ops(settings.ops_listen, server.health, setting=PREFIX + "OPS_LISTEN"),
    ):
        _log.info(
            "executor ready: gRPC %s, agents %s, task store %s, session history %s",
            server.address,
            ", ".join(service.agents.names),
            settings.tasks,
            settings.sessions,
        )
        await stop.wait()
        await server.leave()
        await service.drain()


def main() -> int:
    """Read the settings and run until SIGTERM."""
    settings = load(ExecutorSettings, PREFIX)
    logs.setup(settings.log_level)
    return process.run(partial(serve, settings), drain=settings.drain_timeout + settings.cancel_grace + 10.0)


if __name__ == "__main__":
    process.leave(main())
