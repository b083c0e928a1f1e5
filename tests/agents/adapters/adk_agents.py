"""ADK agents over a scripted model that obeys the message and keeps every request."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import date
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import PrivateAttr

Seen = list[tuple[str, str]]


class Obedient(BaseLlm):
    """Calls the tool that a message names, as in `remember key=a value=b`, and then answers "noted" with its result.
    `wait` yields a word and then waits for ever, and so does the turn after a tool if it `waits_after_tools`. `refuse`
    ends with an error, `break` with an exception; `empty` yields nothing. It answers anything else with "heard" and the
    words, in two pieces."""

    model: str = "obedient"
    waits_after_tools: bool = False
    _seen: list[Seen] = PrivateAttr(default_factory=list[Seen])
    _waits: asyncio.Event = PrivateAttr(default_factory=asyncio.Event)
    _left: asyncio.Event = PrivateAttr(default_factory=asyncio.Event)

    @property
    def seen(self) -> list[Seen]:
        """The contents of each request: role and parts of each in a line."""
        return self._seen

    @property
    def waits(self) -> asyncio.Event:
        """It has sent a word and waits."""
        return self._waits

    @property
    def left(self) -> asyncio.Event:
        """It was stopped during the wait."""
        return self._left

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self._seen.append([(content.role or "", shown(content)) for content in llm_request.contents])
        last = (llm_request.contents[-1].parts or [types.Part()])[-1]
        words = last.text or ""
        name, *args = words.split(" ")
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=3, candidates_token_count=2)
        if name in llm_request.tools_dict:
            call = types.Part.from_function_call(name=name, args=dict(arg.split("=", 1) for arg in args))
            yield LlmResponse(content=types.ModelContent(parts=[call]), usage_metadata=usage)
        elif name == "refuse":
            yield LlmResponse(error_code="SAFETY", error_message="password=hunter2")
        elif name == "break":
            raise RuntimeError("password=hunter2")
        elif name == "wait" or (not words and self.waits_after_tools):
            yield LlmResponse(content=types.ModelContent(parts=[types.Part(text="begun ")]), partial=True)
            self._waits.set()
            try:
                await asyncio.Event().wait()
            finally:
                self._left.set()
        elif name != "empty":
            text = f"heard {words}" if words else f"noted {shown(llm_request.contents[-1])}"
            for piece in (text[:3], text[3:]):
                yield LlmResponse(content=types.ModelContent(parts=[types.Part(text=piece)]), partial=True)
            whole = types.ModelContent(parts=[types.Part(text=text)])
            yield LlmResponse(content=whole, partial=False, usage_metadata=usage)


def shown(content: types.Content) -> str:
    """The parts of a content; calls and results of tools as `name(...)` and `name: ...`."""
    pieces: list[str] = []
    for part in content.parts or []:
        if part.function_call:
            pieces.append(f"{part.function_call.name}({part.function_call.args})")
        elif part.function_response:
            pieces.append(f"{part.function_response.name}: {part.function_response.response}")
        elif part.inline_data:
            pieces.append(f"{part.inline_data.mime_type}: {part.inline_data.data!r}")
        elif part.file_data:
            pieces.append(part.file_data.file_uri or "")
        else:
            pieces.append(part.text or "")
    return " ".join(pieces)


def remember(key: str, value: str, tool_context: ToolContext) -> dict[str, Any]:
    """Puts a value into the state."""
    tool_context.state[key] = value
    tool_context.state["temp:scratch"] = value
    tool_context.state["count"] = tool_context.state.get("count", 0) + 1
    return {"kept": tool_context.state["temp:scratch"]}


def recall(key: str, tool_context: ToolContext) -> dict[str, Any]:
    """Reads a value from the state."""
    return {"found": tool_context.state.get(key)}


async def save(name: str, text: str, tool_context: ToolContext) -> dict[str, Any]:
    """Saves an artifact; `text` may be a number of bytes."""
    blob = types.Blob(data=b"x" * int(text) if text.isdigit() else text.encode(), mime_type="text/plain")
    return {"version": await tool_context.save_artifact(name, types.Part(inline_data=blob))}


async def load(name: str, tool_context: ToolContext, version: str = "") -> dict[str, Any]:
    """Loads a version of an artifact, or the newest; of a long one returns length, first byte and type."""
    part = await tool_context.load_artifact(name, int(version) if version else None)
    names = await tool_context.list_artifacts()
    blob = part.inline_data if part else None
    data = (blob.data or b"") if blob else b""
    text = data.decode() if len(data) < 1000 or blob is None else f"{len(data)} {data[:1]!r} {blob.mime_type}"
    return {"text": text if blob else None, "names": names}


def ask(question: str) -> None:
    """Asks the user."""


def order(thing: str) -> dict[str, Any]:
    """Begins an order that needs an approval."""
    return {"status": "pending", "thing": thing}


def pay(amount: str) -> dict[str, Any]:
    """Pays, and returns values that JSON does not have."""
    return {"paid": amount, "at": date(2026, 1, 2)}


def flood(size: str) -> dict[str, Any]:
    """Returns a result above the limit of an event."""
    return {"text": "x" * int(size)}


def odd() -> dict[str, Any]:
    """Returns characters that no database stores."""
    return {"text": "a\0b\ud83dc"}


def obedient() -> tuple[LlmAgent, Obedient]:
    """An agent with all these tools, and its model."""
    model = Obedient()
    tools: list[Any] = [
        remember,
        recall,
        save,
        load,
        flood,
        odd,
        LongRunningFunctionTool(ask),
        LongRunningFunctionTool(order),
        FunctionTool(pay, require_confirmation=True),
    ]
    kept: list[BaseTool | Any] = tools
    return LlmAgent(name="obedient", model=model, description="Does what it is told.", tools=kept), model


agent, _ = obedient()
"""As an author of agents has it in a module."""
