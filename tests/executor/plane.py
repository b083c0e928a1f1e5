"""An executor over a real task store and a real session history, all in this process, and the calls that tests make."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.support.schemas import copy_schema

from taskplane.agents.agent import Agent
from taskplane.agents.demo import Demo
from taskplane.agents.loading import Agents, load_agents
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.executor.v1.executor_pb2_grpc import AgentExecutorStub
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.executor import servicer
from taskplane.executor.composition import ExecutorService, open_executor
from taskplane.executor.settings import ExecutorSettings
from taskplane.runtime.channel import InProcessChannel, client
from taskplane.runtime.principal import Principal
from taskplane.runtime.services import Services
from taskplane.sessions.composition import open_sessions
from taskplane.sessions.servicer import POLICY as SESSIONS_POLICY
from taskplane.sessions.settings import SessionsSettings
from taskplane.storage import migrate
from taskplane.storage.engine import open_engine
from taskplane.tasks.composition import open_tasks
from taskplane.tasks.servicer import POLICY as TASKS_POLICY
from taskplane.tasks.settings import TasksSettings

T = TypeVar("T")

ANN = Principal("tenant", "ann", "user:ann")
BOB = Principal("tenant", "bob", "user:bob")
# Ann as our own processes act for her.
SERVICE = ANN._replace(service=True)

END = [3, 4, 5, 6, 7, 8]


class Stores:
    """Both stores, open. `calls` counts the calls of all executors, by method."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.channel = Counting(services)
        self.calls = self.channel.calls

    def tasks(self, who: Principal = ANN) -> TaskStoreStub:
        return TaskStoreStub(client(InProcessChannel(self.services), identity=who))

    def sessions(self, who: Principal = ANN) -> SessionHistoryStub:
        return SessionHistoryStub(client(InProcessChannel(self.services), identity=who))


class Counting(InProcessChannel):
    """An in-process channel that counts calls, notices concurrent calls of one method, and can refuse some."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.calls: dict[str, int] = {}
        self.at_once: dict[str, int] = {}
        # Functions to run before a call of this method, and between its end and its answer: they may wait or raise.
        self.before: dict[str, Callable[[Any], Awaitable[None]]] = {}
        self.after: dict[str, Callable[[Any], Awaitable[None]]] = {}

    def unary_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        call = super().unary_unary(method, *args, **kwargs)
        name = method.rpartition("/")[2]
        running = 0

        async def work(request: Any, **options: Any) -> Any:
            nonlocal running
            self.calls[name] = self.calls.get(name, 0) + 1
            running += 1
            self.at_once[name] = max(self.at_once.get(name, 0), running)
            try:
                if name in self.before:
                    await self.before[name](request)
                response = await call(request, **options)
                if name in self.after:
                    await self.after[name](request)
                return response
            finally:
                running -= 1

        def counted(request: Any, **options: Any) -> Counted:
            return Counted(work(request, **options))

        return counted


class Counted:
    """A call as its client holds it, with the methods that our clients use."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._work.__await__()

    def cancel(self) -> bool:
        return True


class Held:
    """Calls of one method wait before they reach the store, until `let_go`."""

    def __init__(self, stores: Stores, method: str) -> None:
        self.reached, self.let_go = asyncio.Event(), asyncio.Event()
        stores.channel.before[method] = self._hold

    async def _hold(self, request: object) -> None:
        self.reached.set()
        await self.let_go.wait()


class Plane:
    """One executor with its stores."""

    def __init__(self, stores: Stores, service: ExecutorService, services: Services) -> None:
        self.stores = stores
        self.service = service
        self._services = services

    def executor(self, who: Principal = ANN) -> AgentExecutorStub:
        return AgentExecutorStub(client(InProcessChannel(self._services), identity=who))

    async def submit(
        self,
        text: str,
        *,
        who: Principal = ANN,
        key: str = "",
        agent: str = "",
        more: dict[str, Any] | None = None,
        **of_message: Any,
    ) -> pb.SubmitResponse:
        message = said(text, **of_message)
        request = pb.SubmitRequest(
            agent=agent, request=a2a.SendMessageRequest(message=message), idempotency_key=key, **(more or {})
        )
        return await self.executor(who).Submit(request)

    async def task(self, task_id: str, who: Principal = ANN) -> a2a.Task:
        return (await self.record(task_id, who)).task

    async def record(self, task_id: str, who: Principal = ANN) -> tasks.TaskRecord:
        return (await self.stores.tasks(who).GetTask(tasks.GetTaskRequest(task_id=task_id))).record

    async def at_rest(self, reference: pb.SubmitResponse, who: Principal = ANN) -> a2a.Task:
        """Returns the task after it has ended or paused."""
        return await self.reaches(reference.task.task_id, *END, who=who)

    async def reaches(self, task_id: str, *states: int, who: Principal = ANN) -> a2a.Task:
        request = tasks.WatchTaskRequest(task_id=task_id, stop_at=states, end_only=True)  # type: ignore[arg-type]
        async with asyncio.timeout(60):
            async for response in self.stores.tasks(who).WatchTask(request):
                if response.HasField("end"):
                    # The last part of a watch leaves out data too large for a message.
                    return (
                        response.end.record.task
                        if response.end.record.HasField("task")
                        else await self.task(task_id, who)
                    )
        raise AssertionError("the watch ended early")

    async def run(self, text: str, **options: Any) -> a2a.Task:
        """Submits and waits for the end."""
        return await self.at_rest(await self.submit(text, **options))

    async def events(self, task_id: str, *kinds: int, who: Principal = ANN) -> Sequence[tasks.Event]:
        request = tasks.ListEventsRequest(task_id=task_id, kinds=kinds, limit=1000)  # type: ignore[arg-type]
        return (await self.stores.tasks(who).ListEvents(request)).events

    async def entries(
        self, context_id: str, *, effective: bool = False, who: Principal = ANN
    ) -> Sequence[sessions.Entry]:
        request = sessions.ListEntriesRequest(context_id=context_id, effective=effective)
        return (await self.stores.sessions(who).ListEntries(request)).entries

    async def conversation(self, context_id: str, who: Principal = ANN) -> list[str]:
        return [text(entry.message) for entry in await self.entries(context_id, effective=True, who=who)]


def said(words: str, **fields: Any) -> a2a.Message:
    values: dict[str, Any] = {
        "message_id": secrets.token_hex(8),
        "role": a2a.ROLE_USER,
        "parts": [a2a.Part(text=words)],
    }
    return a2a.Message(**{**values, **fields})


def text(message: a2a.Message) -> str:
    return "".join(part.text for part in message.parts)


def holds(event: tasks.Event, words: str) -> bool:
    """Tells whether an event has these words in any field."""
    return words.encode() in event.SerializeToString()


async def shown(plane: Plane, task_id: str, words: str) -> None:
    """Waits until clients have seen these words of a task."""
    await eventually(lambda: plane.events(task_id), lambda events: any(holds(event, words) for event in events))


@asynccontextmanager
async def open_stores(directory: Path, *, database_url: str = "", **settings: Any) -> AsyncGenerator[Stores, None]:
    """Opens both stores with short times: on SQLite files, or in the given database. `secret`: of the stores."""
    services = Services(policy={**TASKS_POLICY, **SESSIONS_POLICY}, secret=settings.pop("secret", b""))
    if not database_url:
        for store in ("tasks", "sessions"):
            if not (file := directory / f"{store}.db").exists():
                await copy_schema(f"taskplane.{store}", file)
    url = database_url or f"sqlite:///{directory}/tasks.db"
    of_sessions = SessionsSettings(database_url=database_url or f"sqlite:///{directory}/sessions.db")
    values: dict[str, Any] = {"lease_ttl": 15.0, "renew_every": 0.3, "sweep_every": 0.2, "poll_every": 0.2, **settings}
    await migrate.upgrade(url, "taskplane.tasks")
    async with (
        open_engine(url) as engine,
        open_tasks(TasksSettings(database_url=url, **values), engine) as service,
        open_sessions(of_sessions, services),
    ):
        service.register(services)
        stores = Stores(services)
        yield stores
        await stores.channel.close()


@asynccontextmanager
async def open_plane(
    stores: Stores, *agents: tuple[str, Agent], loaded: Sequence[str] = (), process_id: str = "", **settings: Any
) -> AsyncGenerator[Plane, None]:
    """Opens an executor of these agents, or of those with these names; the demo agent by default."""
    services = Services(policy=servicer.POLICY)
    values: dict[str, Any] = {
        "renew_every": 0.3,
        "drain_timeout": 0.5,
        "cancel_grace": 1.0,
        "strict_agents": True,
        # A router with an expected direct answer may take as long as a busy machine needs.
        "route_timeout": 60.0,
    }
    async with open_executor(
        ExecutorSettings(**{**values, **settings}),
        services,
        stores.channel,
        stores.channel,
        process_id or secrets.token_hex(8),
        agents=load_agents(loaded) if loaded else Agents(dict(agents) or {"demo": Demo()}),
    ) as service:
        yield Plane(stores, service, services)


async def swept_at_start(stores: Stores) -> None:
    """Waits until the first sweep of an executor makes its last call."""
    await until(lambda: "ListUnfinishedImports" in stores.calls)


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Waits for a condition without an event."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.005)


async def eventually(read: Callable[[], Awaitable[T]], wanted: Callable[[T], bool], seconds: float = 30.0) -> T:
    """Reads until the result satisfies the condition."""
    deadline = time.monotonic() + seconds
    while not wanted(found := await read()):
        assert time.monotonic() < deadline, f"it did not happen: {found}"
        await asyncio.sleep(0.02)
    return found
