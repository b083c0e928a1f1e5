"""The A2A SDK's own server with its SQL stores, beside taskplane in the same test, and the agents of both."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.cluster import DatabaseTaskEventStream, VersionedDatabaseTaskStore
from a2a.server.events import EventQueue
from a2a.server.tasks import DatabaseTaskStore, TaskUpdater
from a2a.types import Part, TaskState
from bench.counting import bound_bytes
from bench.load import chunk
from sqlalchemy.event import listen
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from tests.support.sdk_server import SdkServer, sdk_server
from tests.system.wire import Json, Sse, result, state_of, stream, task_of, text_message

from taskplane.agents.agent import AgentCard, ArtifactChunk, AskInput, Change, Complete, Turn, Working


@asynccontextmanager
async def database(file: Path) -> AsyncGenerator[AsyncEngine]:
    """An engine of a SQLite file, as the SDK's stores take it. It does not sync, since no test needs it to."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
    listen(engine.sync_engine, "connect", _without_syncs)
    try:
        yield engine
    finally:
        await engine.dispose()


def _without_syncs(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA synchronous = OFF")


@asynccontextmanager
async def sdk_on_sqlite(executor: AgentExecutor, file: Path) -> AsyncGenerator[SdkServer]:
    """The SDK's server with its SQL store. A second one on the same file is the first one after a restart."""
    async with database(file) as engine, sdk_server(executor, stored=DatabaseTaskStore(engine)) as server:
        yield server


@asynccontextmanager
async def sdk_replicas(file: Path, *executors: AgentExecutor) -> AsyncGenerator[list[SdkServer]]:
    """A server of each executor, all with the SDK's cluster store on one file."""
    async with AsyncExitStack() as stack:
        servers: list[SdkServer] = []
        for executor in executors:
            engine = await stack.enter_async_context(database(file))
            stored, events = VersionedDatabaseTaskStore(engine), DatabaseTaskEventStream(engine)
            await stored.initialize()
            servers.append(await stack.enter_async_context(sdk_server(executor, stored=stored, events=events)))
        yield servers


class Executions:
    """The executions of the tasks of an agent: how many ran at once for one task, and what the agent did."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.most = 0
        self.begun = 0
        self.cancels = 0
        self.effects = 0
        self.open = asyncio.Event()

    def begin(self, task_id: str) -> None:
        self.begun += 1
        self.running[task_id] += 1
        self.most = max(self.most, self.running[task_id])

    def end(self, task_id: str) -> None:
        self.running[task_id] -= 1

    async def next_piece(self, index: int) -> None:
        """Wait for the moment of a piece: readers can join between two of them."""
        if index == PIECES - LAST:
            await self.open.wait()
        await asyncio.sleep(0.001)

    async def at_work(self, task_id: str, count: int) -> bool:
        """Whether so many executions of a task run."""
        return self.running[task_id] == count


class Held(AgentExecutor):
    """Waits until `seen.open` is set, and then has its effect."""

    def __init__(self, seen: Executions) -> None:
        self.seen = seen

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        task = context.current_task or new_task_from_user_message(context.message)
        self.seen.begin(task.id)
        try:
            await event_queue.enqueue_event(task)
            updater = TaskUpdater(event_queue, task.id, task.context_id)
            await updater.start_work()
            await self.seen.open.wait()
            self.seen.effects += 1
            await updater.complete()
        finally:
            self.seen.end(task.id)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.seen.cancels += 1


# The pieces of a stream that readers join; the last ones come when all have joined.
PIECES = 200
LAST = 5
WHOLE = "".join(chunk(index, 16) for index in range(PIECES))


class Pieces(AgentExecutor):
    """Streams one artifact in pieces; the last ones once `seen.open` is set."""

    def __init__(self, seen: Executions) -> None:
        self.seen = seen

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        for index in range(PIECES):
            await self.seen.next_piece(index)
            await updater.add_artifact([Part(text=chunk(index, 16))], artifact_id="pieces", append=index > 0)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


class PiecesAgent:
    """Does on taskplane what `Pieces` does."""

    card = AgentCard(name="pieces", description="Streams.", version="1")

    def __init__(self, seen: Executions) -> None:
        self.seen = seen

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        for index in range(PIECES):
            await self.seen.next_piece(index)
            yield ArtifactChunk("pieces", text=chunk(index, 16), append=index > 0)
        yield Complete()


class Asking(AgentExecutor):
    """Asks a question, and completes with the answer."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None and context.task_id is not None and context.context_id is not None
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
            await updater.update_status(TaskState.TASK_STATE_INPUT_REQUIRED, new_text_message("Which?"))
        else:
            await updater.complete(new_text_message(context.get_user_input()))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


class HeldAgent:
    """Does on taskplane what `Held` does."""

    card = AgentCard(name="held", description="Waits.", version="1")

    def __init__(self, seen: Executions) -> None:
        self.seen = seen

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        self.seen.begin(turn.task_id)
        try:
            yield Working()
            await self.seen.open.wait()
            self.seen.effects += 1
            yield Complete()
        except asyncio.CancelledError:
            self.seen.cancels += turn.cancelled.is_set()
            raise
        finally:
            self.seen.end(turn.task_id)


class AskingAgent:
    """Says something and asks, at every turn."""

    card = AgentCard(name="asking", description="Asks.", version="1")

    def __init__(self, seen: Executions) -> None:
        self.seen = seen

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        self.seen.begin(turn.task_id)
        try:
            for number in range(3):
                yield ArtifactChunk(f"{turn.invocation_id}-{number}", text=turn.text, last=True)
                await asyncio.sleep(0)
            yield AskInput("And then?")
        finally:
            self.seen.end(turn.task_id)


async def joined(sender: httpx.AsyncClient, reader: httpx.AsyncClient, seen: Executions, readers: int) -> list[str]:
    """Start a stream of `PIECES`, and so many readers of it at random moments; what each of them has in the end."""
    moments = sorted(random.choices(range(1, PIECES - LAST), k=readers))
    print(f"readers join after so many pieces: {moments}")
    coming, found, texts = readers, list[Sse](), list[str]()

    async def join(task_id: str) -> None:
        nonlocal coming
        async with stream(reader, "SubscribeToTask", {"id": task_id}) as events:
            events_ = aiter(events)
            first = await anext(events_)
            coming -= 1
            if not coming:
                seen.open.set()
            texts.append("".join(pieces([first, *[event async for event in events_]])))

    async with (
        asyncio.TaskGroup() as group,
        stream(sender, "SendStreamingMessage", {"message": text_message("begin")}) as events,
    ):
        async for event in events:
            found.append(event)
            size = len("".join(pieces(found)))
            while moments and size >= moments[0] * len(WHOLE) / PIECES:
                moments.pop(0)
                group.create_task(join(task_of(found)["id"]))
    assert "".join(pieces(found)) == WHOLE
    return texts


async def begun(http: httpx.AsyncClient, text: str, **fields: Any) -> Json:
    """Sends a message without waiting for its end; the task."""
    params = {"message": text_message(text, **fields), "configuration": {"returnImmediately": True}}
    return dict((await result(http, "SendMessage", params))["task"])


async def streamed(http: httpx.AsyncClient, text: str) -> list[Sse]:
    """The events of a streaming send."""
    async with stream(http, "SendStreamingMessage", {"message": text_message(text)}) as events:
        return [event async for event in events]


def pieces(events: list[Sse]) -> list[str]:
    """The texts of the parts that a reader of these events has: those of the artifacts of a Task, and all pieces."""
    found: list[str] = []
    for event in events:
        artifacts = event.result.get("task", {}).get("artifacts", [])
        update = event.result.get("artifactUpdate")
        found += [part["text"] for each in artifacts for part in each["parts"]]
        found += [part["text"] for part in (update["artifact"]["parts"] if update else ())]
    return found


async def parts(http: httpx.AsyncClient, task_id: str) -> list[str]:
    """The texts of the parts of the only artifact of a task."""
    (artifact,) = (await result(http, "GetTask", {"id": task_id}))["artifacts"]
    return [part["text"] for part in artifact["parts"]]


async def in_state(http: httpx.AsyncClient, task_id: str, state: str) -> bool:
    """Whether a task is in this state."""
    return bool((await result(http, "GetTask", {"id": task_id}))["status"]["state"] == state)


async def bytes_per_chunk(http: httpx.AsyncClient, count: int) -> float:
    """Stream so many chunks of 60 bytes; the bytes that were bound in SQL for each."""
    before = bound_bytes()
    found = await streamed(http, f"chunks {count} 60")
    assert state_of(found[-1]) == "TASK_STATE_COMPLETED"
    return (bound_bytes() - before) / count
