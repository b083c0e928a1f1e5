"""Artifacts read as files, piece by piece: the same content as the fold has, without a task in memory. No I/O."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.message_content import is_plain_part

_MEDIA_TYPE: Final = re.compile(r"[\w.+-]+/[\w.+-]+(?:; ?[\w.+-]+=[\w.+-]+)*", re.ASCII)


class Piece(NamedTuple):
    """A piece of the content of a part. `part`: the part without its content, if it begins here."""

    part: a2a.Part | None
    data: bytes


class Parts:
    """The parts of one artifact while its updates are read in order."""

    def __init__(self) -> None:
        self._plain = False

    def read(self, parts: Iterable[a2a.Part], *, append: bool) -> Iterator[Piece]:
        """Yield one piece for each part of an update. A plain text that is appended to a plain text continues its
        part."""
        for part in parts:
            plain = is_plain_part(part)
            goes_on = append and plain and self._plain
            yield Piece(None if goes_on else _without_content(part), _content(part))
            self._plain = plain


class Rest:
    """The rest of pieces after their first `offset` bytes; its first piece names its part."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        # The part within which the rest begins.
        self._part: a2a.Part | None = None

    def of(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """Yield the rest of the next pieces."""
        for part, data in pieces:
            if self._offset or (part is None and self._part is not None):
                part = part or self._part
                skipped = min(self._offset, len(data))
                self._offset -= skipped
                data = data[skipped:]
                if not data:
                    self._part = part
                    continue
            self._part = None
            yield Piece(part, data)


class Outline:
    """The head of an artifact, known once all of its pieces were read."""

    def __init__(self) -> None:
        self.artifact = a2a.Artifact()
        """The artifact without its parts."""
        self.size = 0
        """Bytes of its content."""
        self.kinds: set[str] = set()
        """Kinds of its parts, by the names of their fields; empty for a part without content."""
        self.parts = 0
        self.filename = ""
        self.media_type = ""
        self._hash = hashlib.sha256()

    def describe(self, artifact: a2a.Artifact, *, append: bool) -> None:
        """Take the fields of an update other than its parts."""
        if append:
            merge_fields(self.artifact, artifact)
            return
        self.artifact = a2a.Artifact(
            artifact_id=artifact.artifact_id,
            name=artifact.name,
            description=artifact.description,
            extensions=artifact.extensions,
        )
        if artifact.HasField("metadata"):
            self.artifact.metadata.CopyFrom(artifact.metadata)

    def add(self, piece: Piece) -> None:
        """Take the next piece."""
        part, data = piece
        if part is not None:
            self.parts += 1
            self.kinds.add(part.WhichOneof("content") or "")
            self.filename = self.filename or part.filename
            if not self.media_type and _MEDIA_TYPE.fullmatch(part.media_type):
                self.media_type = part.media_type
            # The places at which parts begin belong to the artifact.
            self._hash.update(b"%d:" % self.size)
            self._hash.update(part.SerializeToString(deterministic=True))
        self.size += len(data)
        self._hash.update(data)

    def digest(self) -> bytes:
        """Return a digest of all that the artifact is."""
        whole = self._hash.copy()
        whole.update(self.artifact.SerializeToString(deterministic=True))
        return whole.digest()


def merge_fields(artifact: a2a.Artifact, update: a2a.Artifact) -> None:
    """Change the fields of an artifact other than its parts, by an update that appends to it."""
    if update.name:
        artifact.name = update.name
    if update.description:
        artifact.description = update.description
    if update.HasField("metadata"):
        artifact.metadata.MergeFrom(update.metadata)
    for uri in update.extensions:
        if uri not in artifact.extensions:
            artifact.extensions.append(uri)


def pages(pieces: Iterable[Piece], most: int) -> Iterator[list[Piece]]:
    """Yield the pieces in pages of at most `most` bytes, or of one piece. Large pieces are cut, and pieces of the same
    part are joined."""
    page: list[Piece] = []
    joined: list[bytes] = []
    size = 0

    def closed() -> None:
        if joined:
            page[-1] = Piece(page[-1].part, b"".join((page[-1].data, *joined)))
            joined.clear()

    for part, data in _cut(pieces, most):
        weight = len(data) + (part.ByteSize() if part is not None else 0)
        if page and size + weight > most:
            closed()
            yield page
            page, size = [], 0
        size += weight
        if part is None and page:
            joined.append(data)
        else:
            closed()
            page.append(Piece(part, data))
    if page:
        closed()
        yield page


def _cut(pieces: Iterable[Piece], most: int) -> Iterator[Piece]:
    for piece in pieces:
        if len(piece.data) <= most:
            yield piece
            continue
        for first in range(0, len(piece.data), most):
            yield Piece(None if first else piece.part, piece.data[first : first + most])


def _content(part: a2a.Part) -> bytes:
    kind = part.WhichOneof("content")
    if kind == "text":
        return part.text.encode()
    if kind == "raw":
        return part.raw
    if kind == "url":
        return part.url.encode()
    return part.data.SerializeToString(deterministic=True) if kind == "data" else b""


def _without_content(part: a2a.Part) -> a2a.Part:
    """Return the part with empty content of its kind."""
    empty = a2a.Part(filename=part.filename, media_type=part.media_type)
    if part.HasField("metadata"):
        empty.metadata.CopyFrom(part.metadata)
    kind = part.WhichOneof("content")
    if kind == "data":
        empty.data.SetInParent()
    elif kind == "raw":
        empty.raw = b""
    elif kind is not None:
        setattr(empty, kind, "")
    return empty
