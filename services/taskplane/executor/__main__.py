"""The executor as a process of its own: `python -m taskplane.executor`, settings from TASKPLANE_EXECUTOR_*."""

import asyncio
import secrets
import sys
from functools import partial

from taskplane.executor.composition import open_executor
from taskplane.executor.servicer import POLICY
from taskplane.executor.settings import PREFIX, ExecutorSettings
from taskplane.runtime import logs, process
from taskplane.runtime.channel import tunnel
from taskplane.runtime.ops import serving_ops
from taskplane.runtime.server import serving
from taskplane.runtime.services import Services
from taskplane.runtime.settings import load


async def serve(settings: ExecutorSettings, stop: asyncio.Event) -> None:
    """Serves until `stop` is set, then drains."""
    services = Services(policy=POLICY, secret=settings.internal_secret.encode())
    async with (
        tunnel(settings.tasks) as tasks,
        tunnel(settings.sessions) as sessions,
        open_executor(settings, services, tasks, sessions, secrets.token_hex(8)) as room,
        serving(services, settings.listen, ready=room.ready) as server,
        serving_ops(settings.ops_listen, server.health, setting=PREFIX + "OPS_LISTEN"),
    ):
        await stop.wait()
        await room.drain()


def main() -> int:
    """Reads the settings and runs until SIGTERM."""
    settings = load(ExecutorSettings, PREFIX)
    logs.setup(settings.log_level)
    return process.run(partial(serve, settings), drain=settings.drain_timeout + settings.cancel_grace + 5.0)


if __name__ == "__main__":
    sys.exit(main())
