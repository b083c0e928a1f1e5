"""The services of a running plane over their gRPC ports, called as a user or as a service."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.system.plane import Plane

from taskplane.api.executor.v1.executor_pb2_grpc import AgentExecutorStub
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.api.tasks.v1 import tasks_pb2_grpc as rpc
from taskplane.runtime.channel import client, connect
from taskplane.runtime.principal import Principal


@asynccontextmanager
async def task_store(
    plane: Plane, *, service: bool = False, secret: bytes = b""
) -> AsyncGenerator[tuple[rpc.TaskStoreStub, rpc.TaskQueueStub]]:
    """Stubs that call as the user `local`, the user of HTTP calls without a name, or as a service that acts for this
    user."""
    principal = Principal("default", "local", "local", service)
    async with connect(plane.tasks_target) as channel:
        calls = client(channel, identity=principal, secret=secret)
        yield rpc.TaskStoreStub(calls), rpc.TaskQueueStub(calls)


@asynccontextmanager
async def everything(plane: Plane) -> AsyncGenerator[tuple[AgentExecutorStub, rpc.TaskStoreStub, SessionHistoryStub]]:
    """Stubs of all three services that call as the user `local`."""
    principal = Principal("default", "local", "local")
    async with (
        connect(plane.executor_target) as executor,
        connect(plane.tasks_target) as tasks,
        connect(plane.sessions_target) as sessions,
    ):
        yield (
            AgentExecutorStub(client(executor, identity=principal)),
            rpc.TaskStoreStub(client(tasks, identity=principal)),
            SessionHistoryStub(client(sessions, identity=principal)),
        )
