"""Artifacts as files, from the log and from the folded task: the same bytes, whatever became of the task. P7, P10."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import pytest
from tests.conformance.task_log import ADA, BOB, Plane, chunk, message, only, status

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Conflict, Exhausted, NotFound
from taskplane.tasks.artifacts import PIECE, ArtifactReader
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.task import WORKING, Row

LATER = 1 << 60
FOLDED = 1 << 60
LOGGED = 0


def part(**fields: Any) -> a2a.Part:
    return a2a.Part(**fields)


def piece(artifact_id: str, *parts: a2a.Part, append: bool = False, **fields: Any) -> pb.Change:
    change = pb.Change()
    change.artifact.artifact.CopyFrom(a2a.Artifact(artifact_id=artifact_id, parts=parts, **fields))
    change.artifact.append = append
    return change


def data(value: float) -> a2a.Part:
    made = a2a.Part(media_type="application/x-figure")
    made.data.struct_value.fields["value"].number_value = value
    return made


async def read(plane: Plane, row: Row, artifact_id: str, small: int, version: int = 0) -> tuple[Any, list[a2a.Part]]:
    """The head, and the parts put together again."""
    head, pieces = await read_from(plane, row, artifact_id, small, 0, version)
    return head, [with_content(part, content) for part, content in pieces]


async def read_from(
    plane: Plane, row: Row, artifact_id: str, small: int, offset: int, version: int = 0
) -> tuple[Any, list[tuple[a2a.Part, bytes]]]:
    """The head, and each part with what is sent of its content."""
    head: Any = None
    parts: list[tuple[a2a.Part, bytes]] = []
    async for response in ArtifactReader(plane.log, small=small).stream(ADA, row.id, artifact_id, offset, version):
        if response.HasField("head"):
            head = response.head
        for one in response.pieces.pieces:
            assert len(one.data) <= PIECE
            if one.HasField("part"):
                parts.append((one.part, b""))
            parts[-1] = (parts[-1][0], parts[-1][1] + one.data)
    return head, parts


def with_content(part: a2a.Part, content: bytes) -> a2a.Part:
    kind = part.WhichOneof("content")
    if kind == "data":
        part.data.ParseFromString(content)
    elif kind == "raw":
        part.raw = content
    elif kind == "text":
        part.text = content.decode()
    elif kind == "url":
        part.url = content.decode()
    return part


def content(pieces: Sequence[tuple[a2a.Part, bytes]]) -> bytes:
    return b"".join(data for _, data in pieces)


async def check(plane: Plane, row: Row) -> None:
    """Check that every artifact of the task is read as the folded task has it, in both ways."""
    _, task = await plane.log.get(ADA, row.id)
    for artifact in task.artifacts:
        digests: set[bytes] = set()
        for small in (FOLDED, LOGGED):
            head, parts = await read(plane, row, artifact.artifact_id, small)
            whole = a2a.Artifact()
            whole.CopyFrom(head.artifact)
            whole.parts.extend(parts)
            assert whole == artifact
            digests.add(head.digest)
            _, pieces = await read_from(plane, row, artifact.artifact_id, small, 0)
            assert len(content(pieces)) == head.size
            for offset in (1, head.size // 2, -1):
                _, rest = await read_from(plane, row, artifact.artifact_id, small, offset)
                assert content(rest) == content(pieces)[offset:]
                assert [part for part, _ in rest] == [part for part, _ in pieces][-len(rest) :]
        assert len(digests) == 1


async def worked(plane: Plane) -> Row:
    """A task with two artifacts of bytes and of texts, which came in pieces, one of them twice."""
    row = await plane.create(on_orphan=int(pb.ON_ORPHAN_RERUN))
    await plane.append(row, status(WORKING, message("so far", "m2")), piece("raw", part(raw=b"ab" * 200_000)))
    await plane.append(
        row, piece("text", part(text="first version"), name="old"), piece("raw", part(raw=b"c"), append=True)
    )
    await plane.append(row, piece("text", part(text="a"), part(text="é")), status(WORKING, message("x", "m3")))
    for number in range(5):
        about = {"name": f"n{number}", "extensions": ["urn:x", f"urn:{number}"], "metadata": {f"k{number % 2}": number}}
        text = piece("text", part(text=f"{number}\U0001f600"), append=True, **about)
        await plane.append(row, text, piece("raw", part(raw=b"\0"), append=True))
    return row


async def test_an_artifact_is_read_as_the_folded_task_has_it(plane: Plane) -> None:
    """P7: while it grows, after its task ended, and after its log was trimmed."""
    row = await worked(plane)
    await check(plane, row)
    for artifact_id, form, size in (("raw", pb.ARTIFACT_FORM_RAW, 400_006), ("text", pb.ARTIFACT_FORM_TEXT, 28)):
        head, _ = await read(plane, row, artifact_id, LOGGED)
        assert (head.form, head.size) == (form, size)
    assert head.artifact.extensions == ["urn:x", *(f"urn:{number}" for number in range(5))]
    assert dict(head.artifact.metadata) == {"k0": 4, "k1": 3}
    ended = await plane.complete(row)
    await check(plane, row)
    await plane.log.submit(commands.MarkCopied(task_uid=row.uid, generation=ended.last_generation))
    op = commands.Trim(task_uid=row.uid, ended_before=LATER, at_most=500)
    assert only(commands.Trimmed, await plane.log.submit(op)).events
    await check(plane, row)


async def test_parts_of_every_kind_are_read_as_they_are(plane: Plane) -> None:
    """P7: texts, bytes, data and links in one artifact, with what is said about each."""
    row = await plane.create()
    more = [part(url="https://example.org/a", filename="a.txt"), data(2), part(raw=b"\xff", filename="b")]
    await plane.append(row, piece("a", data(1), part(text="x"), part(text="y", media_type="text/csv")))
    await plane.append(row, piece("a", *more, append=True), piece("d", data(3)))
    await check(plane, row)
    head, _ = await read(plane, row, "a", LOGGED)
    assert (head.form, head.filename, head.media_type) == (pb.ARTIFACT_FORM_PARTS, "a.txt", "application/x-figure")
    head, _ = await read(plane, row, "d", LOGGED)
    assert head.form == pb.ARTIFACT_FORM_DATA


async def test_a_repeated_run_starts_with_empty_artifacts(plane: Plane) -> None:
    """P7, C9: the pieces of a lost attempt are not part of them, and an artifact that is not written again is gone."""
    row = await worked(plane)
    await plane.orphan(row)
    await plane.claim(row)
    await plane.append(row, status(WORKING), chunk("again", "text"))
    await check(plane, row)
    for small in (FOLDED, LOGGED):
        _, parts = await read(plane, row, "text", small)
        assert [part.text for part in parts] == ["again"]
        with pytest.raises(NotFound):
            await read(plane, row, "raw", small)


async def test_each_version_of_an_artifact_is_read_while_the_log_has_it(plane: Plane) -> None:
    """P7: as it was before it was replaced, with its own name; a number that names none is told so."""
    row = await worked(plane)
    for small in (FOLDED, LOGGED):
        head, parts = await read(plane, row, "text", small, 1)
        assert (head.artifact.name, head.version, head.versions) == ("old", 1, 2)
        assert parts == [part(text="first version")]
        newest = await read(plane, row, "text", small)
        assert await read(plane, row, "text", small, 2) == newest and newest[0].version == 2
        with pytest.raises(NotFound) as missing:
            await read(plane, row, "text", small, 3)
        assert missing.value.reason == "VERSION_NOT_FOUND"
    await plane.put("d1", "a draft")
    ended = await plane.complete(row)
    await plane.log.submit(commands.MarkCopied(task_uid=row.uid, generation=ended.last_generation))
    await plane.log.submit(commands.Trim(task_uid=row.uid, ended_before=LATER, at_most=500))
    for version in (1, 2):
        with pytest.raises(NotFound) as missing:
            await read(plane, row, "text", FOLDED, version)
        assert missing.value.reason == "VERSION_NOT_FOUND"
    head, _ = await read(plane, row, "text", FOLDED)
    assert head.digest == newest[0].digest


async def test_versions_of_a_lost_attempt_do_not_count(plane: Plane) -> None:
    """P7, C9: a run that begins again begins to count again."""
    row = await worked(plane)
    await plane.orphan(row)
    await plane.claim(row)
    await plane.append(row, status(WORKING), chunk("again", "text"))
    head, _ = await read(plane, row, "text", LOGGED, 1)
    assert (head.version, head.versions) == (1, 1)


async def test_a_document_is_read_as_it_is_shown(plane: Plane) -> None:
    """P7: its artifacts are in the document, since its log has no content."""
    document = await plane.put("d1", "a draft")
    await check(plane, document.row)
    _, parts = await read(plane, document.row, "doc", LOGGED)
    assert [part.text for part in parts] == ["a draft"]


async def test_nobody_learns_of_artifacts_of_others(plane: Plane) -> None:
    """A task of another owner is answered like one that does not exist."""
    row = await worked(plane)
    reader = ArtifactReader(plane.log)
    told: list[tuple[str, str]] = []
    for scope, task_id in ((BOB, row.id), (BOB, "none")):
        with pytest.raises(NotFound) as refused:
            await anext(reader.stream(scope, task_id, "raw", 0))
        told.append((refused.value.reason, refused.value.message.replace(task_id, "...")))
    assert told[0] == told[1]
    for artifact_id in ("none", "", "\0"):
        with pytest.raises(NotFound) as refused:
            await anext(reader.stream(ADA, row.id, artifact_id, 0))
        assert refused.value.reason == "ARTIFACT_NOT_FOUND"


async def test_an_artifact_is_read_as_of_the_beginning_of_the_read(plane: Plane) -> None:
    """P7: also if it is replaced or its run is lost during the read."""
    row = await worked(plane)
    before, _ = await read(plane, row, "raw", LOGGED)
    reading = ArtifactReader(plane.log, small=LOGGED).stream(ADA, row.id, "raw", 0)
    async with aclosing(reading):
        assert (await anext(reading)).head == before
        await plane.append(row, piece("raw", part(raw=b"more"), append=True), piece("raw", part(raw=b"other")))
        await plane.orphan(row)
        sent = [one.data async for response in reading for one in response.pieces.pieces]
    assert b"".join(sent) == b"ab" * 200_000 + b"c" + b"\0" * 5


async def test_a_log_that_is_trimmed_under_a_reader_is_read_on_from_its_offset(plane: Plane) -> None:
    """C16: it is told so, and what it got is right."""
    row = await worked(plane)
    ended = await plane.complete(row)
    reading = ArtifactReader(plane.log, small=LOGGED).stream(ADA, row.id, "raw", 0)
    async with aclosing(reading):
        whole = (await anext(reading)).head
        got = b"".join(one.data for one in (await anext(reading)).pieces.pieces)
        await plane.log.submit(commands.MarkCopied(task_uid=row.uid, generation=ended.last_generation))
        await plane.log.submit(commands.Trim(task_uid=row.uid, ended_before=LATER, at_most=500))
        with pytest.raises(Conflict) as refused:
            async for response in reading:
                got += b"".join(one.data for one in response.pieces.pieces)
    assert refused.value.reason == "TRIMMED_MEANWHILE"
    head, rest = await read_from(plane, row, "raw", LOGGED, len(got))
    assert head.digest == whole.digest
    assert got + content(rest) == b"ab" * 200_000 + b"c" + b"\0" * 5


async def held(plane: Plane, reader: ArtifactReader, row: Row) -> AsyncGenerator[pb.ReadArtifactResponse, None]:
    reading = reader.stream(ADA, row.id, "a", 0)
    await anext(reading)
    return reading


async def test_the_memory_for_artifacts_of_trimmed_tasks_is_limited(plane: Plane) -> None:
    """C13: a read beyond the limit is refused with the time after which to retry."""
    row = await plane.create()
    await plane.grow(row, 10, 10_000)
    ended = await plane.complete(row)
    await plane.log.submit(commands.MarkCopied(task_uid=row.uid, generation=ended.last_generation))
    await plane.log.submit(commands.Trim(task_uid=row.uid, ended_before=LATER, at_most=500))
    reader = ArtifactReader(plane.log, small=LOGGED, most_held=150_000)
    first = await held(plane, reader, row)
    with pytest.raises(Exhausted) as refused:
        await held(plane, reader, row)
    assert refused.value.reason == "TOO_MANY_READS" and refused.value.retry_after
    await first.aclose()
    await (await held(plane, reader, row)).aclose()


async def test_a_reader_that_stops_costs_one_page_of_the_log(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """C13: nothing is read ahead of what was taken, and nothing at all once the reader has gone."""
    row = await plane.create()
    for _ in range(8):
        await plane.grow(row, 1, PIECE)
    pages: list[int] = []
    read_after = plane.log.read_after

    async def counted(uid: str, generation: int, *args: Any, **options: Any) -> Any:
        pages.append(generation)
        return await read_after(uid, generation, *args, **options)

    monkeypatch.setattr(plane.log, "read_after", counted)
    reading = ArtifactReader(plane.log, small=LOGGED).stream(ADA, row.id, "a", 0)
    await anext(reading)
    pages.clear()
    for taken in range(1, 4):
        response = await anext(reading)
        assert sum(len(one.data) for one in response.pieces.pieces) == PIECE
        await asyncio.sleep(0)
        assert len(pages) == taken
    await reading.aclose()
    assert len(pages) == 3
