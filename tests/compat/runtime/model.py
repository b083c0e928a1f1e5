"""A scripted model that records its inputs."""

from collections.abc import AsyncGenerator

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.tool_context import ToolContext
from google.genai import types

# The input of the model at each of its calls, the contents as `[role, text]` pairs.
SEEN: list[list[list[str]]] = []


class Recorder(BaseLlm):
    """Answers "remember a=b" with a call of the tool `remember`, and anything else with "heard <text>". Streaming, it
    sends each answer in two pieces and then whole."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        SEEN.append([[content.role or "", shown(content)] for content in llm_request.contents])
        last = llm_request.contents[-1].parts[-1]
        if last.text and last.text.startswith("remember "):
            key, _, value = last.text.removeprefix("remember ").partition("=")
            part = types.Part.from_function_call(name="remember", args={"key": key, "value": value})
            yield LlmResponse(content=types.Content(role="model", parts=[part]))
            return
        text = f"heard {last.text}" if last.text else "noted"
        if stream:
            for piece in (text[:3], text[3:]):
                yield LlmResponse(content=content_of(piece), partial=True)
        yield LlmResponse(content=content_of(text), partial=False)


def remember(key: str, value: str, tool_context: ToolContext) -> dict[str, str]:
    """Puts a value into the state."""
    tool_context.state[key] = value
    tool_context.state["temp:scratch"] = value
    return {"kept": value}


def content_of(text: str) -> types.Content:
    """A content of the model with this text."""
    return types.Content(role="model", parts=[types.Part(text=text)])


def shown(content: types.Content) -> str:
    """The parts of a content in a line; calls and results of tools as `name(...)` and `name: ...`."""
    pieces: list[str] = []
    for part in content.parts or []:
        if part.function_call:
            arguments = ", ".join(f"{key}={value}" for key, value in (part.function_call.args or {}).items())
            pieces.append(f"{part.function_call.name}({arguments})")
        elif part.function_response:
            pieces.append(f"{part.function_response.name}: {part.function_response.response}")
        else:
            pieces.append(part.text or "")
    return " ".join(pieces)
