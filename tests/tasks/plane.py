"""An open task store with clients over a socket and in process, and the few calls that tests make."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import grpc
from sqlalchemy import Connection

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2_grpc as pb_grpc
from taskplane.runtime.channel import InProcessChannel, client, connect
from taskplane.runtime.pacing import Pacer
from taskplane.runtime.principal import Principal
from taskplane.runtime.server import serving
from taskplane.runtime.services import Services
from taskplane.storage.engine import Engine, open_engine
from taskplane.tasks import wire
from taskplane.tasks.composition import TasksService, open_tasks
from taskplane.tasks.domain.changes import read_message
from taskplane.tasks.domain.commands import Create
from taskplane.tasks.domain.task import Scope
from taskplane.tasks.servicer import POLICY
from taskplane.tasks.settings import TasksSettings
from taskplane.tasks.wire import read_changes

P = ParamSpec("P")
T = TypeVar("T")

ANN = Principal("tenant", "ann", "user:ann")
BOB = Principal("tenant", "bob", "user:bob")
EXECUTOR = Principal("tenant", "ann", "executor", service=True)
HASH = b"h" * 32

WORKING = a2a.TASK_STATE_WORKING
COMPLETED = a2a.TASK_STATE_COMPLETED
CANCELED = a2a.TASK_STATE_CANCELED
FAILED = a2a.TASK_STATE_FAILED
INPUT_REQUIRED = a2a.TASK_STATE_INPUT_REQUIRED
TERMINAL = [COMPLETED, FAILED, CANCELED, a2a.TASK_STATE_REJECTED]

QUICK: dict[str, Any] = {"lease_ttl": 1.0, "renew_every": 0.3, "sweep_every": 0.2, "poll_every": 0.2}


class CountingEngine(Engine):
    """An engine that counts what is read through it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.dialect = engine.dialect
        self.url = engine.url
        self.writers = engine.writers
        self.reads: list[str] = []

    async def write(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._engine.write(fn, *args, **kwargs)

    async def read(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.reads.append(getattr(fn, "__name__", "?"))
        return await self._engine.read(fn, *args, **kwargs)

    async def probe(self) -> None:
        await self._engine.probe()


class Stream(Protocol):
    """A watch as its client holds it."""

    def __aiter__(self) -> AsyncIterator[pb.WatchTaskResponse]: ...
    async def __anext__(self) -> pb.WatchTaskResponse: ...
    def cancel(self) -> bool: ...


class Plane:
    """The service and its clients; `kind` names the channel: "inprocess" or "socket"."""

    def __init__(
        self, service: TasksService, engine: CountingEngine, pacer: Pacer, channels: dict[str, grpc.aio.Channel]
    ) -> None:
        self.service = service
        self.engine = engine
        self.pacer = pacer
        self._channels = channels

    def channel(self, who: Principal = EXECUTOR, kind: str = "inprocess") -> grpc.aio.Channel:
        return client(self._channels[kind], identity=who)

    def store(self, who: Principal = EXECUTOR, kind: str = "inprocess") -> pb_grpc.TaskStoreStub:
        return pb_grpc.TaskStoreStub(self.channel(who, kind))

    def queue(self, who: Principal = EXECUTOR, kind: str = "inprocess") -> pb_grpc.TaskQueueStub:
        return pb_grpc.TaskQueueStub(self.channel(who, kind))

    async def create(self, **fields: Any) -> "Run":
        response = await self.store().CreateTask(creation(**fields))
        return Run(self, response)

    def watch(
        self,
        task_id: str,
        cursor: str = "",
        *,
        stop_at: Sequence[int] = (),
        kind: str = "inprocess",
        who: Principal = EXECUTOR,
        **fields: Any,
    ) -> "Stream":
        request = pb.WatchTaskRequest(task_id=task_id, cursor=cursor, stop_at=stop_at, **fields)  # type: ignore[arg-type]
        return cast("Stream", self.store(who, kind).WatchTask(request))


class Run:
    """One task and what its executor appends to it."""

    def __init__(self, plane: Plane, response: pb.CreateTaskResponse) -> None:
        self.plane = plane
        self.record = response.record
        self.response = response
        self.id = response.record.id
        self.uid = response.record.uid
        self.fence = response.fence
        self.number = 0
        self.grown = False

    def at(self, generation: int) -> str:
        return f"{self.record.incarnation}-{generation}"

    async def append(self, *changes: pb.Change, consumed: int = 1, copied: int = 0) -> pb.AppendResult:
        self.number += 1
        item = pb.AppendItem(
            task_uid=self.uid,
            fence=self.fence,
            number=self.number,
            changes=changes,
            consumed_generation=consumed,
            copied_generation=copied,
        )
        response = await self.plane.store().AppendEvents(pb.AppendEventsRequest(items=[item]))
        return response.results[0]

    async def chunks(self, count: int, size: int = 1, each: int = 50) -> None:
        """`count` more pieces of one artifact, `each` in one append; the first one of all begins it."""
        for first in range(0, count, each):
            pieces = [chunk(size, append=self.grown or number > 0) for number in range(min(each, count - first))]
            self.grown = True
            result = await self.append(*pieces)
            assert not result.HasField("refusal"), result.refusal

    async def complete(self) -> None:
        result = await self.append(status(COMPLETED))
        assert not result.HasField("refusal"), result.refusal

    async def record_now(self) -> pb.TaskRecord:
        return (await self.plane.store().GetTask(pb.GetTaskRequest(task_id=self.id))).record


@asynccontextmanager
async def opened(url: str, *, resident: str | None = None, **settings: Any) -> AsyncGenerator[Plane, None]:
    """The service over the database at `url`, served on a socket and in process. Ends with nothing left behind."""
    async with AsyncExitStack() as stack:
        engine = CountingEngine(await stack.enter_async_context(open_engine(url)))
        services = Services(policy=POLICY)
        values = TasksSettings(database_url=url, **{**QUICK, **settings})
        service = await stack.enter_async_context(open_tasks(values, engine, resident=resident, pacer=services.pacer))
        service.register(services)
        server = await stack.enter_async_context(serving(services, "127.0.0.1:0", grace=1.0))
        channels: dict[str, grpc.aio.Channel] = {
            "inprocess": InProcessChannel(services),
            "socket": await stack.enter_async_context(connect(server.address)),
        }
        stack.push_async_callback(channels["inprocess"].close)
        yield Plane(service, engine, services.pacer, channels)


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Waits for what has no event of its own."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.005)


async def eventually(read: Callable[[], Awaitable[T]], wanted: Callable[[T], bool], seconds: float = 30.0) -> T:
    """Reads until what was read is wanted."""
    deadline = time.monotonic() + seconds
    while not wanted(found := await read()):
        assert time.monotonic() < deadline, f"it did not happen: {found}"
        await asyncio.sleep(0.02)
    return found


def message(text: str = "hello", role: "a2a.Role.ValueType" = a2a.ROLE_USER, message_id: str = "") -> a2a.Message:
    return a2a.Message(message_id=message_id or secrets.token_hex(8), role=role, parts=[a2a.Part(text=text)])


def creation(**fields: Any) -> pb.CreateTaskRequest:
    """A request that can be carried out; `working=True` begins it with a lease of "p1" and WORKING."""
    if fields.pop("working", False):
        fields = {"claim_for": "p1", "first_changes": [status(WORKING)], **fields}
    values: dict[str, Any] = {
        "invocation_id": secrets.token_hex(8),
        "request_hash": HASH,
        "context_id": "context",
        "agent": "demo",
        "message": message(),
    }
    return pb.CreateTaskRequest(**{**values, **fields})


def creating(request: pb.CreateTaskRequest, scope: Scope, uid: str, lease_until: int) -> Create:
    """The operation that a request becomes, for a task whose id is its uid."""
    message_, changes = read_message(request.message), read_changes(request.first_changes, "first_changes")
    return wire.create(request, scope, message_, changes, uid=uid, salt="salt", task_id=uid, lease_until=lease_until)


def follow_up(task_id: str, text: str = "more") -> pb.AddMessageRequest:
    return pb.AddMessageRequest(
        task_id=task_id, invocation_id=secrets.token_hex(8), request_hash=HASH, message=message(text)
    )


def status(state: "a2a.TaskState.ValueType", said: a2a.Message | None = None) -> pb.Change:
    return pb.Change(status=a2a.TaskStatusUpdateEvent(status=a2a.TaskStatus(state=state, message=said)))


def chunk(size: int = 1, *, append: bool = False) -> pb.Change:
    artifact = a2a.Artifact(artifact_id="a", parts=[a2a.Part(text="x" * size)])
    return pb.Change(artifact=a2a.TaskArtifactUpdateEvent(artifact=artifact, append=append))


def document(task_id: str = "", state: "a2a.TaskState.ValueType" = WORKING, text: str = "draft") -> a2a.Task:
    return a2a.Task(
        id=task_id,
        context_id="context",
        status=a2a.TaskStatus(state=state),
        history=[message(text)],
        artifacts=[a2a.Artifact(artifact_id="a", parts=[a2a.Part(text=text)])],
    )
