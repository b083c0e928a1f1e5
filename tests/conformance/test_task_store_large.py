"""Large tasks: their artifacts are usually stored in the log only, and joined when a task is read. P7, C13."""

import re

import pytest
from sqlalchemy import text
from tests.conformance.task_log import ADA, Plane, chunk, message, status
from tests.conformance.test_task_store_cost import replayed, statements

from taskplane.tasks.domain import commands
from taskplane.tasks.domain.kinds import ARTIFACT
from taskplane.tasks.domain.snapshots import LARGE
from taskplane.tasks.domain.task import COMPLETED, WORKING, Row, content_size
from taskplane.tasks.pages import MessageFilter

LATER = 1 << 60


async def written(plane: Plane, *, pieces: int, size: int) -> Row:
    """Create a task with one artifact of `pieces` pieces, each of `size` characters."""
    row = await plane.create()
    for first in range(0, pieces, 64):
        await plane.grow(row, min(64, pieces - first), size)
    return row


async def test_a_large_artifact_is_stored_once_and_read_like_any_other(plane: Plane) -> None:
    """P7, C13: after its end, the snapshot of this task does not repeat its artifact; after a trim it does."""
    row = await written(plane, pieces=128, size=32_000)
    assert content_size(await plane.check(row)) > LARGE
    ended = await plane.complete(row)
    now = await plane.check(row)
    assert now.snapshot_generation < now.generation and now.snapshot_bytes < LARGE
    before = await plane.log.get(ADA, row.id)
    await plane.log.submit(commands.MarkCopied(task_uid=row.uid, generation=ended.last_generation))
    await plane.log.submit(commands.Trim(task_uid=row.uid, ended_before=LATER, at_most=500))
    now, task = await plane.log.get(ADA, row.id)
    assert now.snapshot_generation == now.generation and task == before[1]


@pytest.mark.parametrize("of", ["versions", "small pieces", "messages"])
async def test_a_large_task_gets_a_snapshot_if_that_is_cheaper_to_read(plane: Plane, of: str) -> None:
    """C13: the cost of reading depends on the size of the task now, not on the length of its log."""
    row = await plane.create()
    if of == "versions":
        for _ in range(10):
            await plane.append(row, chunk("x" * 400_000))
    elif of == "small pieces":
        row = await written(plane, pieces=4096, size=300)
    else:
        for number in range(40):
            await plane.append(row, status(WORKING, message("x" * 50_000, f"m{number}")))
    assert (await plane.log.row_by_uid(row.uid)).event_bytes > LARGE
    await plane.complete(row)
    now = await plane.log.row_by_uid(row.uid)
    assert now.snapshot_generation == now.generation
    assert of != "versions" or now.snapshot_bytes < 401_000


WORDS = "".join(f"The {number}th of many sentences, which repeat but their numbers. " for number in range(1200))


async def stored(plane: Plane, row: Row) -> int:
    """Return the size in bytes of a task's artifact in the database."""
    size = "length" if plane.engine.dialect.name == "sqlite" else "pg_column_size"
    query = text(f"SELECT sum({size}(payload)) FROM event WHERE task_uid = :uid AND kind = {ARTIFACT}")
    return int(await plane.engine.read(lambda conn: conn.execute(query, {"uid": row.uid}).scalar_one()))


async def test_large_pieces_are_stored_compressed_and_uncompressed_rows_stay_readable(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: PostgreSQL compresses rows itself; on SQLite the store compresses large pieces. Uncompressed rows stay
    readable."""
    row = await plane.create()
    with monkeypatch.context() as before:
        before.setattr("taskplane.tasks.sql.packing.LARGE_PIECE", 1 << 60)
        await plane.append(row, chunk(WORDS))
    unpacked = await stored(plane, row)
    for _ in range(20):
        await plane.append(row, chunk(WORDS, append=True))
    await plane.append(row, chunk("last", append=True))
    assert await stored(plane, row) - unpacked < 20 * len(WORDS) / 3
    now, task = await plane.log.get(ADA, row.id)
    assert now.event_bytes > 20 * len(WORDS)
    assert task.artifacts[0].parts[0].text == 21 * WORDS + "last"
    await plane.check(row)


async def test_a_page_of_compressed_pieces_is_no_larger_than_others(plane: Plane) -> None:
    """C13: the limit of a page applies to the uncompressed size."""
    row = await plane.create()
    for _ in range(8):
        await plane.append(row, chunk(WORDS))
    most = 5 * len(WORDS) // 2
    at, pages = row.generation, list[int]()
    while at < row.generation + 8:
        page = await plane.log.read_after(row.uid, at, 64, most)
        assert sum(len(event.payload) for event in page.events) <= most
        pages.append(len(page.events))
        at = page.events[-1].generation
    assert pages == [2, 2, 2, 2]
    page = await plane.log.read_after(row.uid, row.generation, 64, 1)
    assert len(page.events) == 1


@pytest.mark.parametrize("by", ["cancel", "loss", "end"])
async def test_a_text_that_is_open_in_a_large_task_is_closed_without_reading_the_rest(plane: Plane, by: str) -> None:
    """C11, C13: the artifact of the task is not read."""
    row = await plane.create()
    await plane.append(row, status(WORKING, message("so ", "m2", partial=True)))
    await plane.append(row, *(chunk(WORDS, append=number > 0) for number in range(20)))
    await plane.append(row, status(WORKING, message("far", "m2", partial=True)), status(WORKING))
    with statements() as seen:
        if by == "cancel":
            await plane.log.submit(commands.Cancel(scope=ADA, task_id=row.id))
        elif by == "loss":
            await plane.orphan(row)
        else:
            await plane.append(row, status(COMPLETED), consumed_generation=1)
    assert not [statement for statement, _ in seen if re.search(r"task\.snapshot\b", statement)]
    _, task = await plane.log.get(ADA, row.id)
    (said,) = [each for each in (*task.history, task.status.message) if each.message_id == "m2"]
    assert said.parts[0].text == "so far" and ("interrupted" in str(said.metadata)) is (by != "end")
    await plane.check(row)


async def test_the_messages_of_a_large_task_are_read_without_its_artifacts(plane: Plane) -> None:
    """C13, P10: the messages are read from the log if no snapshot contains them."""
    row = await plane.create()
    await plane.append(row, *(chunk(WORDS, append=number > 0) for number in range(20)))
    await plane.complete(row, "the end")
    with statements() as reading:
        page = await plane.log.messages(ADA, MessageFilter(context_id=row.context_id))
    assert [each.parts[0].text for each in page.messages][1:] == ["the end"]
    _, size = await plane.engine.read(replayed, reading)
    assert size < 50_000
