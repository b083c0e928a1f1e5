"""A conversation and the artifacts it refers to, as messages of a language model."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pydantic_ai.messages import (
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from taskplane.agents.agent import Message, Part, Task, Turn
from taskplane.agents.tool_calls import kind_of
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.json_values import to_dict, to_json

# Characters of the artifacts of earlier tasks that a model is shown, each and together.
_LONGEST_ARTIFACT: Final = 100_000
_LONGEST_ARTIFACTS: Final = 300_000
_SEEN_BY_MODELS: Final = ("image/", "audio/", "video/", "application/pdf")


def conversation(history: Iterable[Message], *, tools: bool) -> list[ModelMessage]:
    """Return the earlier messages, oldest first; with the calls of tools and their results, or without."""
    said = list(history)
    results = _results(said)
    messages: list[ModelMessage] = []
    # The results of the calls in the newest message. `answered`: the conversation has one of these results.
    returns: list[ToolReturnPart] = []
    answered = False

    def settle() -> None:
        if returns:
            messages.append(ModelRequest(parts=list(returns)))
            returns.clear()

    for place, message in enumerate(said):
        kind, id_, data = _tool(message)
        if kind == "function_response":
            answered = True
            continue
        if kind == "function_call":
            # A call without a result, as after a cancel, is left out.
            if tools and place in results:
                if answered:
                    settle()
                answered = False
                name = str(data.get("name", ""))
                call = ToolCallPart(tool_name=name, args=data.get("args") or {}, tool_call_id=id_)
                last = messages[-1] if messages else None
                if isinstance(last, ModelResponse):
                    last.parts = [*last.parts, call]
                else:
                    messages.append(ModelResponse(parts=[call]))
                returns.append(ToolReturnPart(tool_name=name, content=results[place].get("response"), tool_call_id=id_))
            continue
        settle()
        if message.role == a2a.ROLE_USER:
            messages.append(ModelRequest(parts=[UserPromptPart(prompt(message))]))
        elif said_text := "\n".join(filter(None, map(_words, message.parts))):
            messages.append(ModelResponse(parts=[TextPart(said_text)]))
    settle()
    return messages


async def messages_of(turn: Turn, *, tools: bool) -> list[ModelMessage]:
    """Return the conversation of a turn with the user's message, after the artifacts that the message refers to.

    During a run, `turn.history` may contain this message and later messages.
    """
    artifacts = artifact_texts(await turn.referenced()) if turn.message.reference_task_ids else ""
    asked = ModelRequest(parts=[UserPromptPart(prompt(turn.message, before=artifacts))])
    ids = [message.message_id for message in turn.history]
    at = ids.index(turn.message.message_id) if turn.message.message_id in ids else len(ids)
    before, since = turn.history[:at], turn.history[at + 1 :]
    return [*conversation(before, tools=tools), asked, *conversation(since, tools=tools)]


def prompt(message: Message, before: str = "") -> str | Sequence[UserContent]:
    """Return the parts of a message; if all parts are texts, one text."""
    content: list[UserContent] = [*([before] if before else ()), *map(_content, message.parts)]
    texts = [each for each in content if isinstance(each, str)]
    return "\n".join(texts) if len(texts) == len(content) else content


def artifact_texts(tasks: Iterable[Task]) -> str:
    """Return the artifacts of tasks as one text, each with its name; a long artifact is cut, with a note."""
    found: list[str] = []
    room = _LONGEST_ARTIFACTS
    for task in tasks:
        for artifact in task.artifacts:
            whole = "\n".join(filter(None, map(_words, artifact.parts)))
            shown = whole[: min(room, _LONGEST_ARTIFACT)]
            room -= len(shown)
            cut = f"\n[{len(whole) - len(shown)} more characters]" if len(shown) < len(whole) else ""
            found.append(f'<artifact name="{artifact.name or artifact.artifact_id}">\n{shown}{cut}\n</artifact>')
    if not found:
        return ""
    return "Made earlier, and referred to by the message that follows:\n" + "\n".join(found) + "\n"


def _results(said: Sequence[Message]) -> dict[int, dict[str, Any]]:
    """Return the results of tool calls by the places of the calls. Ids may come again in another turn."""
    found: dict[int, dict[str, Any]] = {}
    waiting: dict[str, int] = {}
    for place, message in enumerate(said):
        kind, id_, data = _tool(message)
        if kind == "function_call":
            waiting[id_] = place
        elif kind == "function_response" and id_ in waiting:
            found[waiting.pop(id_)] = data
    return found


def _tool(message: Message) -> tuple[str, str, dict[str, Any]]:
    """Return the kind, the id and the data of a tool call or its result; empty values for any other part."""
    kind = kind_of(message, message.parts[0]) if len(message.parts) == 1 else ""
    if kind not in ("function_call", "function_response"):
        return "", "", {}
    data: dict[str, Any] = to_dict(message.parts[0].data.struct_value)
    return kind, str(data.get("id", "")), data


def _words(part: Part) -> str:
    """Return a part as text."""
    kind = part.WhichOneof("content")
    if kind == "text":
        return part.text
    if kind == "data":
        return json.dumps(to_json(part.data))
    name = f"{part.filename or 'file'}{f' ({part.media_type})' if part.media_type else ''}"
    if kind == "url":
        return f"[{name}: {part.url}]"
    if kind == "raw":
        if part.media_type.startswith("text/") or part.media_type == "application/json":
            return part.raw.decode(errors="replace")
        return f"[{name}, {len(part.raw)} bytes]"
    return ""


def _content(part: Part) -> UserContent:
    """Return a part as a model takes it, files and images included."""
    kind = part.WhichOneof("content")
    if kind == "raw" and part.media_type.startswith(_SEEN_BY_MODELS):
        return BinaryContent(part.raw, media_type=part.media_type)
    if kind == "url" and part.media_type.startswith("image/"):
        return ImageUrl(part.url)
    if kind == "url" and part.media_type == "application/pdf":
        return DocumentUrl(part.url)
    return _words(part)
