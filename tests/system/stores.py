"""The task store of a running plane, called over its gRPC port as a user of it or as one of its services."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.system.plane import Plane

from taskplane.api.tasks.v1 import tasks_pb2_grpc as rpc
from taskplane.runtime.channel import client, connect
from taskplane.runtime.principal import Principal


@asynccontextmanager
async def task_store(
    plane: Plane, *, service: bool = False, secret: bytes = b""
) -> AsyncGenerator[tuple[rpc.TaskStoreStub, rpc.TaskQueueStub]]:
    """Stubs that call as the user `local`, the one of HTTP calls that name nobody, or as a service that acts for it."""
    principal = Principal("default", "local", "local", service)
    async with connect(plane.tasks_target) as channel:
        calls = client(channel, identity=principal, secret=secret)
        yield rpc.TaskStoreStub(calls), rpc.TaskQueueStub(calls)
