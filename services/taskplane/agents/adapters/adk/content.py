"""Conversion between the messages of A2A and the contents of ADK."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from google.genai import types
from pydantic import BaseModel

from taskplane.agents.agent import Artifact, ArtifactChunk, Message
from taskplane.agents.tool_calls import mark_of
from taskplane.runtime.json_lines import encode_text
from taskplane.runtime.json_values import to_json
from taskplane.runtime.plain_json import plain
from taskplane.runtime.storable import storable

_RAW_PIECE: Final = 1024 * 1024
# A character takes at most four bytes.
_TEXT_PIECE: Final = _RAW_PIECE // 4


def content_of(message: Message, role: str) -> types.Content:
    """Return a message as ADK has it: texts and files as they are, data as JSON text.

    Texts about tools are left out.
    """
    parts: list[types.Part] = []
    for part in message.parts:
        if part.HasField("text"):
            parts.append(types.Part(text=part.text))
        elif part.HasField("raw"):
            media_type = part.media_type or "application/octet-stream"
            blob = types.Blob(data=part.raw, mime_type=media_type, display_name=part.filename or None)
            parts.append(types.Part(inline_data=blob))
        elif part.HasField("url"):
            file = types.FileData(file_uri=part.url, mime_type=part.media_type or None)
            parts.append(types.Part(file_data=file))
        elif part.HasField("data") and not (role == "model" and mark_of(part)):
            parts.append(types.Part(text=encode_text(to_json(part.data))))
    return types.Content(role=role, parts=parts)


def json_of(given: BaseModel, *, by_alias: bool = False) -> dict[str, Any]:
    """Return a model of ADK as its stored JSON. Arguments and results may hold any objects of the tools."""
    try:
        found = given.model_dump(mode="json", by_alias=by_alias, exclude_none=True, fallback=plain)
    except (ValueError, RecursionError):
        # A value is in itself, or deeper than pydantic looks.
        found = _simple(given).model_dump(mode="json", by_alias=by_alias, exclude_none=True, fallback=plain)
    data: dict[str, Any] = plain(found)
    return data


def _simple(given: Any) -> Any:
    if isinstance(given, BaseModel):
        return given.model_copy(update={name: _simple(value) for name, value in given})
    if isinstance(given, list):
        return [_simple(each) for each in given]  # pyright: ignore[reportUnknownVariableType]
    return plain(given) if isinstance(given, dict) else given  # pyright: ignore[reportUnknownArgumentType]


def visible(content: types.Content | None) -> Sequence[types.Part]:
    """Return the parts of a content without the thoughts of the model."""
    parts = (content.parts if content else None) or []
    return [part for part in parts if not part.thought or part.function_call or part.function_response]


def text_in(content: types.Content | None) -> str:
    """Return the text of a content, in one piece."""
    return "".join(part.text for part in visible(content) if part.text)


def message_of(content: types.Content | None) -> Message | None:
    """Return the text and the files of a content as a message; None if it has neither."""
    message = Message()
    if text := text_in(content):
        message.parts.add(text=storable(text))
    for part in visible(content):
        if part.inline_data and part.inline_data.data:
            blob = part.inline_data
            message.parts.add(
                raw=blob.data, media_type=blob.mime_type or "", filename=storable(blob.display_name or "")
            )
        elif part.file_data and part.file_data.file_uri:
            message.parts.add(url=part.file_data.file_uri, media_type=part.file_data.mime_type or "")
    return message if message.parts else None


def artifact_chunks(name: str, version: int, part: types.Part) -> Iterator[ArtifactChunk]:
    """Yield a version of an ADK artifact as chunks of an artifact of the task."""
    begun = False
    for content, last in _pieces(part):
        yield ArtifactChunk(
            name,
            **content,
            name=name,
            filename=None if "text" in content else name,
            media_type=_media_type(part),
            metadata={"adk_version": version},
            append=begun,
            last=last,
        )
        begun = True


def part_of(artifact: Artifact, media_type: str | None) -> types.Part:
    """Return the version of an ADK artifact with the pieces in `artifact`."""
    first = artifact.parts[0]
    if first.HasField("text"):
        return types.Part(text="".join(part.text for part in artifact.parts))
    if first.HasField("url"):
        return types.Part(file_data=types.FileData(file_uri=first.url, mime_type=first.media_type or None))
    data = b"".join(part.raw for part in artifact.parts)
    return types.Part(inline_data=types.Blob(data=data, mime_type=media_type, display_name=artifact.name))


def _pieces(part: types.Part) -> Iterator[tuple[dict[str, Any], bool]]:
    if part.file_data and part.file_data.file_uri:
        yield {"url": part.file_data.file_uri}, True
        return
    whole: str | bytes = (part.inline_data.data or b"") if part.inline_data else part.text or ""
    key, size = ("text", _TEXT_PIECE) if isinstance(whole, str) else ("raw", _RAW_PIECE)
    for start in range(0, max(len(whole), 1), size):
        yield {key: whole[start : start + size]}, start + size >= len(whole)


def _media_type(part: types.Part) -> str | None:
    if part.inline_data:
        return part.inline_data.mime_type
    return part.file_data.mime_type if part.file_data else None
