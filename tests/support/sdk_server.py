"""The A2A SDK's own server around an executor, on a real socket in this event loop."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Literal

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.cluster import TaskEventStream, VersionedTaskStore
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send


class _Server(uvicorn.Server):
    """Leaves signals to the tests."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class _Recording:
    def __init__(self, app: ASGIApp, calls: list[dict[str, str]]) -> None:
        self._app = app
        self._calls = calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self._calls.append({":path": scope["path"], ":client": str(scope["client"][1]), **headers})
        await self._app(scope, receive, send)


@asynccontextmanager
async def serving(
    app: ASGIApp, listening: socket.socket | None = None, *, lifespan: Literal["on", "off"] = "off"
) -> AsyncGenerator["Serving"]:
    """An application on a free port of loopback, or on a listening socket. `lifespan`: whether it has one."""
    listening = listening or socket.create_server(("127.0.0.1", 0))
    # Connections that a client leaves open are closed by nobody else while a test lasts.
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan=lifespan,
        timeout_keep_alive=300,
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    running = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started:
        await asyncio.sleep(0.005)
    try:
        yield Serving(listening.getsockname()[1], server)
    finally:
        server.should_exit = True
        await running
        listening.close()


class Serving:
    """A running server."""

    def __init__(self, port: int, server: uvicorn.Server) -> None:
        self.port = port
        self._server = server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._server.server_state.connections)


class SdkServer:
    """A server of an executor. `calls` has the headers of each request, `store` has its tasks unless the server was
    given a store of its own."""

    def __init__(
        self, serving: Serving, store: InMemoryTaskStore, handler: DefaultRequestHandler, calls: list[dict[str, str]]
    ) -> None:
        self.serving = serving
        self.store = store
        self.handler = handler
        self.calls = calls
        self.url, self.port = serving.url, serving.port


@asynccontextmanager
async def sdk_server(
    executor: AgentExecutor,
    *,
    streaming: bool = True,
    binding: str = "JSONRPC",
    through: int = 0,
    stored: TaskStore | VersionedTaskStore | None = None,
    events: TaskEventStream | None = None,
    send_buffer: int = 0,
) -> AsyncGenerator[SdkServer]:
    """A server of the executor. `through`: the port of a proxy, which its card names instead of its own.

    `stored`: its store in place of memory. `events`: the events of all replicas on one store. `send_buffer`: bytes that
    the system keeps for a client that does not read; 0 leaves it to the system.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    if send_buffer:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    port = through or listening.getsockname()[1]
    card = AgentCard(
        name="Far away",
        description="An agent of another server.",
        version="7",
        capabilities=AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="all", name="all", description="Everything.", tags=["test"])],
        supported_interfaces=[
            AgentInterface(url=f"http://127.0.0.1:{port}", protocol_binding=binding, protocol_version="1.0")
        ],
    )
    store, calls = InMemoryTaskStore(), list[dict[str, str]]()
    handler = DefaultRequestHandler(
        agent_executor=executor, task_store=stored or store, agent_card=card, event_stream=events
    )
    routes = create_jsonrpc_routes(handler, "/") if binding == "JSONRPC" else create_rest_routes(handler)
    app = Starlette(routes=[*create_agent_card_routes(card), *routes])
    try:
        async with serving(_Recording(app, calls), listening) as up:
            yield SdkServer(up, store, handler, calls)
    finally:
        await handler.aclose()
