"""The peer: a server of the official A2A SDK with the two workloads that both sides serve.

    python -m bench.peer PORT memory|sqlite FILE [GRPC_PORT]

Runs on the same HTTP stack as taskplane's gateway (uvicorn, httptools, uvloop). `/bench/bytes` tells the bytes that
the SQLite store bound as SQL parameters. JSON-RPC and REST share the port; gRPC has one of its own if it is given.
"""

import asyncio
import sys
from importlib import import_module
from typing import Any, Final

import grpc
import uvicorn
import uvloop
from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.request_handlers.grpc_handler import GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import DatabaseTaskStore, InMemoryTaskStore, TaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part, TaskState
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from bench.counting import bound_bytes, count_bound_bytes
from bench.load import chunk

# It has no types.
_SERVICE: Final[Any] = import_module("a2a.types.a2a_pb2_grpc")


class Workloads(AgentExecutor):
    """`echo TEXT` and `chunks N SIZE`: what taskplane's demo agent yields, change for change."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Runs one command; the text of the message decides."""
        assert context.message is not None
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        words = context.get_user_input().split()
        if words[0] == "chunks":
            count, size = int(words[1]), int(words[2])
            for index in range(count):
                await updater.add_artifact(
                    [Part(text=chunk(index, size))],
                    artifact_id="chunks",
                    append=index > 0,
                    last_chunk=index == count - 1,
                )
            await updater.complete()
        else:
            for word in words[1:]:
                await updater.update_status(TaskState.TASK_STATE_WORKING, new_text_message(word))
            await updater.complete(new_text_message(" ".join(words[1:])))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Never asked for here."""
        raise NotImplementedError


def card(port: int, grpc_port: int) -> AgentCard:
    """The card of the agent, with an interface of each binding."""
    url = f"http://127.0.0.1:{port}/"
    interfaces = [
        AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")
        for binding in ("JSONRPC", "HTTP+JSON")
    ]
    if grpc_port:
        at = f"127.0.0.1:{grpc_port}"
        interfaces.append(AgentInterface(url=at, protocol_binding="GRPC", protocol_version="1.0"))
    return AgentCard(
        name="peer",
        description="the workloads of the benchmark",
        version="1.0",
        capabilities=AgentCapabilities(streaming=True),
        supported_interfaces=interfaces,
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="bench", name="bench", description="bench", tags=["bench"])],
    )


def application(handler: DefaultRequestHandler, card: AgentCard) -> Starlette:
    """The SDK's server of JSON-RPC and REST."""

    async def counted(_: Request) -> JSONResponse:
        return JSONResponse({"bytes": bound_bytes()})

    routes: list[BaseRoute] = [
        *create_agent_card_routes(card),
        *create_jsonrpc_routes(handler, "/"),
        Route("/bench/bytes", counted),
        *create_rest_routes(handler),
    ]
    return Starlette(routes=routes)


async def serve(port: int, grpc_port: int, store: TaskStore, agent: AgentExecutor) -> None:
    """Serves until killed, on the loop of taskplane's processes."""
    told = card(port, grpc_port)
    handler = DefaultRequestHandler(agent_executor=agent, task_store=store, agent_card=told)
    config = uvicorn.Config(
        application(handler, told), host="127.0.0.1", port=port, http="httptools", log_level="warning", access_log=False
    )
    if grpc_port:
        server: Any = grpc.aio.server()
        _SERVICE.add_A2AServiceServicer_to_server(GrpcHandler(handler), server)
        server.add_insecure_port(f"127.0.0.1:{grpc_port}")
        await server.start()
    await uvicorn.Server(config).serve()


def main(argv: list[str], agent: AgentExecutor) -> None:
    """Serves until killed."""
    port, kind = int(argv[1]), argv[2]
    store: Any
    if kind == "sqlite":
        count_bound_bytes()
        store = DatabaseTaskStore(create_async_engine(f"sqlite+aiosqlite:///{argv[3]}"))
    else:
        store = InMemoryTaskStore()
    grpc_port = int(argv[4]) if len(argv) > 4 else 0
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(port, grpc_port, store, agent))


if __name__ == "__main__":
    main(sys.argv, Workloads())
