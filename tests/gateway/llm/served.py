"""The llm agent behind a gateway with a scripted model over HTTP, and readers of its turns as clients see them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic_ai.models import Model
from tests.agents.llm.turns import by_stage, model_at, stage
from tests.gateway.conversing import data, flat, payload, texts
from tests.gateway.plane import Event, Json, Plane, events, open_behind, open_front
from tests.support.scripted_model import Answer, CallBegin, CallPiece, Request, ScriptedModel, Step, Until, open_model

from taskplane.agents.agent import Agent
from taskplane.agents.llm import LanguageModel

REPORT = {"name": "Report", "description": "A report.", "content": "0123456789" * 50}


class Served:
    """A plane of agents on one scripted model. Tests run one after another, and each sets the answers of the model."""

    def __init__(self) -> None:
        self.plane: Plane
        self.model: ScriptedModel
        # The client of the model that the library uses.
        self.chat: Model
        self.gate = asyncio.Event()
        # Calls of the tool that have not returned.
        self.thinking = 0
        self._script = by_stage()

    def answers(self, **stages: Answer | Callable[[Request], Answer]) -> None:
        """Set the answers of the model by the stage of a turn, and a new gate."""
        self.gate = asyncio.Event()
        self.model.requests.clear()
        self._script = by_stage(**stages)

    def script(self, request: Request) -> Answer:
        return self._script(request)

    @property
    def stages(self) -> list[str]:
        """Return the stages of the requests to the model, without status texts."""
        return [found for found in map(stage, self.model.requests) if found != "status"]

    async def think(self) -> str:
        """Think."""
        self.thinking += 1
        try:
            await self.gate.wait()
        finally:
            self.thinking -= 1
        return "thought"

    def agent(self, *, kind: type[LanguageModel] = LanguageModel, **options: Any) -> LanguageModel:
        """Return an agent with the tool `think`. The limit for direct answers is high enough for slow machines."""
        given: dict[str, Any] = {"tools": [self.think], "direct_within": 60.0, **options}
        given.setdefault("direct_within_unary", given["direct_within"])
        return kind(self.chat, **given)


@asynccontextmanager
async def open_served(
    directory: Path, make: Callable[[Served], Mapping[str, Agent]], **executor: Any
) -> AsyncGenerator[Served]:
    """Open a plane of the agents that `make` returns; the first one is the default."""
    served = Served()
    settings = {"status_interval": 60.0, "route_timeout": 60.0, "unary_route_timeout": 25.0, **executor}
    async with open_model(served.script) as served.model:
        served.chat = model_at(served.model)
        agents = make(served).items()
        async with (
            served.chat,
            open_behind(directory, *agents, executor=settings) as behind,
            open_front(behind) as served.plane,
        ):
            yield served


def writing(*pieces: str, name: str = "Report", then: tuple[Step, ...] = ()) -> list[Step]:
    """Return the beginning of an artifact, its content in these pieces, and the steps that replace its end."""
    head = f'{{"name": "{name}", "description": "A report.", "content": "'
    return [
        CallBegin(0, "call-0", "createArtifact"),
        CallPiece(0, head),
        *(CallPiece(0, each) for each in pieces),
        *then,
    ]


def gated(*steps: Step) -> tuple[list[Step], list[asyncio.Event]]:
    """Return the steps with a gate after each, and the gates."""
    gates = [asyncio.Event() for _ in steps]
    return [each for step, gate in zip(steps, gates, strict=True) for each in (step, Until(gate))], gates


def kinds(found: list[Event]) -> list[tuple[str, Json]]:
    """Return the kind and the payload of each event, by the rule for clients."""
    return [payload(event.result) for event in found]


def chunks(found: list[Event]) -> list[Json]:
    """Return the artifact updates among events."""
    return [thing for kind, thing in kinds(found) if kind == "artifact-update"]


def status_texts(found: list[Event]) -> list[str]:
    """Return the status texts among events."""
    messages = [thing["status"].get("message", {}) for kind, thing in kinds(found) if kind == "status-update"]
    return texts([each for each in messages if each.get("metadata", {}).get("kind") == "status-message"])


def task_id(found: list[Event]) -> str:
    """Return the id of the task of a stream."""
    kind, thing = payload(found[0].result)
    assert kind == "task", found[0]
    return str(thing["id"])


async def log(plane: Plane, id_: str) -> list[Json]:
    """Return the log of an ended task."""
    async with asyncio.timeout(20), plane.http.stream("GET", f"/api/tasks/{id_}/events") as reply:
        return [event.data async for event in events(reply)]


async def artifacts(plane: Plane, id_: str) -> list[Json]:
    """Return the artifacts of a task."""
    found: list[Json] = await data(plane, f"/api/tasks/{id_}/artifacts")
    return found


async def conversation(plane: Plane, context: str) -> list[str]:
    """Return the texts of a session, and check that all routes have the same messages."""
    messages = await flat(plane, context)
    assert await data(plane, f"/api/sessions/{context}/messages?limit=1000") == {"messages": messages, "before": None}
    effective = await data(plane, f"/api/sessions/{context}/effective_history")
    ids = [message["messageId"] for message in messages]
    assert [message["messageId"] for message in effective["messages"]] == ids
    assert all(ids) and len(set(ids)) == len(ids)
    return texts(messages)
