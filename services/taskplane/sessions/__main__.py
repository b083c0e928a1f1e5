"""The session history as a process of its own: `python -m taskplane.sessions`, settings from TASKPLANE_SESSIONS_*."""

import asyncio
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


async def serve(settings: SessionsSettings, stop: asyncio.Event) -> None:
    """Serves until `stop` is set, then drains."""
    services = Services(policy=POLICY, secret=settings.internal_secret.encode())
    async with (
        open_sessions(settings, services) as room,
        serving(services, settings.listen, ready=room.ready, grace=settings.drain_timeout) as server,
        serving_ops(settings.ops_listen, server.health, setting=PREFIX + "OPS_LISTEN"),
    ):
        await stop.wait()
        await room.drain()


def main() -> int:
    """Reads the settings and runs until SIGTERM."""
    settings = load(SessionsSettings, PREFIX)
    logs.setup(settings.log_level)
    return process.run(partial(serve, settings))


if __name__ == "__main__":
    sys.exit(main())
