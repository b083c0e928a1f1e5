"""An ADK agent that keeps notes, and asks its user."""

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.tools import LongRunningFunctionTool, ToolContext
from google.genai import types


def note(text: str, tool_context: ToolContext) -> dict[str, Any]:
    """Adds a line to the notes."""
    tool_context.state["notes"] = [*tool_context.state.get("notes", []), text]
    return {"notes": tool_context.state["notes"]}


async def publish(name: str, tool_context: ToolContext) -> dict[str, Any]:
    """Saves the notes as a file that the user can download."""
    text = "\n".join(tool_context.state.get("notes", []))
    return {"version": await tool_context.save_artifact(name, types.Part(text=text))}


def ask(question: str) -> None:
    """Asks the user a question; the answer comes later."""


agent = LlmAgent(
    name="notes",
    model="gemini-2.5-flash",
    description="Keeps notes.",
    instruction="You keep the user's notes. Ask what is not clear.",
    tools=[note, publish, LongRunningFunctionTool(ask)],
)
