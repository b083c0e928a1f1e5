"""The peer: a server of the official A2A SDK with the two workloads that both sides serve.

    python -m bench.peer PORT memory|sqlite [FILE]

Runs on the same HTTP stack as taskplane's gateway (uvicorn, httptools, uvloop). `/bench/bytes` tells the bytes that
the SQLite store bound as SQL parameters.
"""

import sys
from typing import Any, cast

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import DatabaseTaskStore, InMemoryTaskStore, TaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part, TaskState
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from bench.counting import bound_bytes, count_bound_bytes
from bench.load import chunk


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


def application(port: int, store: TaskStore, agent: AgentExecutor) -> Starlette:
    """The SDK's JSON-RPC server around `store`."""
    url = f"http://127.0.0.1:{port}/"
    card = AgentCard(
        name="peer",
        description="the workloads of the benchmark",
        version="1.0",
        capabilities=AgentCapabilities(streaming=True),
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="bench", name="bench", description="bench", tags=["bench"])],
    )
    handler = DefaultRequestHandler(agent_executor=agent, task_store=store, agent_card=card)

    async def counted(_: Request) -> JSONResponse:
        return JSONResponse({"bytes": bound_bytes()})

    routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/"), Route("/bench/bytes", counted)]
    return Starlette(routes=cast(list[BaseRoute], routes))


def main(argv: list[str], agent: AgentExecutor) -> None:
    """Serves until killed."""
    port, kind = int(argv[1]), argv[2]
    store: Any
    if kind == "sqlite":
        count_bound_bytes()
        store = DatabaseTaskStore(create_async_engine(f"sqlite+aiosqlite:///{argv[3]}"))
    else:
        store = InMemoryTaskStore()
    uvicorn.run(
        application(port, store, agent),
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http="httptools",
        log_level="warning",
        access_log=False,
    )


if __name__ == "__main__":
    main(sys.argv, Workloads())
