"""Turns of the llm agent that pause at a chosen moment, and the streams that clients see of each."""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import MCPServer
from tests.agents.llm.processes import plain_command
from tests.agents.llm.turns import model_at, stage
from tests.executor.plane import until
from tests.gateway.plane import Event, Json, Plane, events, said
from tests.support.ports import free_port
from tests.support.scripted_model import (
    After,
    Answer,
    CallPiece,
    Delta,
    Request,
    ScriptedModel,
    Step,
    calls,
    hang,
    open_model,
    text,
)

from taskplane.agents.llm import LanguageModel

LATE = "what the thread found"
REPORT = {"name": "n", "description": "d", "content": "0123456789" * 10}
MOMENTS = ["routing", "stream", "tool", "thread", "stdio", "http", "artifact", "forced", "status", "between"]


def slowly(steps: Sequence[Step], seconds: float = 0.005) -> list[Step]:
    """Return the same steps with a pause before each piece."""
    return [
        each for step in steps for each in ([After(seconds), step] if isinstance(step, (Delta, CallPiece)) else [step])
    ]


class Tools:
    """Functions that the model may call, and the names of those that run."""

    def __init__(self) -> None:
        self.inside: set[str] = set()
        self.finished = 0
        self.release = threading.Event()

    async def think(self) -> str:
        """Think until stopped."""
        self.inside.add("tool")
        try:
            await asyncio.Event().wait()
        finally:
            self.inside.discard("tool")
        return "never"

    async def glance(self) -> str:
        """Look at something."""
        await asyncio.sleep(0.02)
        return "seen"

    def block(self) -> str:
        """Block a thread until the test releases it."""
        self.inside.add("thread")
        self.release.wait(60)
        self.inside.discard("thread")
        self.finished += 1
        return LATE


def script(request: Request) -> Answer:
    """Return the answer of the model: the first word of the user is the moment at which the turn pauses."""
    moment = next(words for role, words in request.said if role == "user").split()[0]
    done = [role for role, _ in request.said].count("tool")
    match stage(request), moment:
        case "route", "routing":
            return [*slowly(text(*"0123456789", finish=None)), *hang()]
        case "route", _:
            return slowly(calls(("createTask", {"reason": "as scripted"})))
        case "status", "status":
            return hang()
        case "status", _:
            return text("Thinking")
        case "artifact", "forced":
            return _half()
        case "artifact", _:
            return slowly(calls(("createArtifact", REPORT)))
        case _:
            pass
    tool = {"tool": "think", "thread": "block", "stdio": "wait", "http": "look", "between": "glance"}.get(moment)
    if tool and not done - 1:
        return slowly(calls((tool, {})))
    if moment == "artifact":
        return _half()
    if moment in ("stream", "status"):
        return [*slowly(text(*"0123456789", finish=None)), *hang()]
    return slowly(text(*["It", "is", "done."]))


def _half() -> list[Step]:
    return [*slowly(calls(("createArtifact", REPORT), finish=None)[:-5]), *hang()]


@dataclass
class Servers:
    """A model, tools, and the agent that has them. `looking`: calls of the tool of the MCP server over HTTP."""

    model: ScriptedModel
    tools: Tools
    agent: LanguageModel
    started: Path
    looking: list[int]

    def processes(self) -> list[int]:
        """Return the ids of all processes of the MCP server, in the order of their starts."""
        lines = self.started.read_text().split() if self.started.exists() else []
        return [int(line) for line in lines if line.isdecimal()]

    def called(self) -> int:
        """Return the number of tool calls of these processes."""
        return self.started.read_text().split().count("called") if self.started.exists() else 0

    def running(self) -> list[int]:
        """Return the processes that still run."""
        return [process for process in self.processes() if _runs(process)]


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@asynccontextmanager
async def open_servers(directory: Path) -> AsyncGenerator[Servers, None]:
    """Open the servers, and an agent with own tools, tools of a process and tools of a server over HTTP."""
    looking: list[int] = []
    started, tools = directory / "started", Tools()
    async with open_model(script) as model, _http_server(looking) as url:
        functions = [tools.think, tools.glance, tools.block]
        agent = LanguageModel(
            model_at(model),
            tools=functions,
            mcp=[plain_command(started), url],
            direct_within=0.02,
            direct_within_unary=0.02,
        )
        try:
            yield Servers(model, tools, agent, started, looking)
        finally:
            tools.release.set()
            await agent.aclose()


@asynccontextmanager
async def _http_server(looking: list[int]) -> AsyncGenerator[str, None]:
    tools = MCPServer("looks")

    @tools.tool()
    async def look() -> str:
        """Look until stopped."""
        looking.append(1)
        try:
            await asyncio.Event().wait()
        finally:
            looking.pop()
        return "never"

    port = free_port()
    config = uvicorn.Config(tools.streamable_http_app(), port=port, log_level="warning", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = True
        await serving


@dataclass
class Round:
    """A turn, and the three streams by which clients follow it."""

    moment: str
    plane: Plane
    servers: Servers
    asked: int
    called: int
    task_id: str = ""
    streams: list[list[Event]] = field(default_factory=lambda: [[], [], []])
    readers: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    @property
    def requests(self) -> list[Request]:
        """Return the requests to the model in this turn."""
        return self.servers.model.requests[self.asked :]

    def is_there(self) -> bool:
        """Return whether the turn has reached the moment of the cancel."""
        if self.moment in ("tool", "thread"):
            return self.moment in self.servers.tools.inside
        if self.moment == "stdio":
            return self.servers.called() > self.called
        if self.moment == "http":
            return bool(self.servers.looking)
        at = {"routing": "route", "stream": "work", "artifact": "work", "forced": "artifact", "status": "status"}
        wanted = at.get(self.moment)
        return wanted is None or any(stage(each) == wanted and each.begun.is_set() for each in self.requests)

    async def read(self, stream: int, found: AsyncIterator[Event]) -> None:
        """Read a stream to its end."""
        async for event in found:
            self.streams[stream].append(event)


async def log_of(plane: Plane, task_id: str) -> list[Json]:
    """Return the log of an ended task, from its first event."""
    async with plane.http.stream("GET", f"/api/tasks/{task_id}/events") as reply:
        return [event.data async for event in events(reply)]


@asynccontextmanager
async def open_round(plane: Plane, servers: Servers, moment: str) -> AsyncGenerator[Round, None]:
    """Send a message, wait until its turn has reached the moment of the cancel, and follow it by the stream of the
    send, a subscription and the log."""
    servers.tools.release = threading.Event()
    turn = Round(moment, plane, servers, len(servers.model.requests), servers.called())
    params = {"message": said(f"{moment} please")}

    async def send() -> None:
        async with plane.stream("SendStreamingMessage", params) as found:
            await turn.read(0, found)

    async def subscribe() -> None:
        async with plane.stream("SubscribeToTask", {"id": turn.task_id}) as found:
            await turn.read(1, found)

    async def follow() -> None:
        async with plane.http.stream("GET", f"/api/tasks/{turn.task_id}/events") as reply:
            await turn.read(2, events(reply))

    try:
        turn.readers.append(asyncio.create_task(send()))
        await until(lambda: bool(turn.streams[0]))
        turn.task_id = turn.streams[0][0].result["task"]["id"]
        turn.readers += [asyncio.create_task(each()) for each in (subscribe, follow)]
        await until(lambda: all(turn.streams))
        await until(turn.is_there)
        yield turn
    finally:
        servers.tools.release.set()
        for reader in turn.readers:
            reader.cancel()
        await asyncio.gather(*turn.readers, return_exceptions=True)
