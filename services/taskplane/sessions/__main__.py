"""The session history as a process: `python -m taskplane.sessions`, with settings from TASKPLANE_SESSIONS_*."""

import asyncio
import logging
import sys
from functools import partial

from taskplane.runtime import logs, process
from taskplane.runtime.ops import serving_ops
from taskplane.runtime.server import serving
from taskplane.runtime.services import Services
from taskplane.runtime.settings import load
from taskplane.sessions.composition import open_sessions
from taskplane.sessions.servicer import POLICY
from taskplane.sessions.settings import PREFIX, SessionsSettings
from taskplane.storage.urls import shown

_log = logging.getLogger("taskplane.sessions")


async def serve(settings: SessionsSettings, stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then drain."""
    services = Services(policy=POLICY, secret=settings.internal_secret.encode())
    async with (
        open_sessions(settings, services) as service,
        serving(services, settings.listen, ready=service.ready, grace=settings.drain_timeout) as server,
        serving_ops(settings.ops_listen, server.health, setting=PREFIX + "OPS_LISTEN"),
    ):
        _log.info("session history ready: gRPC %s, database %s", server.address, shown(settings.database_url))
        await stop.wait()
        await server.leave()
        await service.drain()


def main() -> int:
    """Read the settings and run until SIGTERM."""
    settings = load(SessionsSettings, PREFIX)
    logs.setup(settings.log_level)
    return process.run(partial(serve, settings))


if __name__ == "__main__":
    sys.exit(main())
