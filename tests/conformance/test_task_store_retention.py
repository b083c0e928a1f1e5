"""Trimming the logs of tasks that ended long ago: what goes, what stays, and what is never touched. C16, C4, C10."""

from collections.abc import Sequence

import pytest
from tests.conformance.task_log import ADA, Plane, chunk, message, only, status

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import OutOfRange, PlaneError
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.kinds import CREATED, MARKS, MESSAGE
from taskplane.tasks.domain.task import TERMINAL, WORKING, Row
from taskplane.tasks.domain.trimming import COUNTERS
from taskplane.tasks.exporting import exported
from taskplane.tasks.trimming import Garbage, Trimmer

LATER = 1 << 60


async def worked(plane: Plane, name: str = "", chunks: int = 12) -> Row:
    """A task of two turns with a pause between them, ended and copied."""
    row = await plane.create(**({"name": name} if name else {}))
    await plane.append(row, status(WORKING, message("so far", f"{row.id}-m2")), chunk("x" * 100))
    await plane.pause(row)
    await plane.say(row, f"{row.id}-i2")
    await plane.claim(row)
    await plane.append(row, status(WORKING), *(chunk("y" * 100, append=True) for _ in range(chunks)))
    await plane.complete(row)
    return await copied(plane, row)


async def copied(plane: Plane, row: Row) -> Row:
    now = await plane.log.row_by_uid(row.uid)
    await plane.log.submit(commands.MarkCopied(task_uid=row.uid, generation=now.generation))
    return await plane.log.row_by_uid(row.uid)


async def trim(plane: Plane, row: Row, *, before: int = LATER, at_most: int = 500) -> commands.Trimmed:
    op = commands.Trim(task_uid=row.uid, ended_before=before, at_most=at_most)
    return only(commands.Trimmed, await plane.log.submit(op))


async def test_of_an_ended_task_what_it_was_asked_and_how_it_changed_stays(plane: Plane) -> None:
    """C16, W13: the head, the end, the records of turns and every change of the state; the task is what it was."""
    row = await worked(plane)
    before = await plane.log.get(ADA, row.id)
    infos = await plane.log.session(ADA, row.context_id)
    events = await plane.all_events(row)
    done = await trim(plane, row)
    left = await plane.all_events(row)
    gone = [event for event in events if event not in left]
    assert (done.events, done.bytes) == (len(gone), sum(len(event.payload) for event in gone))
    assert done.events == 14 and not done.more
    assert all(event.kind not in MARKS | {CREATED, MESSAGE} and event.changed_to is None for event in gone)
    assert left == [
        event for event in events if event.kind in (CREATED, MESSAGE) or event.changed_to or event is events[-1]
    ]
    now, task = await plane.log.get(ADA, row.id)
    assert task == before[1] and now == before[0]._replace(trimmed_generation=row.generation - 1)
    shown = await plane.log.session(ADA, row.context_id)
    assert [info[1:] for info in shown] == [info[1:] for info in infos]
    assert only(
        commands.Trimmed, await plane.log.submit(commands.Trim(task_uid=row.uid, ended_before=LATER, at_most=9))
    ) == (commands.Trimmed())


async def test_a_repeat_of_a_turn_is_known_after_its_log_was_trimmed(plane: Plane) -> None:
    """C10: a send with a key that was used answers the same task, however old that is."""
    creation = plane.creation(name="old")
    row = only(commands.Created, await plane.log.submit(creation)).row
    await plane.append(row, chunk("x"), chunk("y", append=True))
    await plane.say(row, "old-i2")
    await plane.complete(row)
    row = await copied(plane, row)
    assert (await trim(plane, row)).events == 2
    again = only(commands.Created, await plane.log.submit(creation))
    assert (again.created, again.row.uid) == (False, row.uid)
    assert not (await plane.say(row, "old-i2")).added
    with pytest.raises(PlaneError) as reused:
        await plane.say(row, "old-i2", request_hash=b"another")
    assert reused.value.reason == "KEY_REUSED"


async def test_neither_a_live_nor_an_uncopied_nor_a_young_task_is_trimmed(plane: Plane) -> None:
    """C16: an uncopied task is copied first, however long ago it ended."""
    live = await plane.create()
    paused = await plane.create()
    uncopied = await plane.create()
    for row in (live, paused, uncopied):
        await plane.append(row, chunk("x"), chunk("y", append=True))
    await plane.pause(paused)
    await plane.complete(uncopied)
    for row in (live, paused):
        await copied(plane, row)
    young = await worked(plane)
    for row, before in ((live, LATER), (paused, LATER), (uncopied, LATER), (young, young.status_at)):
        events = await plane.all_events(row)
        assert await trim(plane, row, before=before) == commands.Trimmed()
        assert await plane.all_events(row) == events
    assert await plane.log.trimmable(young.status_at, (0, ""), 10) == []
    assert [row.uid for row in await plane.log.trimmable(LATER, (0, ""), 10)] == [young.uid]
    await trim(plane, await copied(plane, uncopied))
    assert len(await plane.all_events(uncopied)) == 3
    assert (await trim(plane, young, before=young.status_at + 1)).events


async def test_a_place_before_what_was_trimmed_is_refused_and_one_after_it_is_not(plane: Plane) -> None:
    """C4: who lacks events is told from which generation on there is no gap, and never gets a log with holes."""
    row = await worked(plane)
    head = row.generation
    await trim(plane, row)
    for place in range(head - 1):
        with pytest.raises(OutOfRange) as refused:
            await plane.log.read_after(row.uid, place)
        assert refused.value.reason == "CURSOR_TRIMMED"
        assert refused.value.metadata["oldest_generation"] == str(head)
    assert [event.generation for event in (await plane.log.read_after(row.uid, head - 1)).events] == [head]
    assert not (await plane.log.read_after(row.uid, head)).events


async def test_a_long_log_is_trimmed_in_parts_and_never_has_a_hole_that_is_not_told(plane: Plane) -> None:
    """C16: small transactions; between them the log is whole after where it says."""
    row = await worked(plane, chunks=40)
    parts: list[int] = []
    while True:
        done = await trim(plane, row, at_most=10)
        parts.append(done.events)
        now = await plane.log.row_by_uid(row.uid)
        following = (await plane.log.read_after(row.uid, now.trimmed_generation)).events
        assert [event.generation for event in following] == list(range(now.trimmed_generation + 1, row.generation + 1))
        if not done.more:
            break
    assert len(parts) == 5 and max(parts) <= 10 and sum(parts) == 42


async def test_a_task_that_was_cut_before_it_was_trimmed_can_come_back(plane: Plane) -> None:
    """R4, C16: marks stay, before and after; the snapshot is brought up to the head first."""
    row = await worked(plane)
    await plane.mark(5, f"{row.id}-i1")
    await trim(plane, row)
    now = await plane.log.row_by_uid(row.uid)
    assert now.snapshot_generation == now.generation == row.generation + 1 and now.superseded
    await plane.mark(6)
    events = await plane.all_events(row)
    assert [event.kind in MARKS for event in events[-3:]] == [False, True, True]
    assert events[-3].state in TERMINAL
    assert len((await plane.log.read_after(row.uid, row.generation - 1)).events) == 3


async def test_counters_of_a_document_go_and_its_changes_of_state_stay(plane: Plane) -> None:
    """C16, M1: a document is its row; the newest counters stay, so that it is not trimmed at each."""
    for number in range(COUNTERS + 20):
        await plane.put("doc", str(number))
    row = (await plane.put("doc", "last", state=3)).row
    before = await plane.log.get(ADA, "doc")
    infos = await plane.log.session(ADA, row.context_id)
    assert [each.uid for each in await plane.log.untrimmed_documents("", 10)] == [row.uid]
    assert (await trim(plane, row, before=0)).events == 20
    left = [event.generation for event in await plane.all_events(row)]
    assert left == [1, *range(22, row.generation + 1)]
    assert (await plane.log.get(ADA, "doc"))[1] == before[1]
    assert [info[1:] for info in await plane.log.session(ADA, row.context_id)] == [info[1:] for info in infos]
    assert not await plane.log.untrimmed_documents("", 10)
    await plane.put("doc", "and on")


@pytest.mark.parametrize("at_most", [9, 500])
async def test_what_is_left_of_a_trimmed_log_comes_back_elsewhere(plane: Plane, at_most: int) -> None:
    """C16: of a task, of one trimmed in part, and of a document; exported again they are the same."""
    row = await worked(plane)
    await trim(plane, row, at_most=at_most)
    unmarked = await away(plane, row.id)
    await plane.mark(1, f"{row.id}-i1")
    assert await away(plane, row.id, row.generation) == unmarked
    for number in range(COUNTERS + 5):
        await plane.put("doc", str(number))
    document = (await plane.put("doc", "last", state=3)).row
    await trim(plane, document)
    for each in (row, document):
        _, before = await plane.log.get(ADA, each.id)
        was = await away(plane, each.id)
        assert 0 < was[0].task.trimmed_generation < was[0].task.generation
        await plane.log.submit(commands.Delete(scope=ADA, task_id=each.id))
        assert await brought_in(plane, was) == 1
        assert await away(plane, each.id) == was
        now, task = await plane.log.get(ADA, each.id)
        assert task == before and now.trimmed_generation == was[0].task.trimmed_generation
        with pytest.raises(OutOfRange):
            await plane.log.read_after(now.uid, 1)
        assert (await plane.log.read_after(now.uid, now.trimmed_generation)).events
        # A log that was trimmed in part goes on being trimmed.
        assert bool((await trim(plane, now)).events) == (each is row and at_most == 9)
        await plane.log.submit(commands.Delete(scope=ADA, task_id=each.id))


async def away(plane: Plane, task_id: str, generation: int = 0) -> list[pb.ImportRecord]:
    """The records of one task as it is kept outside."""
    found: list[pb.ImportRecord] = []
    async for response in exported(plane.log, ADA, task_id, generation):
        if response.HasField("task"):
            found.append(pb.ImportRecord(line=1, task=response.task))
        found += (pb.ImportRecord(line=1, event=event) for event in response.events.events)
    return found


async def brought_in(plane: Plane, records: Sequence[pb.ImportRecord]) -> int:
    content = [record.SerializeToString() for record in records]
    data = b"".join(len(each).to_bytes(4) + each for each in content)
    context = records[0].task.task.context_id
    await plane.log.stage_import(ADA, context, "i", 1, data)
    made = await plane.log.commit_import(ADA, context, "i", 1)
    await plane.log.finish_import(ADA, context, "i")
    return made


async def test_a_trimmed_task_is_deleted_like_any_other(plane: Plane) -> None:
    """C16: with all that was left of its log."""
    row = await worked(plane)
    await trim(plane, row)
    await plane.log.submit(commands.Delete(scope=ADA, task_id=row.id))
    rows = await plane.engine.read(lambda conn: conn.exec_driver_sql("SELECT count(*) FROM event").scalar_one())
    assert rows == 0


async def test_a_pass_takes_all_that_is_due_a_survey_tells_it_and_both_do_nothing_without_a_ttl(plane: Plane) -> None:
    """C16: in transactions of a few hundred rows."""
    rows = [await worked(plane) for _ in range(5)]
    long = await worked(plane, chunks=700)
    live = await plane.create()
    await plane.append(live, chunk("x"), chunk("y", append=True))
    for number in range(COUNTERS + 3):
        await plane.put("doc", str(number))
    off, on = Trimmer(plane.log, ttl=0, every=60), Trimmer(plane.log, ttl=1e-6, every=60)
    assert await off.trim() == await off.survey() == Garbage()
    found = await on.survey()
    assert (found.tasks, found.events) == (7, 5 * 14 + 702 + 2)
    assert (await on.trim(seconds=-1)) == Garbage(more=True)
    plane.commits.clear()
    assert await on.trim() == found
    assert len(plane.commits) == 4
    assert await on.trim() == await on.survey() == Garbage()
    for row in (*rows, long):
        assert (await plane.log.row_by_uid(row.uid)).trimmed_generation == row.generation - 1
    await plane.check(live)
