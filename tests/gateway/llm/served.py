"""The llm agent behind a gateway, on a scripted model over HTTP, and what clients read of its turns."""

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
    """A plane of agents on one scripted model. Its tests are one after the other; each says what the model answers."""

    def __init__(self) -> None:
        self.plane: Plane
        self.model: ScriptedModel
        # The model as the library calls it.
        self.chat: Model
        self.gate = asyncio.Event()
        # Calls of the tool that are not over.
        self.thinking = 0
        self._script = by_stage()

    def answers(self, **stages: Answer | Callable[[Request], Answer]) -> None:
        """What the model answers from now on, by the stage of a turn; and a new gate."""
        self.gate = asyncio.Event()
        self.model.requests.clear()
        self._script = by_stage(**stages)

    def script(self, request: Request) -> Answer:
        return self._script(request)

    @property
    def stages(self) -> list[str]:
        """What the model was asked for, without status texts."""
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
        """An agent with the tool `think`. No answer is too slow to be direct, however slow the machine is."""
        given: dict[str, Any] = {"tools": [self.think], "direct_within": 60.0, **options}
        given.setdefault("direct_within_unary", given["direct_within"])
        return kind(self.chat, **given)


@asynccontextmanager
async def open_served(
    directory: Path, make: Callable[[Served], Mapping[str, Agent]], **executor: Any
) -> AsyncGenerator[Served]:
    """A plane of the agents that `make` makes, the first of which is the default one."""
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
    """The beginning of an artifact, its content in these pieces, and what comes instead of its end."""
    head = f'{{"name": "{name}", "description": "A report.", "content": "'
    return [
        CallBegin(0, "call-0", "createArtifact"),
        CallPiece(0, head),
        *(CallPiece(0, each) for each in pieces),
        *then,
    ]


def gated(*steps: Step) -> tuple[list[Step], list[asyncio.Event]]:
    """The same steps with a gate after each, and the gates."""
    gates = [asyncio.Event() for _ in steps]
    return [each for step, gate in zip(steps, gates, strict=True) for each in (step, Until(gate))], gates


def kinds(found: list[Event]) -> list[tuple[str, Json]]:
    """What the events are, by the rule for clients."""
    return [payload(event.result) for event in found]


def chunks(found: list[Event]) -> list[Json]:
    """The artifact updates among events."""
    return [thing for kind, thing in kinds(found) if kind == "artifact-update"]


def status_texts(found: list[Event]) -> list[str]:
    """The status texts among events."""
    messages = [thing["status"].get("message", {}) for kind, thing in kinds(found) if kind == "status-update"]
    return texts([each for each in messages if each.get("metadata", {}).get("kind") == "status-message"])


def task_id(found: list[Event]) -> str:
    """The id of the task of a stream."""
    kind, thing = payload(found[0].result)
    assert kind == "task", found[0]
    return str(thing["id"])


async def log(plane: Plane, id_: str) -> list[Json]:
    """The log of a task that has ended."""
    async with asyncio.timeout(20), plane.http.stream("GET", f"/api/tasks/{id_}/events") as reply:
        return [event.data async for event in events(reply)]


async def artifacts(plane: Plane, id_: str) -> list[Json]:
    """The artifacts of a task."""
    found: list[Json] = await data(plane, f"/api/tasks/{id_}/artifacts")
    return found


async def conversation(plane: Plane, context: str) -> list[str]:
    """The texts of a session, of which every way to read it has the same messages."""
    messages = await flat(plane, context)
    assert await data(plane, f"/api/sessions/{context}/messages?limit=1000") == {"messages": messages, "before": None}
    effective = await data(plane, f"/api/sessions/{context}/effective_history")
    ids = [message["messageId"] for message in messages]
    assert [message["messageId"] for message in effective["messages"]] == ids
    assert all(ids) and len(set(ids)) == len(ids)
    return texts(messages)
