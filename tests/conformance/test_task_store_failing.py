"""Transactions that fail: nothing of them is written, whoever shared them."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, update
from sqlalchemy.exc import IntegrityError
from tests.conformance.task_log import Plane, chunk, message, only, status

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime import failpoints
from taskplane.runtime.errors import PlaneError, Unavailable
from taskplane.storage.prepared import PreparedQuery
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.fold import fold
from taskplane.tasks.domain.task import COMPLETED, WORKING, Event, Row
from taskplane.tasks.sql.apply import BatchTools, apply_batch
from taskplane.tasks.tables import task

SPOKEN = [status(WORKING, message("lost", "m-lost")), chunk("lost")]


@contextmanager
def failing(point: str, error: str) -> Generator[None]:
    failpoints.configure(f"{point}=raise({error})")
    try:
        yield
    finally:
        failpoints.configure("")


def _fence(conn: Connection, uid: str, fence: int) -> None:
    conn.execute(update(task).where(task.c.uid == uid).values(fence=fence))


async def fenced(plane: Plane, row: Row) -> None:
    """Raises the fence of a task by another hand, of which the log hears nothing."""
    await plane.engine.write(_fence, row.uid, row.fence + 1)


async def stored(plane: Plane, row: Row) -> tuple[Row, Sequence[Event]]:
    return await plane.log.row_by_uid(row.uid), await plane.all_events(row)


async def snapshot_is_its_fold(plane: Plane, row: Row) -> None:
    """Check that the snapshot folded on the way to the end, from memory or not, equals the fold of the log."""
    await plane.complete(row)
    ended = await plane.check(row)
    assert ended.state == COMPLETED
    assert plane.commits[-1].changes[0].task == fold(a2a.Task(), await plane.all_events(row))


@pytest.mark.parametrize("error", ["UNAVAILABLE", "INTERNAL"])
@pytest.mark.parametrize("together", [1, 3])
async def test_nothing_is_left_of_a_rolled_back_append(plane: Plane, error: str, together: int) -> None:
    """C1: the next item continues the log of the database, alone and after the split of a batch."""
    rows = [await plane.create() for _ in range(together)]
    for row in rows:
        await plane.append(row, chunk("kept"), status(WORKING, message("kept", "m-kept")))
    before = [await stored(plane, row) for row in rows]
    lost = [await plane.item(row, *SPOKEN) for row in rows]
    told = len(plane.commits)
    with failing("append.before_commit", error):
        answers = await plane.log.submit_all(lost)
    assert [only(PlaneError, answer).code for answer in answers] == [error] * together
    assert [await stored(plane, row) for row in rows] == before
    assert len(plane.commits) == told
    for row, (was, _) in zip(rows, before, strict=True):
        answer = await plane.append(row, chunk("more", append=True))
        assert (answer.refusal, answer.first_generation) == (None, was.generation + 1)
        await snapshot_is_its_fold(plane, row)


async def test_nothing_is_left_of_a_rolled_back_task(plane: Plane) -> None:
    creation = plane.creation()
    with failing("append.before_commit", "UNAVAILABLE"), pytest.raises(Unavailable):
        await plane.log.submit(creation)
    row = only(commands.Created, await plane.log.submit(creation)).row
    assert await plane.log.row_by_uid(row.uid) == row
    await snapshot_is_its_fold(plane, row)


async def test_a_commit_with_an_unknown_outcome_is_read_from_the_database(plane: Plane) -> None:
    """C1, C2: if the answer of a commit is lost, the next operation uses the state in the database."""
    row = await plane.create()
    await plane.append(row, chunk("first"))
    item = await plane.item(row, chunk("unknown", append=True))
    with failing("append.after_commit_before_ack", "UNAVAILABLE"), pytest.raises(Unavailable):
        await plane.log.submit(item)
    assert (await plane.log.row_by_uid(row.uid)).generation == 4
    again = only(commands.Appended, await plane.log.submit(item))
    assert (again.refusal, again.first_generation, again.last_generation) == (None, 4, 4)
    assert (await plane.append(row, chunk("next", append=True))).first_generation == 5
    await snapshot_is_its_fold(plane, row)


async def test_an_item_that_another_hand_fenced_is_refused_alone(plane: Plane) -> None:
    """C8: the item of a task that was fenced by another hand is refused, and those beside it are carried out."""
    first, stale, last = [await plane.create() for _ in range(3)]
    items = [await plane.item(row, *SPOKEN) for row in (first, stale, last)]
    await fenced(plane, stale)
    before = await stored(plane, stale)
    told = len(plane.commits)
    answers = [only(commands.Appended, answer) for answer in await plane.log.submit_all(items)]
    reasons = [answer.refusal.reason if answer.refusal else "" for answer in answers]
    assert reasons == ["", "FENCED", ""]
    assert len([each for each in plane.commits[told:] if each.changes]) == 1
    assert await stored(plane, stale) == before
    for row in (first, last):
        assert (await plane.check(row)).generation == 4
        await snapshot_is_its_fold(plane, row)


class Misread(PreparedQuery):
    """The query of `query`, whose first result is `rows` instead, whatever the database says."""

    def __init__(self, query: PreparedQuery, rows: Sequence[Row]) -> None:
        super().__init__(query.statement)
        self._instead = list(rows)

    def rows(self, conn: Connection, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        found = super().rows(conn, parameters)
        instead, self._instead = self._instead, []
        return instead or found


# The fault of the row of a task that was read, and the statement of the batch that is refused for it.
WRONG: dict[str, dict[str, Any]] = {
    "a guard of the row": {"fence": 1, "lease_owner": "p1"},
    "a guard of the event": {"generation": 7},
    "the key of the event": {"generation": 1},
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a_batch_with_a_refused_row_writes_nothing(plane: Plane, wrong: str, place: int) -> None:
    """C1, C2: all rows that the statement had written before are rolled back."""
    rows = [await plane.create() for _ in range(3)]
    items: list[commands.Operation] = [await plane.item(row, chunk("half")) for row in rows]
    misread = list(rows)
    misread[place] = rows[place]._replace(**WRONG[wrong])
    if wrong == "a guard of the row":
        await fenced(plane, rows[place])
    before = [await stored(plane, row) for row in rows]
    tools = BatchTools.of(plane.engine.dialect)
    tools.locking.free_rows = Misread(tools.locking.free_rows, misread)
    with pytest.raises(IntegrityError):
        await plane.engine.write(apply_batch, items, tools)
    assert [await stored(plane, row) for row in rows] == before
    # The same transaction once more, which reads them as they are.
    outcomes = (await plane.engine.write(apply_batch, items, tools)).outcomes
    refused = [isinstance(each, commands.Appended) and each.refusal is not None for each in outcomes]
    assert refused == [wrong == "a guard of the row" and index == place for index in range(3)]
    assert not any(isinstance(each, PlaneError) for each in outcomes)
    for row, kept in zip(rows, refused, strict=True):
        assert (await plane.check(row)).generation == (2 if kept else 3)
