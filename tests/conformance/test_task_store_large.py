"""Large tasks: what stays anyway is left in the log and folded for its readers only. P7, C13."""

import pytest
from tests.conformance.task_log import ADA, Plane, chunk, message, status

from taskplane.tasks.domain import commands
from taskplane.tasks.domain.snapshots import LARGE
from taskplane.tasks.domain.task import WORKING, Row, content_size

LATER = 1 << 60


async def written(plane: Plane, *, pieces: int, size: int) -> Row:
    """A task with one artifact of so many pieces."""
    row = await plane.create()
    for first in range(0, pieces, 64):
        await plane.grow(row, min(64, pieces - first), size)
    return row


async def test_a_large_artifact_is_stored_once_and_read_like_any_other(plane: Plane) -> None:
    """P7, C13: no snapshot repeats the log of a large task, while it grows or at its end, until that is trimmed."""
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
async def test_a_large_task_of_which_a_snapshot_is_worth_it_is_folded(plane: Plane, of: str) -> None:
    """C13: reading it costs what it is, not what it was, nor as many events as it had."""
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
