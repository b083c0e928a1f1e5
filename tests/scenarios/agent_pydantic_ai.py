"""The scenarios with an agent of pydantic-ai that has a function as its model."""

from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, Tool
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset
from tests.scenarios.script import QUESTION, SECRET, Gate, rerun

from taskplane.agents import agent as port

ASK = ToolDefinition(
    name="ask_user",
    description="Ask the user.",
    parameters_json_schema={"type": "object", "properties": {"question": {"type": "string"}}},
)


async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    last = messages[-1]
    assert isinstance(last, ModelRequest)
    part = last.parts[-1]
    if isinstance(part, ToolReturnPart):
        yield f"Hello, {part.content}." if part.tool_name == "ask_user" else str(part.content)
        return
    assert isinstance(part, UserPromptPart)
    word, _, rest = str(part.content).partition(" ")
    match word:
        case "hello":
            yield f"Hello, {rest}."
        case "count":
            for piece in ("one ", "two ", "three"):
                yield piece
        case "ask":
            yield {0: DeltaToolCall(name="ask_user", json_args=f'{{"question": "{QUESTION}"}}')}
        case "artifact":
            yield {0: DeltaToolCall(name="createArtifact", json_args='{"name": "Report", "content": "one ')}
            await Gate(rest).passed()
            yield {0: DeltaToolCall(json_args="two ")}
            yield {0: DeltaToolCall(json_args='three"}')}
        case "slow":
            yield "begun"
            await Gate(rest).passed()
            yield {1: DeltaToolCall(name="finish", json_args="{}")}
        case _:
            raise RuntimeError(SECRET)


def create_artifact(name: str, content: str) -> str:
    return f"{name} was made of {len(content)} characters"


def finish() -> str:
    return "finished"


def agent() -> Agent[None, Any]:
    return Agent(
        FunctionModel(stream_function=answer),
        output_type=[str, DeferredToolRequests],
        tools=[Tool(create_artifact, name="createArtifact"), finish],
        toolsets=[ExternalToolset([ASK])],
    )


def again() -> port.Agent:
    return rerun(agent())
