"""The prompts for a model in addition to the author's prompt, and the tools of the plane."""

from collections.abc import Sequence
from typing import Any, Final

from pydantic_ai.output import StructuredDict, ToolOutput
from pydantic_ai.tools import Tool, ToolDefinition
from pydantic_ai.toolsets import ExternalToolset

from taskplane.agents.llm.artifact_stream import TOOL as ARTIFACT_TOOL

TASK_TOOL: Final = "createTask"
MOST_CHARACTERS: Final = 50

_ROUTING: Final = (
    "Decide how to answer the user's last message. If you can answer it fully at once, from what you know and from this"
    " conversation, answer it with a text. If it needs work - {tools}several steps, or a result that is worth keeping,"
    " such as a document, code or a table - call createTask instead, and write no text."
)
WORKING: Final = (
    "Work on the user's request until it is done. Write a result that is worth keeping, such as a document, code or a"
    " table, with the tool createArtifact, once and as a whole, and do not repeat it in your text; then say in a"
    " sentence or two what you made."
)
FORCED: Final = (
    "The work on the user's request is done. Write its result with the tool createArtifact, complete and ready for use."
)
_STATUS: Final = (
    "In at most {most} characters, say what is being done for the user at this moment, as a progress line without a"
    " full stop and without quotes. Answer with that line only.{recent}"
)
_ARTIFACT: Final = (
    "Make an artifact for the user: a result that is worth keeping. It is shown to the user while you write it."
)
_ARTIFACT_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "a short title"},
        "description": {"type": "string", "description": "one sentence that says what it is"},
        "content": {"type": "string", "description": "the whole artifact, as Markdown unless it is code or data"},
    },
    "required": ["name", "description", "content"],
    "additionalProperties": False,
}
TASK_CREATED: Final = "The task was created. Work on it now."
_ARTIFACT_MADE: Final = "The artifact was made, and the user has seen it. Do not repeat it."

_NOT_MADE: Final = (
    "The artifact was not made, since it has no `content`. Call the tool again with its whole text there."
)


def routing(tools: Sequence[str], servers: int = 0) -> str:
    """Return the instructions for the choice between an answer and a task. `tools`: the tools of a task. `servers`: the
    number of MCP servers. Their tools are not known yet."""
    named = [f"the tools {', '.join(tools)}"] if tools else []
    if servers:
        named.append("the tools of a server" if servers == 1 else f"the tools of {servers} servers")
    return _ROUTING.format(tools="".join(f"{each}, " for each in named))


def status(recent: Sequence[str]) -> str:
    """Return the request for a status text. `recent`: status texts that must not be repeated."""
    lines = "".join(f"\n- {text}" for text in recent)
    return _STATUS.format(most=MOST_CHARACTERS, recent=f"\nDo not repeat one of these:{lines}" if recent else "")


def task_toolset() -> ExternalToolset[object]:
    """Return the tool by which a model asks for a task."""
    reason = {"type": "string", "description": "why the request needs a task, in one sentence"}
    schema = {"type": "object", "properties": {"reason": reason}, "required": ["reason"], "additionalProperties": False}
    text = "Create a task for a request that needs work instead of an answer at once."
    return ExternalToolset([ToolDefinition(name=TASK_TOOL, description=text, parameters_json_schema=schema)])


def artifact_tool() -> Tool[object]:
    """Return the tool by which a model makes an artifact; its calls are streamed as they are written."""
    return Tool.from_schema(_artifact_made, name=ARTIFACT_TOOL, description=_ARTIFACT, json_schema=_ARTIFACT_SCHEMA)


def artifact_output() -> ToolOutput[dict[str, Any]]:
    """Return the tool for artifacts as the only allowed output of the model."""
    return ToolOutput(StructuredDict(_ARTIFACT_SCHEMA), name=ARTIFACT_TOOL, description=_ARTIFACT, max_retries=0)


async def _artifact_made(content: Any = None, **_: Any) -> str:
    # Accept every artifact that was streamed. After a refusal the model would write the artifact again.
    return _NOT_MADE if content in (None, "") else _ARTIFACT_MADE
