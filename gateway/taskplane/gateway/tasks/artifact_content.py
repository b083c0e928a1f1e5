"""The content of an artifact, written from the pieces in which the store sends it."""

import codecs
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.translate.v0_3 import V0_3
from taskplane.gateway.web.translation_thread import TranslationThread
from taskplane.runtime import json_lines
from taskplane.runtime.json_values import to_json

Responses = AsyncIterator[pb.ReadArtifactResponse]

_TEXT: Final = json_lines.encode(V0_3.part(a2a.Part(text="")))
# The JSON of a plain text before and after its characters.
_BEFORE, _AFTER = _TEXT[:-2], _TEXT[-2:]


async def contiguous(responses: Responses, length: int) -> AsyncGenerator[bytes, None]:
    """Yield the first `length` bytes of the content, joined."""
    while length:
        response = await anext(responses)
        data = b"".join([piece.data for piece in response.pieces.pieces])[:length]
        length -= len(data)
        yield data


async def single_value(responses: Responses, worker: TranslationThread) -> bytes:
    """Return the JSON of an artifact that is one data part."""
    part = a2a.Part()
    data = b"".join([piece.data async for response in responses for piece in response.pieces.pieces])
    part.data.ParseFromString(data)
    return await worker.run(len(data), lambda: json_lines.encode(to_json(part.data)))


async def as_json(
    artifact: a2a.Artifact, responses: Responses, worker: TranslationThread
) -> AsyncGenerator[bytes, None]:
    """Yield the JSON of an artifact (A2A 0.3), of which `artifact` has all but the parts. Of a long text a piece is in
    memory, of another part the part."""
    fields = {name: value for name, value in V0_3.artifact(artifact).items() if name != "parts"}
    yield json_lines.encode(fields)[:-1] + b',"parts":['
    part: _Text | _Whole | None = None
    async for response in responses:
        written: list[bytes] = []
        for piece in response.pieces.pieces:
            if piece.HasField("part"):
                if part is not None:
                    written += [await part.end(worker), b","]
                part = _Text() if piece.part == _PLAIN else _Whole(piece.part)
            if part is not None:
                written.append(part.take(piece.data))
        if joined := b"".join(written):
            yield joined
    yield (await part.end(worker) if part is not None else b"") + b"]}"


_PLAIN: Final = a2a.Part(text="")


class _Text:
    """A part that is a plain text, written while it comes. Only such a one grows beyond a single request."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._head = _BEFORE

    def take(self, data: bytes) -> bytes:
        head, self._head = self._head, b""
        return head + json_lines.encode(self._decoder.decode(data))[1:-1]

    async def end(self, worker: TranslationThread) -> bytes:
        return _AFTER


class _Whole:
    """Another part, written when all of it is here."""

    def __init__(self, part: a2a.Part) -> None:
        self._part = part
        self._data: list[bytes] = []

    def take(self, data: bytes) -> bytes:
        self._data.append(data)
        return b""

    async def end(self, worker: TranslationThread) -> bytes:
        data = b"".join(self._data)
        part = self._part
        kind = part.WhichOneof("content")
        if kind == "data":
            part.data.ParseFromString(data)
        elif kind == "raw":
            part.raw = data
        elif kind == "url":
            part.url = data.decode()
        elif kind == "text":
            part.text = data.decode()
        return await worker.run(len(data), lambda: json_lines.encode(V0_3.part(part)))
