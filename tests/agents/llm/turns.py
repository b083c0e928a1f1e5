"""Turns made by a test, and the scripted model behind an agent."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from tests.executor.plane import ANN, Plane, Stores, open_plane, said
from tests.support.scripted_model import Answer, Request, ScriptedModel, calls, open_model

from taskplane.agents.agent import Artifact, Change, Message, Task, Text, Turn
from taskplane.agents.llm import LanguageModel
from taskplane.api.a2a.v1 import a2a_pb2 as a2a


class Given:
    """The calls of a turn, answered from given values."""

    def __init__(self, *arriving: Sequence[str], referenced: Sequence[Task] = ()) -> None:
        self._arriving = list(arriving)
        self._referenced = list(referenced)

    async def incoming(self) -> list[Message]:
        return [said(words) for words in self._arriving.pop(0)] if self._arriving else []

    async def referenced(self) -> list[Task]:
        return self._referenced

    async def ended(self) -> bool:
        return False

    async def session_events(self) -> list[dict[str, Any]]:
        return []

    async def append_session_event(self, event: Mapping[str, Any]) -> None:
        raise AssertionError("no event is appended")

    async def session_state(self) -> dict[str, Any]:
        return {}

    async def artifact(self, task_id: str, artifact_id: str, having: Mapping[str, Any]) -> Artifact | None:
        return None


def turn(words: str, history: Sequence[Message] = (), calls: Given | None = None, **more: Any) -> Turn:
    """Returns a turn with these words of the user."""
    values: dict[str, Any] = {"message": said(words), "checkpoint": None, **more}
    return Turn(
        task_id="task",
        context_id="context",
        invocation_id=secrets.token_hex(4),
        history=history,
        task=None,
        attempt=1,
        fence=1,
        caller=ANN,
        cancelled=asyncio.Event(),
        calls=calls or Given(),
        **values,
    )


def answered(words: str) -> Message:
    """A message of the agent."""
    return said(words, role=a2a.ROLE_AGENT)


def model_at(server: ScriptedModel) -> OpenAIChatModel:
    """Returns the scripted model as a model of the library."""
    return OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=server.url, api_key="any"))


@asynccontextmanager
async def open_agent(
    script: Callable[[Request], Answer] | None = None, **options: Any
) -> AsyncGenerator[tuple[LanguageModel, ScriptedModel], None]:
    """The agent on a scripted model, and the model."""
    async with open_model(script) as server:
        agent = LanguageModel(model_at(server), **options)
        try:
            yield agent, server
        finally:
            await agent.aclose()


@asynccontextmanager
async def opened(
    stores: Stores, script: Callable[[Request], Answer], *, status_interval: float = 60.0, **options: Any
) -> AsyncGenerator[tuple[Plane, ScriptedModel], None]:
    """An executor of the agent on a scripted model."""
    async with (
        open_agent(script, **options) as (agent, server),
        open_plane(stores, ("llm", agent), status_interval=status_interval) as plane,
    ):
        yield plane, server


async def all_of(changes: AsyncIterator[Change] | Iterator[Change]) -> list[Change]:
    """Returns all changes of an agent."""
    assert isinstance(changes, AsyncIterator)
    return [change async for change in changes]


def text_of(changes: Sequence[Change]) -> str:
    """Returns the growing texts as one."""
    return "".join(change.delta for change in changes if isinstance(change, Text))


def stage(request: Request) -> str:
    """The stage of a turn that a request belongs to: route, work, artifact or status."""
    if "createTask" in request.tools:
        return "route"
    if request.forced:
        return "artifact"
    return "work" if request.tools else "status"


def by_stage(**answers: Answer | Callable[[Request], Answer]) -> Callable[[Request], Answer]:
    """A script with an answer for each stage; without an answer for `route`, each message becomes a task."""

    def script(request: Request) -> Answer:
        given = answers.get(stage(request))
        if given is None:
            return calls(("createTask", {"reason": "as scripted"})) if stage(request) == "route" else []
        return given(request) if callable(given) else given

    return script
