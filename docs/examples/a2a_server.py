"""A server of the A2A SDK, by itself, with the executor of `a2a_greeter.py`."""

import sys

import uvicorn
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from a2a_greeter import Greeter
from starlette.applications import Starlette

port = int(sys.argv[1])
card = AgentCard(
    name="Greeter",
    description="Writes a welcome to whoever says their name.",
    version="1",
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[AgentSkill(id="greet", name="Greet", description="Writes a welcome.", tags=["text"])],
    supported_interfaces=[
        AgentInterface(url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC", protocol_version="1.0")
    ],
)
handler = DefaultRequestHandler(agent_executor=Greeter(), task_store=InMemoryTaskStore(), agent_card=card)
app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
uvicorn.run(app, host="127.0.0.1", port=port)
