"""An artifact that grows while the model writes the arguments of the artifact tool."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from taskplane.agents.agent import AgentError, ArtifactChunk, Turn
from taskplane.agents.llm.argument_text import ArgumentText

TOOL: Final = "createArtifact"


class ArtifactStream:
    """The artifact of one call, natural or forced. Its name and description come when the model has written them."""

    def __init__(self, artifact_id: str) -> None:
        self._id = artifact_id
        self._arguments = ArgumentText()
        self._begun = False
        self._texts = {"name": "", "description": ""}
        self._told: dict[str, str] = {}

    @property
    def complete(self) -> bool:
        """Return whether the arguments are whole."""
        return self._arguments.complete

    def take(self, arguments: str | Mapping[str, Any] | None) -> Iterator[ArtifactChunk]:
        """Yield a chunk with the content from the next piece of the arguments."""
        if not arguments:
            return
        piece = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        content: list[str] = []
        for key, text in self._arguments.feed(piece):
            if key == "content":
                content.append(text)
            elif key in self._texts:
                self._texts[key] += text
        if content:
            yield self._chunk("".join(content))

    def end(self) -> Iterator[ArtifactChunk]:
        """Yield the last chunk, or nothing if there was no content and so no artifact.

        AgentError: the arguments are cut off, or not an object.
        """
        if not self._arguments.complete:
            raise AgentError("The language model stopped in the middle of an artifact.")
        if not self._arguments.is_object:
            raise AgentError("The language model called the artifact tool with something else than its arguments.")
        if self._begun:
            yield self._chunk("", last=True)

    def _chunk(self, text: str, *, last: bool = False) -> ArtifactChunk:
        append, self._begun = self._begun, True
        # A name before the content is complete now; a name after it is complete when the call has ended.
        news = {
            key: text for key, text in self._texts.items() if text and (last or not append) and key not in self._told
        }
        self._told.update(news)
        return ArtifactChunk(
            self._id,
            text=text,
            name=news.get("name"),
            description=news.get("description"),
            append=append,
            last=last,
        )


def artifact_ids(turn: Turn) -> Callable[[], str]:
    """Return a source of ids: unique in the task, and equal when the turn is run again."""
    count = itertools.count(1)
    return lambda: f"{turn.invocation_id}-artifact-{next(count)}"
