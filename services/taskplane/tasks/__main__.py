"""The task store as a process of its own: `python -m taskplane.tasks`, with settings from TASKPLANE_TASKS_*."""

import asyncio
import logging
import sys
from functools import partial

from taskplane.runtime import logs, process
from taskplane.runtime.ops import serving_ops
from taskplane.runtime.server import serving
from taskplane.runtime.services import Services
from taskplane.runtime.settings import load
from taskplane.storage import migrate
from taskplane.storage.urls import shown
from taskplane.tasks.composition import open_database, open_tasks
from taskplane.tasks.servicer import POLICY
from taskplane.tasks.settings import PREFIX, TasksSettings

_log = logging.getLogger("taskplane.tasks")


async def serve(settings: TasksSettings, stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then drain."""
    await migrate.upgrade(settings.database_url, "taskplane.tasks")
    services = Services(policy=POLICY, secret=settings.internal_secret.encode())
    async with (
        open_database(settings) as engine,
        open_tasks(settings, engine, pacer=services.pacer) as service,
    ):
        service.register(services)
        async with (
            serving(services, settings.listen, ready=service.ready, grace=settings.drain_timeout) as server,
            serving_ops(settings.ops_listen, server.health, setting=PREFIX + "OPS_LISTEN"),
        ):
            _log.info("task store ready: gRPC %s, database %s", server.address, shown(settings.database_url))
            await stop.wait()
            await server.leave()
            await service.drain()


def main() -> int:
    """Read the settings and run until SIGTERM."""
    settings = load(TasksSettings, PREFIX)
    logs.setup(settings.log_level)
    return process.run(partial(serve, settings))


if __name__ == "__main__":
    sys.exit(main())
