"""The `llm` agent: a language model of any provider that pydantic-ai supports."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, Literal

from pydantic_ai import Agent
from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded, UserError
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models import Model, infer_model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import DeferredToolRequests, Tool
from pydantic_ai.usage import UsageLimits

from taskplane.agents.agent import (
    AgentError,
    ArtifactChunk,
    Change,
    Policy,
    Say,
    StatusText,
    Text,
    ToolCall,
    Turn,
    Usage,
    Working,
)
from taskplane.agents.llm import prompts
from taskplane.agents.llm.artifact_stream import TOOL as ARTIFACT_TOOL
from taskplane.agents.llm.artifact_stream import artifact_ids
from taskplane.agents.llm.events import Events, figures
from taskplane.agents.llm.history import messages_of
from taskplane.agents.llm.model_run import ModelRun
from taskplane.agents.llm.own_task import OwnTask
from taskplane.agents.llm.retries import Retries
from taskplane.agents.llm.settings import LlmSettings
from taskplane.agents.llm.tool_servers import open_servers
from taskplane.api import __version__
from taskplane.api.a2a.v1.a2a_pb2 import AgentCapabilities, AgentCard, AgentSkill
from taskplane.runtime.errors import Invalid

log = logging.getLogger(__name__)

# Model calls of one run.
_REQUESTS: Final = 50
_MOST_ANSWERED: Final = 1_000
_NO_ARTIFACT: Final = (
    "The language model made no artifact, though it is required. A model that cannot be made to call a tool needs"
    " TASKPLANE_LLM_ARTIFACT=auto."
)
_NO_CONTENT: Final = "The language model wrote an artifact without any content."


class LanguageModel:
    """An agent of a language model: routing, tools, status texts and artifacts.

    Stages of a turn: `route` lets the model answer directly or ask for a task; `run` works on the task with the tools;
    `make_artifact` makes the model write a missing artifact; `status_text` asks the model about its progress.
    """

    # All turns share the connections to the provider, which belong to an event loop.
    one_event_loop: Final = True

    def __init__(
        self,
        model: str | Model,
        *,
        tools: Sequence[Callable[..., Any] | Tool[object]] = (),
        prompt: str = "",
        mcp: Sequence[str] = (),
        mcp_timeout: float = 60.0,
        artifact: Literal["always", "auto"] = "always",
        run_limit: float = 600.0,
        timeout: float = 120.0,
        attempts: int = 3,
        direct_within: float = 2.0,
        direct_within_unary: float = 15.0,
        card: AgentCard | None = None,
    ) -> None:
        """`model`: PROVIDER:NAME as in pydantic-ai, or a model object of pydantic-ai. `tools`: functions; the model
        sees their names, annotations and docstrings. Each other argument is the setting with its name. Invalid: the
        model is unknown, or a setting for it is missing.
        """
        self.card = card or _card()
        self.settings: Final = LlmSettings(
            prompt=prompt,
            mcp=tuple(mcp),
            mcp_timeout=mcp_timeout,
            artifact=artifact,
            run_limit=run_limit,
            timeout=timeout,
            attempts=attempts,
            direct_within=direct_within,
            direct_within_unary=direct_within_unary,
        )
        self.model: Final = _inferred(model)
        # Turns that became tasks only because their direct answer was slow, and get no artifact.
        self._answered: dict[str, bool] = {}
        # Repeated here and nowhere else: the SDK of a provider would repeat by itself.
        quiet = ModelSettings(timeout=timeout, max_retries=0)
        retries = Retries(attempts=attempts)
        self._speaker: Final[Agent[object, str]] = Agent(
            self.model, instructions=prompt or None, model_settings=quiet, capabilities=[retries]
        )
        self._worker: Final[Agent[object, str]] = Agent(
            self.model,
            instructions=prompt or None,
            tools=[*tools, prompts.artifact_tool()],
            model_settings=quiet,
            capabilities=[retries],
        )
        self._tool_names = [each.name if isinstance(each, Tool) else each.__name__ for each in tools]

    @classmethod
    def of(cls, settings: LlmSettings) -> "LanguageModel":
        """Return the agent that the settings describe. Invalid: the model is missing or unknown."""
        if not settings.model:
            raise Invalid(
                "TASKPLANE_LLM_MODEL is not set, which names the model of the agent llm",
                reason="BAD_SETTING",
                suggestion="for example TASKPLANE_LLM_MODEL=openai-chat:gpt-5-mini, with OPENAI_API_KEY",
                fields={"TASKPLANE_LLM_MODEL": "is not set"},
            )
        return cls(
            settings.model,
            prompt=settings.prompt,
            mcp=settings.mcp,
            mcp_timeout=settings.mcp_timeout,
            artifact=settings.artifact,
            run_limit=settings.run_limit,
            timeout=settings.timeout,
            attempts=settings.attempts,
            direct_within=settings.direct_within,
            direct_within_unary=settings.direct_within_unary,
        )

    def policy(self, turn: Turn) -> Policy:
        """Return a policy with the run limit."""
        return Policy(run_limit=self.settings.run_limit)

    async def route(self, turn: Turn) -> str | AsyncIterator[Change]:
        """Return the model's direct answer; or a run, if the model asks for a task or its answer is slow."""
        changes = OwnTask(lambda: self._decide(turn))
        taken: list[Change] = []
        settings = self.settings
        patience = asyncio.timeout(settings.direct_within_unary if turn.waits else settings.direct_within)
        try:
            async with patience:
                async for change in changes:
                    taken.append(change)
                    if isinstance(change, Working):
                        break
                else:
                    self._answered.pop(turn.invocation_id, False)
                    return _joined(taken)
        except TimeoutError:
            if not patience.expired():
                raise
        except BaseException:
            await changes.aclose()
            raise
        changes.put_back(taken)
        return changes

    def run(self, turn: Turn) -> AsyncIterator[Change]:
        """Work on a task with the tools of the agent."""
        return OwnTask(lambda: self._work(turn, _events(turn)))

    def make_artifact(self, turn: Turn) -> AsyncIterator[Change]:
        """Make the model write an artifact, unless the setting `artifact` is "auto"."""
        return OwnTask(lambda: self._force(turn))

    async def status_text(self, turn: Turn, recent: Sequence[str]) -> StatusText:
        """Return the progress as a text of the model, and the figures of that call."""
        asked = ModelRequest(parts=[UserPromptPart(prompts.status(recent))])
        messages = [*await messages_of(turn, tools=False), asked]
        said = await self._speaker.run(message_history=messages, usage_limits=UsageLimits(request_limit=1))
        return StatusText(said.output.strip().strip("\"'.").strip() or None, figures(said.usage))

    async def aclose(self) -> None:
        """Close the connections to the provider that are kept for further calls."""
        async with self.model:
            pass

    async def _decide(self, turn: Turn) -> AsyncGenerator[Change, None]:
        """Yield the direct answer; or, when the model asks for a task, Working and then the work on the task."""
        events = _events(turn)
        deciding = ModelRun(
            self._speaker,
            await messages_of(turn, tools=True),
            events,
            instructions=prompts.routing(self._tool_names, len(self.settings.mcp)),
            toolsets=[prompts.task_toolset()],
            output_type=[str, DeferredToolRequests],
            usage_limits=UsageLimits(request_limit=_REQUESTS),
        )
        words: list[str] = []
        async with aclosing(deciding.changes()) as changes:
            async for change in changes:
                if isinstance(change, (Text, Usage)):
                    yield change
                if isinstance(change, Text):
                    words.append(change.delta)
                elif words and isinstance(change, (Say, ToolCall)):
                    # The model called an unknown tool, and begins again.
                    yield Say("".join(words))
                    words.clear()
        if not isinstance(deciding.output, DeferredToolRequests):
            self._remember_answered(turn.invocation_id)
            return
        log.info("the model asks for a task: %s", deciding.output.calls[0].args_as_dict().get("reason", ""))
        yield Working()
        # The task goes on after the call that asked for it.
        returns = [
            ToolReturnPart(call.tool_name, prompts.TASK_CREATED, call.tool_call_id) for call in deciding.output.calls
        ]
        begun = [*deciding.new_messages, ModelRequest(parts=returns)]
        async with aclosing(self._work(turn, events, begun)) as changes:
            async for change in changes:
                yield change

    async def _work(
        self, turn: Turn, events: Events, begun: Sequence[ModelMessage] = ()
    ) -> AsyncGenerator[Change, None]:
        """Yield the work on a task. `begun`: the messages about the task after the user's message."""
        messages = [*await messages_of(turn, tools=True), *begun]
        async with open_servers(self.settings.mcp, self.settings.mcp_timeout) as toolsets:
            working = ModelRun(
                self._worker,
                messages,
                events,
                incoming=turn,
                instructions=prompts.WORKING,
                toolsets=toolsets,
                usage_limits=UsageLimits(request_limit=_REQUESTS),
            )
            async with aclosing(working.changes()) as changes:
                async for change in changes:
                    yield change

    async def _force(self, turn: Turn) -> AsyncGenerator[Change, None]:
        """Yield an artifact that the model must write; nothing after a direct answer."""
        if self.settings.artifact == "auto" or self._answered.pop(turn.invocation_id, False):
            return
        asked = ModelRequest(parts=[UserPromptPart(prompts.FORCED)])
        events = _events(turn)
        writing = ModelRun(
            self._speaker,
            [*await messages_of(turn, tools=False), asked],
            events,
            output_type=prompts.artifact_output(),
            usage_limits=UsageLimits(request_limit=1),
        )
        try:
            async with aclosing(writing.changes()) as changes:
                async for change in changes:
                    if isinstance(change, (ArtifactChunk, Usage)):
                        yield change
        except AgentError as error:
            if events.made_artifact or not _lacks_tool(error):
                raise
            raise AgentError(_NO_ARTIFACT) from error
        if not events.made_artifact:
            raise AgentError(_NO_CONTENT)

    def _remember_answered(self, invocation_id: str) -> None:
        self._answered[invocation_id] = True
        if len(self._answered) > _MOST_ANSWERED:
            del self._answered[next(iter(self._answered))]


def _joined(said: Sequence[Change]) -> str:
    """Return growing texts as one answer: each text that ended with a Say is a paragraph."""
    pieces = [
        change.delta if isinstance(change, Text) else "\n\n" for change in said if isinstance(change, (Text, Say))
    ]
    return "".join(pieces).strip()


def _events(turn: Turn) -> Events:
    return Events(artifact_tool=ARTIFACT_TOOL, artifact_id=artifact_ids(turn), hidden=(prompts.TASK_TOOL,))


def _lacks_tool(error: AgentError) -> bool:
    """Return whether a model answered, but not with the tool that it was to call."""
    return isinstance(error.__cause__, (UnexpectedModelBehavior, UsageLimitExceeded))


def _inferred(model: str | Model) -> Model:
    try:
        return infer_model(model)
    except (UserError, ImportError, ValueError) as error:
        raise Invalid(
            f"the language model {model!r} cannot be used: {error}",
            reason="BAD_SETTING",
            suggestion="name it PROVIDER:NAME, for example openai-chat:gpt-5-mini or ollama:qwen3, with the variables"
            " of its provider, for example OPENAI_API_KEY",
            fields={"TASKPLANE_LLM_MODEL": str(error)},
        ) from error


def _card() -> AgentCard:
    return AgentCard(
        name="llm",
        description="A language model that answers, works on tasks with tools, and writes documents.",
        version=__version__,
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[
            AgentSkill(id="answer", name="Answers", description="Answers questions.", tags=["llm"]),
            AgentSkill(id="write", name="Documents", description="Writes documents, code and tables.", tags=["llm"]),
        ],
    )
