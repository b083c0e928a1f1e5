"""Conversion of the artifacts of an A2A agent to changes."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

from taskplane.agents.agent import ArtifactChunk
from taskplane.agents.changes import MAX_CHUNK_BYTES
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.json_values import to_dict
from taskplane.runtime.message_content import is_plain_part

# The maximum number of characters of a piece of text: a character has at most 4 bytes in UTF-8.
_MAX_TEXT: Final = MAX_CHUNK_BYTES // 4


def chunks(artifact: a2a.Artifact, *, append: bool, last: bool) -> Iterator[ArtifactChunk]:
    """Yield the chunks of `artifact`; with `append` it is the next piece of an artifact.

    A chunk is larger than the limit only if it is a single part that is not plain text. Without parts: with `append`
    and `last` one empty text ends the artifact; otherwise ArtifactChunk raises NoContent.
    """
    groups = list(_groups(artifact.parts)) or [[a2a.Part(text="")] if append and last else []]
    for index, parts in enumerate(groups):
        content: dict[str, Any] = {"parts": parts}
        if len(parts) == 1 and is_plain_part(parts[0]):
            content = {"text": parts[0].text}
        if index == 0:
            content["name"] = artifact.name or None
            content["description"] = artifact.description or None
            content["metadata"] = to_dict(artifact.metadata) or None
            content["extensions"] = tuple(artifact.extensions)
        ends = last and index == len(groups) - 1
        yield ArtifactChunk(artifact.artifact_id, append=append or index > 0, last=ends, **content)


class ShownArtifacts:
    """Remembers which parts of each artifact were yielded already, so that a later snapshot adds only the new parts."""

    def __init__(self, before: Iterable[a2a.Artifact] = ()) -> None:
        """`before`: the artifacts of the task that were yielded already."""
        self._shown: dict[str, _Shown] = {}
        for artifact in before:
            self._note(artifact, append=False)

    def update(self, update: a2a.TaskArtifactUpdateEvent) -> Iterator[ArtifactChunk]:
        """Yield the chunks of an update."""
        append = update.append and update.artifact.artifact_id in self._shown
        self._note(update.artifact, append=append)
        return chunks(update.artifact, append=append, last=update.last_chunk)

    def snapshot(self, artifact: a2a.Artifact, *, last: bool) -> Iterator[ArtifactChunk]:
        """Yield the new parts at the end of a whole artifact; the whole artifact if it does not begin with the parts
        shown before."""
        shown = self._shown.get(artifact.artifact_id)
        rest = None if shown is None else shown.rest(artifact.parts)
        if rest is None:
            self._note(artifact, append=False)
            return chunks(artifact, append=False, last=last)
        if not rest:
            return iter(())
        piece = a2a.Artifact(artifact_id=artifact.artifact_id, parts=rest)
        self._note(piece, append=True)
        return chunks(piece, append=True, last=last)

    def _note(self, artifact: a2a.Artifact, *, append: bool) -> None:
        if not append:
            self._shown[artifact.artifact_id] = _Shown()
        self._shown[artifact.artifact_id].add(artifact.parts)


class _Shown:
    """A hash and the length of the shown parts of one artifact. Adjacent plain texts count as one part."""

    def __init__(self) -> None:
        self._hash = sha256()
        # The number of parts before the plain text at the end.
        self._parts = 0
        # The number of characters of the plain text at the end; None if the last part is not plain text.
        self._text: int | None = None

    def add(self, parts: Sequence[a2a.Part]) -> None:
        for part in parts:
            if not is_plain_part(part):
                self._parts += 1 if self._text is None else 2
                self._text = None
                encoded = part.SerializeToString(deterministic=True)
                self._hash.update(b"part %d:" % len(encoded) + encoded)
            elif part.text:
                if self._text is None:
                    self._text = 0
                    self._hash.update(b"text:")
                self._text += len(part.text)
                self._hash.update(part.text.encode())

    def rest(self, parts: Sequence[a2a.Part]) -> list[a2a.Part] | None:
        """Return the parts after the shown parts; None if `parts` do not begin with the shown parts."""
        joined = _joined(parts)
        begin = joined[: self._parts]
        rest = joined[self._parts :]
        if self._text is not None:
            if not rest or not is_plain_part(rest[0]):
                return None
            begin.append(a2a.Part(text=rest[0].text[: self._text]))
            left = rest[0].text[self._text :]
            rest = [*([a2a.Part(text=left)] if left else []), *rest[1:]]
        found = _Shown()
        found.add(begin)
        return rest if found._hash.digest() == self._hash.digest() else None


def _joined(parts: Sequence[a2a.Part]) -> list[a2a.Part]:
    """Return the parts with adjacent plain texts joined."""
    joined: list[a2a.Part] = []
    texts: list[str] = []
    for part in parts:
        if is_plain_part(part):
            texts.append(part.text)
            continue
        if any(texts):
            joined.append(a2a.Part(text="".join(texts)))
        texts.clear()
        joined.append(part)
    if any(texts):
        joined.append(a2a.Part(text="".join(texts)))
    return joined


def _groups(parts: Sequence[a2a.Part]) -> Iterator[list[a2a.Part]]:
    group: list[a2a.Part] = []
    size = 0
    for part in parts:
        for piece in _cut(part):
            if group and size + piece.ByteSize() > MAX_CHUNK_BYTES:
                yield group
                group, size = [], 0
            group.append(piece)
            size += piece.ByteSize()
    if group:
        yield group


def _cut(part: a2a.Part) -> Iterator[a2a.Part]:
    """Yield a part, or a long plain text in pieces, which the store joins again."""
    if not is_plain_part(part) or len(part.text) <= _MAX_TEXT:
        yield part
        return
    for start in range(0, len(part.text), _MAX_TEXT):
        yield a2a.Part(text=part.text[start : start + _MAX_TEXT])
