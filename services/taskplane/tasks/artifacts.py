"""Artifacts as files: from the log, page by page, or from the folded task where that is small or all there is."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable
from contextlib import contextmanager
from itertools import chain
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Conflict, Exhausted, NotFound, OutOfRange
from taskplane.tasks.domain.artifacts import Outline, Parts, Piece, Rest, pages
from taskplane.tasks.domain.kinds import ARTIFACT
from taskplane.tasks.domain.snapshots import LARGE
from taskplane.tasks.domain.task import Row, Scope, content_size
from taskplane.tasks.store import ArtifactVersion, ReadLog

PIECE: Final = 256 * 1024
"""Bytes of a response, and of a page of the log."""
_PAGE_EVENTS: Final = 512
# Bytes of trimmed tasks with artifacts held in memory while they are sent.
_MOST_HELD: Final = 256 * 1024 * 1024


class ArtifactReader:
    """Reads artifacts for clients that may be slow.

    A read costs a page in memory, or a small task. Only where the log of a large task was trimmed it costs the
    artifact; these reads are limited by their bytes.
    """

    def __init__(self, log: ReadLog, *, small: int = LARGE, most_held: int = _MOST_HELD) -> None:
        """Fold tasks of up to `small` bytes. Of larger tasks, hold up to `most_held` bytes at once."""
        self._log = log
        self._small = small
        self._most_held = most_held
        self._held = 0

    async def stream(
        self, scope: Scope, task_id: str, artifact_id: str, offset: int, version: int = 0
    ) -> AsyncGenerator[pb.ReadArtifactResponse, None]:
        """Yield the head, then the content from `offset` on; the contract (`TaskStore.ReadArtifact`) says more.

        NotFound; Conflict `TRIMMED_MEANWHILE`; Exhausted `TOO_MANY_READS`.
        """
        row, found = await self._log.artifact_version(scope, task_id, artifact_id, version)
        size = content_size(row)
        if row.trimmed_generation:
            if version:
                raise NotFound("old versions were deleted with old events of the task", reason="VERSION_NOT_FOUND")
            found = found if found is not None and found.first > row.trimmed_generation else None
        if found is not None and (size > self._small or found.last):
            outline = Outline()
            async for pieces in self._logged(row, artifact_id, found, outline):
                for piece in pieces:
                    outline.add(piece)
            yield _head(outline, found)
            rest = _rest(outline, offset)
            async for pieces in self._logged(row, artifact_id, found):
                for response in _responses(rest.of(pieces)):
                    yield response
            return
        with self._holding(size if size > self._small else 0):
            outline, whole = await self._folded(scope, task_id, artifact_id)
            yield _head(outline, found)
            for response in _responses(_rest(outline, offset).of(whole)):
                yield response

    async def _logged(
        self, row: Row, artifact_id: str, version: ArtifactVersion, outline: Outline | None = None
    ) -> AsyncIterator[Iterable[Piece]]:
        """Yield the pieces of the artifact, page by page. The outline, if given, gets their other contents."""
        parts = Parts()
        async for updates in self._updates(row, artifact_id, version):
            for update in updates:
                if outline is not None:
                    outline.describe(update.artifact, append=update.append)
            yield chain.from_iterable(parts.read(one.artifact.parts, append=one.append) for one in updates)

    async def _folded(self, scope: Scope, task_id: str, artifact_id: str) -> tuple[Outline, list[Piece]]:
        row, task = await self._log.get(scope, task_id)
        for artifact in task.artifacts:
            if artifact.artifact_id == artifact_id:
                return (
                    _whole(artifact) if content_size(row) <= self._small else await asyncio.to_thread(_whole, artifact)
                )
        raise NotFound(f"the task has no artifact {artifact_id[:100]}", reason="ARTIFACT_NOT_FOUND")

    async def _updates(
        self, row: Row, artifact_id: str, version: ArtifactVersion
    ) -> AsyncIterator[list[a2a.TaskArtifactUpdateEvent]]:
        """Yield the updates of the version, up to the generation of `row`, in pages."""
        place, last = version.first - 1, version.last or row.generation
        while place < last:
            place, updates = await self._page(row, artifact_id, place, last)
            yield updates

    async def _page(
        self, row: Row, artifact_id: str, place: int, last: int
    ) -> tuple[int, list[a2a.TaskArtifactUpdateEvent]]:
        """Return the place after the next page of the log, and the updates of the artifact in it up to `last`."""
        try:
            page = await self._log.read_after(row.uid, place, _PAGE_EVENTS, PIECE)
        except OutOfRange as error:
            raise Conflict(
                f"the log of task {row.id} was trimmed during the read",
                reason="TRIMMED_MEANWHILE",
                suggestion="read the rest, starting at its offset",
            ) from error
        updates: list[a2a.TaskArtifactUpdateEvent] = []
        for event in page.events:
            if event.kind == ARTIFACT and event.generation <= last:
                update = a2a.StreamResponse.FromString(event.payload).artifact_update
                if update.artifact.artifact_id == artifact_id:
                    updates.append(update)
        return page.events[-1].generation, updates

    @contextmanager
    def _holding(self, size: int) -> Generator[None]:
        if self._held and self._held + size > self._most_held:
            raise Exhausted(
                "too many reads of large artifacts of trimmed tasks",
                reason="TOO_MANY_READS",
                suggestion="try again in a moment",
                retry_after=5.0,
            )
        self._held += size
        try:
            yield
        finally:
            self._held -= size


def _whole(artifact: a2a.Artifact) -> tuple[Outline, list[Piece]]:
    outline = Outline()
    outline.describe(artifact, append=False)
    pieces = list(Parts().read(artifact.parts, append=False))
    for piece in pieces:
        outline.add(piece)
    return outline, pieces


def _responses(pieces: Iterable[Piece]) -> Iterable[pb.ReadArtifactResponse]:
    for page in pages(pieces, PIECE):
        yield pb.ReadArtifactResponse(
            pieces=pb.ArtifactPieces(pieces=[pb.ArtifactPiece(part=part, data=data) for part, data in page])
        )


def _rest(outline: Outline, offset: int) -> Rest:
    return Rest(offset if offset >= 0 else max(outline.size + offset, 0))


def _head(outline: Outline, version: ArtifactVersion | None) -> pb.ReadArtifactResponse:
    head = pb.ArtifactHead(
        artifact=outline.artifact,
        form=_form(outline),
        size=outline.size,
        filename=outline.filename,
        media_type=outline.media_type,
        digest=outline.digest(),
        version=version.number if version is not None else 1,
        versions=version.versions if version is not None else 1,
    )
    return pb.ReadArtifactResponse(head=head)


def _form(outline: Outline) -> pb.ArtifactForm.ValueType:
    if outline.kinds == {"text"}:
        return pb.ARTIFACT_FORM_TEXT
    if outline.kinds == {"raw"}:
        return pb.ARTIFACT_FORM_RAW
    if outline.kinds == {"data"} and outline.parts == 1:
        return pb.ARTIFACT_FORM_DATA
    return pb.ARTIFACT_FORM_PARTS
