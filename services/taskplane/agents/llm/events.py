"""Conversion of pydantic-ai's reports of a run to the changes of the port."""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from pydantic_ai.messages import (
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    ToolReturnPart,
)
from pydantic_ai.usage import RequestUsage, RunUsage

from taskplane.agents.agent import ArtifactChunk, Change, Say, Text, ToolCall, ToolResult
from taskplane.agents.llm.artifact_stream import ArtifactStream
from taskplane.runtime.plain_json import plain

# Characters of a tool's result that clients are shown.
_LONGEST_RESULT: Final = 100_000


class Events:
    """The changes of one run: texts as they grow, calls of tools and their results, and artifacts.

    `artifacts` assigns ids to the calls of the tool `artifact_tool`. Calls of the tools in `hidden` are not reported.
    """

    def __init__(
        self,
        *,
        artifact_tool: str = "",
        artifact_id: Callable[[], str] = str,
        hidden: tuple[str, ...] = (),
    ) -> None:
        self.begun = False
        self.made_artifact = False
        self._artifact_tool = artifact_tool
        self._artifact_id = artifact_id
        self._untold = frozenset((artifact_tool, *hidden))
        self._artifacts: dict[int, ArtifactStream] = {}
        self._text: list[str] = []

    def of(self, event: object) -> Iterator[Change]:
        """Yield the changes of one event. AgentError: an artifact is cut off, or its arguments are not an object."""
        match event:
            case PartStartEvent(index=index, part=ToolCallPart(tool_name=name, args=arguments)) if (
                name == self._artifact_tool
            ):
                self.begun = True
                self._artifacts[index] = ArtifactStream(self._artifact_id())
                yield from self._made(self._artifacts[index].take(arguments))
            case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=arguments)) if index in self._artifacts:
                yield from self._made(self._artifacts[index].take(arguments))
            case PartEndEvent(index=index, part=ToolCallPart()) if index in self._artifacts:
                # The library reports the end of a part at the beginning of another part. More of the part may come in
                # between.
                if self._artifacts[index].complete:
                    yield from self._artifacts.pop(index).end()
            case PartStartEvent(part=TextPart(content=piece)):
                self.begun = True
                yield from self._close_text()
                yield from self._grow(piece)
            case PartDeltaEvent(delta=TextPartDelta(content_delta=piece)):
                yield from self._grow(piece)
            case PartStartEvent():
                self.begun = True
            case FunctionToolCallEvent(part=part) if part.tool_name not in self._untold:
                self._text.clear()
                yield ToolCall(part.tool_call_id, part.tool_name, part.args_as_dict())
            case FunctionToolResultEvent(part=part) if part.tool_name not in self._untold:
                yield ToolResult(part.tool_call_id, part.tool_name or "", _shown(part))
            case _:
                pass

    def end_answer(self) -> Iterator[Change]:
        """Yield the ends of the artifacts that are open at the end of an answer. AgentError: an artifact is cut off."""
        while self._artifacts:
            _, stream = self._artifacts.popitem()
            yield from stream.end()

    def _made(self, chunks: Iterator[ArtifactChunk]) -> Iterator[Change]:
        for chunk in chunks:
            self.made_artifact = True
            yield chunk

    def _grow(self, piece: str) -> Iterator[Change]:
        if piece:
            self._text.append(piece)
            yield Text(piece)

    def _close_text(self) -> Iterator[Change]:
        """End the text of an earlier answer, so that the next one is a message of its own."""
        if self._text:
            yield Say("".join(self._text))
            self._text.clear()


def figures(counted: RequestUsage | RunUsage) -> dict[str, float]:
    """Return the figures that one model call reports."""
    found = {
        "requests": 1,
        "input_tokens": counted.input_tokens,
        "cache_read_tokens": counted.cache_read_tokens,
        "output_tokens": counted.output_tokens,
    }
    return {name: figure for name, figure in found.items() if figure}


def _shown(part: object) -> Any:
    """Return the result of a tool as JSON that can be stored; a result that is too long becomes a text."""
    if not isinstance(part, ToolReturnPart):
        return {"error": str(getattr(part, "content", part))}
    content = plain(part.content)
    if part.outcome in ("failed", "retried"):
        content = {"error": content}
    encoded = json.dumps(content, ensure_ascii=False)
    if len(encoded) > _LONGEST_RESULT:
        return f"{encoded[:_LONGEST_RESULT]} [{len(encoded) - _LONGEST_RESULT} more characters]"
    return content
