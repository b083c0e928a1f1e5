"""The gateway process: `python -m taskplane.gateway`, with settings from TASKPLANE_GATEWAY_*."""

import asyncio
import logging
import sys
from functools import partial
from typing import Final

from taskplane.api.executor.v1 import executor_pb2
from taskplane.api.sessions.v1 import sessions_pb2
from taskplane.api.tasks.v1 import tasks_pb2
from taskplane.gateway.bindings.grpc import GrpcBinding
from taskplane.gateway.server import open_gateway
from taskplane.gateway.settings import PREFIX, GatewaySettings
from taskplane.runtime import logs, process
from taskplane.runtime.channel import connect
from taskplane.runtime.server import serving
from taskplane.runtime.services import Services
from taskplane.runtime.settings import load

# The open streams of health and reflection, and the number of their other calls.
_ANONYMOUS: Final = 100
# Calls besides the open calls of clients: those without credentials, and as many that are being refused.
_SPARE_CALLS: Final = 3 * _ANONYMOUS
# Seconds for the statuses of refused calls. All others have ended with the gateway.
_GRACE: Final = 0.5

_log = logging.getLogger("taskplane.gateway")


async def serve(settings: GatewaySettings, stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then drain."""
    a2a, public = GrpcBinding(), Services(policy={})
    a2a.register(public)
    async with (
        connect(settings.tasks, tasks_pb2.DESCRIPTOR) as tasks,
        connect(settings.sessions, sessions_pb2.DESCRIPTOR) as sessions,
        connect(settings.executor, executor_pb2.DESCRIPTOR) as executor,
        connect(settings.tasks) as to_tasks,
        connect(settings.sessions) as to_sessions,
        connect(settings.executor) as to_executor,
        serving(
            public,
            settings.grpc_listen,
            ready=a2a.ready,
            grace=_GRACE,
            connection_age=None,
            max_calls=settings.max_grpc_calls + _SPARE_CALLS,
            max_anonymous=_ANONYMOUS,
            max_connection_calls=settings.max_grpc_calls_per_connection,
            setting="TASKPLANE_GATEWAY_GRPC_PORT",
        ) as listening,
        open_gateway(
            settings,
            tasks=tasks,
            sessions=sessions,
            executor=executor,
            direct={"tasks": to_tasks, "sessions": to_sessions, "executor": to_executor},
            a2a=a2a,
            grpc_address=listening.address,
        ) as gateway,
    ):
        _log.info(
            "gateway ready: %s, gRPC %s, public URL %s, task store %s, session history %s, executor %s",
            gateway.url,
            listening.address,
            gateway.public_url,
            settings.tasks,
            settings.sessions,
            settings.executor,
        )
        await stop.wait()
        await listening.health.shut()


def main() -> int:
    """Read the settings and run until SIGTERM; return the exit code."""
    settings = load(GatewaySettings, PREFIX)
    logs.setup(settings.log_level)
    return process.run(partial(serve, settings), drain=settings.drain_delay + settings.shutdown_timeout + 5.0)


if __name__ == "__main__":
    sys.exit(main())
