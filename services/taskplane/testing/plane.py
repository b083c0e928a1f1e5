"""The plane of one test: both stores over temporary databases and an executor of one agent, all in this process."""

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import grpc

from taskplane.agents.agent import Agent
from taskplane.agents.loading import Agents
from taskplane.api.executor.v1.executor_pb2_grpc import AgentExecutorStub
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskQueueStub, TaskStoreStub
from taskplane.executor.composition import ExecutorService, open_executor
from taskplane.executor.servicer import POLICY as EXECUTOR_POLICY
from taskplane.executor.settings import ExecutorSettings
from taskplane.runtime.channel import InProcessChannel, client
from taskplane.runtime.principal import Principal
from taskplane.runtime.services import Services
from taskplane.sessions.composition import open_sessions_on
from taskplane.sessions.servicer import POLICY as SESSIONS_POLICY
from taskplane.sessions.settings import SessionsSettings
from taskplane.storage.temporary import open_temporary
from taskplane.tasks.composition import open_tasks
from taskplane.tasks.queue import RESIDENT
from taskplane.tasks.servicer import POLICY as TASKS_POLICY
from taskplane.tasks.settings import TasksSettings

AGENT: Final = "agent"
CONTEXT: Final = "session"
USER: Final = Principal("test", "user", "user:user")
_SERVICE: Final = USER._replace(actor="test", service=True)


class Plane:
    """An open plane. `tasks` and `executor` are called as the user, the other stubs as a service that acts for the
    user."""

    def __init__(self, service: ExecutorService, channel: grpc.aio.Channel) -> None:
        user, acting = client(channel, identity=USER), client(channel, identity=_SERVICE)
        self.service = service
        self.executor = AgentExecutorStub(user)
        self.tasks = TaskStoreStub(user)
        self.store = TaskStoreStub(acting)
        self.queue = TaskQueueStub(acting)
        self.sessions = SessionHistoryStub(acting)


@asynccontextmanager
async def open_plane(agent: Agent, settings: ExecutorSettings) -> AsyncGenerator[Plane]:
    """Open the stores, empty, and the executor; everything that they kept is deleted at the end."""
    services = Services(policy={**TASKS_POLICY, **SESSIONS_POLICY, **EXECUTOR_POLICY})
    failure: BaseException | None = None
    process_id = RESIDENT + secrets.token_hex(8)
    async with (
        open_temporary("taskplane.tasks") as for_tasks,
        open_temporary("taskplane.sessions") as for_sessions,
        open_tasks(TasksSettings(), for_tasks, resident=process_id, pacer=services.pacer) as tasks,
        open_sessions_on(for_sessions, SessionsSettings(), services),
        InProcessChannel(services) as channel,
    ):
        tasks.register(services)
        async with open_executor(
            settings, services, channel, channel, process_id, agents=Agents({AGENT: agent})
        ) as service:
            try:
                yield Plane(service, channel)
            except BaseException as error:  # noqa: BLE001 - raised again below
                # From in here it would come out in a group.
                failure = error
    if failure is not None:
        raise failure
