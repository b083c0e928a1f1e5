"""Turns, rewinds and their results, over the gRPC ports of a running plane."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import uuid4

from tests.system.plane import CODE, Plane
from tests.system.stores import everything

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.api.executor.v1.executor_pb2_grpc import AgentExecutorStub
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.runtime.errors import PlaneError
from taskplane.runtime.retry import retry_until_reachable

CONTROL = "kagent_rewind_before_invocation_id"
REST = (3, 4, 5, 6, 7, 8)


class SessionUser:
    """One user of a plane."""

    def __init__(self, executor: AgentExecutorStub, tasks: TaskStoreStub, sessions: SessionHistoryStub) -> None:
        self.executor = executor
        self.tasks = tasks
        self.sessions = sessions

    async def connected(self) -> None:
        """Return once the channel to each service has found a restarted process. Before that a stream, or a call that
        may not be repeated, fails at once."""
        for call in (self._list_agents, self._list_tasks, self._list_sessions):
            await retry_until_reachable(call)

    async def _list_agents(self) -> None:
        await self.executor.ListAgents(xb.ListAgentsRequest())

    async def _list_tasks(self) -> None:
        await self.tasks.ListTasks(pb.ListTasksRequest(page_size=1))

    async def _list_sessions(self) -> None:
        await self.sessions.ListSessions(sb.ListSessionsRequest(page_size=1))

    async def begin(self, words: str, context_id: str) -> a2a.Task:
        """Begins a turn without waiting; returns its task at the beginning."""
        request = xb.SubmitRequest(request=a2a.SendMessageRequest(message=spoken(words, context_id)))
        return (await self.executor.Submit(request)).task.task

    async def turn(self, words: str, context_id: str) -> a2a.Task:
        """Runs a turn to its end; returns its task at the beginning."""
        task = await self.begin(words, context_id)
        await self.at_rest(task.id)
        return task

    async def at_rest(self, task_id: str) -> pb.TaskRecord:
        request = pb.WatchTaskRequest(task_id=task_id, stop_at=REST, end_only=True)  # type: ignore[arg-type]
        async for response in self.tasks.WatchTask(request):
            if response.HasField("end"):
                return response.end.record
        raise AssertionError("the watch ended early")

    async def rewind(self, before: str, context_id: str, words: str = "", *, key: str = "") -> xb.Rewound:
        """Rewinds by a message; a repeat of its key is the same rewind."""
        message = spoken(words, context_id, message_id=key or uuid4().hex)
        message.metadata.fields[CONTROL].string_value = before
        request = xb.SubmitRequest(request=a2a.SendMessageRequest(message=message), idempotency_key=key)
        return (await self.executor.Submit(request)).rewound

    async def session(self, context_id: str) -> sb.Session:
        return (await self.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))).session

    async def shown(self, context_id: str) -> list[str]:
        """The conversation."""
        request = sb.GetSessionTaskRequest(context_id=context_id)
        return texts((await self.sessions.GetSessionTask(request)).task)

    async def listed(self, context_id: str) -> list[str]:
        """The tasks that are not superseded, oldest first."""
        request = pb.ListTasksRequest(context_id=context_id, order=pb.TASK_ORDER_CREATED)
        return [record.id for record in (await self.tasks.ListTasks(request)).records]

    async def rewinds(self, context_id: str) -> int:
        """How many were stored."""
        request = sb.ListEntriesRequest(context_id=context_id, kinds=[sb.ENTRY_KIND_REWIND])
        return len((await self.sessions.ListEntries(request)).entries)

    async def copied(self, context_id: str) -> None:
        """Returns once every task of the session is at rest and in it."""
        request = pb.ListTasksRequest(context_id=context_id, include_superseded=True)
        async with asyncio.timeout(20):
            while True:
                records = (await self.tasks.ListTasks(request)).records
                if all(r.state in REST and r.copied_generation >= r.message_generation for r in records):
                    return
                await asyncio.sleep(0.02)

    async def applied(self, context_id: str) -> None:
        """Returns once the session's tasks match its history."""
        async with asyncio.timeout(20):
            while (found := await self.session(context_id)).applied_seq < found.steered_seq:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def session_user(plane: Plane) -> AsyncGenerator[SessionUser]:
    """A user of a running plane."""
    async with everything(plane) as stubs:
        yield SessionUser(*stubs)


async def dies_during(
    call: Callable[[], Awaitable[object]], plane: Plane, user: SessionUser, name: str, place: str
) -> None:
    """Have a process die at a failpoint during a call, and start it again; return after the call has ended, too."""
    if name != "executor":
        # The process would repeat unanswered calls, and those would pass the failpoint first.
        await plane.kill("executor")
        await plane.start("executor")
    await plane.arm(name, place)
    await user.connected()
    answer = asyncio.ensure_future(call())
    assert await plane.death(name) == CODE
    await plane.start(name)
    await user.connected()
    with suppress(PlaneError):
        await answer


def spoken(words: str, context_id: str, **fields: Any) -> a2a.Message:
    """A message of the user."""
    values: dict[str, Any] = {
        "message_id": uuid4().hex,
        "role": a2a.ROLE_USER,
        "parts": [a2a.Part(text=words)],
        "context_id": context_id,
    }
    return a2a.Message(**{**values, **fields})


def invocation(task: a2a.Task) -> str:
    """The turn that created a task."""
    return task.history[0].metadata.fields["kagent_invocation_id"].string_value


def texts(task: a2a.Task) -> list[str]:
    return ["".join(part.text for part in message.parts) for message in task.history]
