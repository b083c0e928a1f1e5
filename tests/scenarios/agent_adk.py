"""The scenarios with an ADK agent that has a scripted model."""

from collections.abc import AsyncGenerator

from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from tests.scenarios.script import COUNTED, QUESTION, SECRET, Gate, rerun

from taskplane.agents.agent import Agent


class Scripted(BaseLlm):
    """A model without a network."""

    model: str = "scripted"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        part = (llm_request.contents[-1].parts or [types.Part()])[-1]
        word, _, rest = (part.text or "").partition(" ")
        if part.function_response is not None:
            response = part.function_response.response or {}
            if "gate" in response:
                await Gate(response["gate"]).passed()
            for answer in responses(f"Hello, {response['result']}." if "result" in response else "Saved."):
                yield answer
        elif word == "ask":
            yield called("ask_user", question=QUESTION)
        elif word == "artifact":
            yield called("save", gate=rest)
        elif word == "fail":
            raise RuntimeError(SECRET)
        elif word == "slow":
            for partial in responses("begun")[:1]:
                yield partial
            await Gate(rest).passed()
            for answer in responses("finished"):
                yield answer
        else:
            for answer in responses("one ", "two ", "three") if word == "count" else responses(f"Hello, {rest}."):
                yield answer


def responses(*pieces: str) -> list[LlmResponse]:
    """Partial responses, and the final one that repeats them."""
    partial = [
        LlmResponse(content=types.ModelContent(parts=[types.Part(text=piece)]), partial=True) for piece in pieces
    ]
    return [*partial, LlmResponse(content=types.ModelContent(parts=[types.Part(text="".join(pieces))]), partial=False)]


def called(name: str, **args: str) -> LlmResponse:
    return LlmResponse(content=types.ModelContent(parts=[types.Part.from_function_call(name=name, args=args)]))


def ask_user(question: str) -> None:
    """Asks the user."""


async def save(gate: str, tool_context: ToolContext) -> dict[str, str]:
    """Saves the report."""
    await tool_context.save_artifact("Report", types.Part(text=COUNTED))
    return {"gate": gate}


def agent() -> LlmAgent:
    return LlmAgent(name="adk", model=Scripted(), tools=[LongRunningFunctionTool(ask_user), save])


def again() -> Agent:
    return rerun(agent())
