"""The A2A SDK's own server around an executor, on a real socket in this event loop."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send


class SdkServer:
    """A server that is up. `calls` has the headers of each request, `store` its tasks."""

    def __init__(self, url: str, port: int, store: TaskStore) -> None:
        self.url = url
        self.port = port
        self.store = store
        self.calls: list[dict[str, str]] = []


class _Server(uvicorn.Server):
    """Leaves signals to the tests."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class _Recording:
    def __init__(self, app: ASGIApp, server: SdkServer) -> None:
        self._app = app
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            self._server.calls.append({":path": scope["path"], **headers})
        await self._app(scope, receive, send)


@asynccontextmanager
async def sdk_server(
    executor: AgentExecutor, *, streaming: bool = True, binding: str = "JSONRPC", through: int = 0
) -> AsyncGenerator[SdkServer]:
    """A server of the executor. `through`: the port of a proxy, which its card names instead of its own."""
    listening = socket.create_server(("127.0.0.1", 0))
    port: int = listening.getsockname()[1]
    found = SdkServer(f"http://127.0.0.1:{port}", port, InMemoryTaskStore())
    card = AgentCard(
        name="Far away",
        description="An agent of another server.",
        version="7",
        capabilities=AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="all", name="all", description="Everything.", tags=["test"])],
        supported_interfaces=[
            AgentInterface(url=f"http://127.0.0.1:{through or port}", protocol_binding=binding, protocol_version="1.0")
        ],
    )
    handler = DefaultRequestHandler(agent_executor=executor, task_store=found.store, agent_card=card)
    calls = create_jsonrpc_routes(handler, "/") if binding == "JSONRPC" else create_rest_routes(handler)
    app = Starlette(routes=[*create_agent_card_routes(card), *calls], middleware=[Middleware(_Recording, server=found)])
    server = _Server(
        uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=1)
    )
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started:
        await asyncio.sleep(0.005)
    try:
        yield found
    finally:
        server.should_exit = True
        await serving
        listening.close()
