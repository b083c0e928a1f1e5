"""The log itself: order without gaps, repeats answered from the row, and what a commit announces. C1, C2, C6, C13."""

import asyncio

import pytest
from tests.conformance.task_log import ADA, Plane, changed, chunk, message, only, opened, status
from tests.conftest import Migrated

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Exhausted, Internal, Invalid, NotFound, OutOfRange, PlaneError, Refused
from taskplane.storage.committer import LATER
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.fold import fold
from taskplane.tasks.domain.kinds import ARTIFACT, CREATED, STATUS
from taskplane.tasks.domain.task import COMPLETED, WORKING
from taskplane.tasks.pages import EventFilter
from taskplane.tasks.sql.apply import BatchTools, apply_batch


async def test_a_new_task_and_its_first_changes_are_one_commit(plane: Plane) -> None:
    """C1: the created event is generation 1, what follows is numbered on, and one commit announces all."""
    row = await plane.create()
    assert (row.generation, row.state, row.fence, row.lease_owner) == (2, WORKING, 1, "p1")
    assert [(event.generation, event.kind) for event in await plane.all_events(row)] == [(1, CREATED), (2, STATUS)]
    (commit,) = plane.commits
    assert [each.uid for each in commit.rows] == [row.uid]
    assert [event.generation for event in commit.events] == [1, 2]
    await plane.check(row)


async def test_generations_of_concurrent_appends_have_no_gap_in_any_task(plane: Plane) -> None:
    """C1: each task counts 1, 2, 3, in any combination of batches."""
    rows = await asyncio.gather(*(plane.create() for _ in range(12)))
    for _ in range(5):
        await asyncio.gather(*(plane.append(row, chunk("x"), chunk("y")) for row in rows))
    for row in rows:
        assert (await plane.check(row)).generation == 12


async def test_an_item_sent_again_is_answered_with_its_first_generations(plane: Plane) -> None:
    """C6: also if the item paused or ended its task. Nothing is appended twice."""
    row = await plane.create()
    item = await plane.item(row, chunk("x"), chunk("y"))
    first = await plane.log.submit(item)
    assert await plane.log.submit(item) == first
    end = await plane.item(row, status(COMPLETED), consumed_generation=1)
    ended = only(commands.Appended, await plane.log.submit(end))
    assert ended.refusal is None
    assert await plane.log.submit(end) == ended
    assert (await plane.check(row)).generation == 5


async def test_an_item_and_its_repeat_in_one_go_count_once(plane: Plane) -> None:
    """C6: a retry that overtakes the answer finds what the first did."""
    row = await plane.create()
    item = await plane.item(row, chunk("x"))
    first, second = await plane.log.submit_all([item, item])
    assert first == second
    assert (await plane.check(row)).generation == 3


async def test_an_item_number_never_goes_back(plane: Plane) -> None:
    """C6: an older item of the same fence is a fault, not a repeat."""
    row = await plane.create()
    for _ in range(3):
        await plane.append(row, chunk("x"))
    answer = await plane.append(row, chunk("late"), number=2)
    assert isinstance(answer.refusal, Invalid)
    assert (await plane.check(row)).generation == 5


async def test_an_old_fence_is_refused_and_nothing_of_the_item_is_kept(plane: Plane) -> None:
    """C6, C8: the fence is checked in the transaction that appends."""
    row = await plane.create()
    answer = await plane.append(row, chunk("x"), fence=row.fence + 1)
    assert isinstance(answer.refusal, Refused) and answer.refusal.reason == "FENCED"
    assert (await plane.check(row)).generation == row.generation


async def test_a_refusal_concerns_its_item_only(plane: Plane) -> None:
    """C6: the other items of the batch are committed."""
    good, fenced, missing = await plane.create(), await plane.create(), await plane.create()
    answers = await plane.log.submit_all(
        [
            await plane.item(good, chunk("x")),
            await plane.item(fenced, chunk("x"), fence=7),
            commands.Append(actor="agent:demo", task_uid="nobody", fence=1, number=1, changes=changed(chunk("x"))),
            commands.Cancel(scope=ADA, task_id=missing.id),
        ]
    )
    assert only(commands.Appended, answers[0]).refusal is None
    assert isinstance(only(commands.Appended, answers[1]).refusal, Refused)
    assert isinstance(only(commands.Appended, answers[2]).refusal, NotFound)
    assert only(commands.Done, answers[3]).row.generation == 3


async def test_two_operations_on_one_task_in_one_batch_take_effect_in_their_order(plane: Plane) -> None:
    """C1: also if one operation has the uid of the task and the other its id."""
    row = await plane.create()
    item = await plane.item(row, chunk("x"))
    plane.commits.clear()
    answers = await plane.log.submit_all([item, commands.Cancel(scope=ADA, task_id=row.id), plane.saying(row, "late")])
    assert only(commands.Appended, answers[0]).refusal is None
    assert only(commands.Done, answers[1]).row.generation == 4
    assert isinstance(answers[2], Refused) and answers[2].reason == "TERMINAL"
    assert [event.generation for commit in plane.commits for event in commit.events] == [3, 4]


async def test_a_batch_changes_a_task_once_and_leaves_the_rest_for_the_next(plane: Plane) -> None:
    """By whatever name the task is called, and the same for two that begin one turn."""
    row, other = await plane.create(), await plane.create()
    item = await plane.item(row, chunk("x"))
    creation = plane.creation(invocation_id="k1")
    batch: list[commands.Operation] = [
        item,
        commands.Cancel(scope=ADA, task_id=row.id),
        creation,
        plane.saying(other, "k1"),
        await plane.item(other),
    ]
    done = await plane.engine.write(apply_batch, batch, BatchTools.of(plane.engine.dialect))
    assert [outcome is LATER for outcome in done.outcomes] == [False, True, False, True, False]
    await plane.check(row)


async def test_announced_rows_and_events_are_already_committed(plane: Plane) -> None:
    """C2: they are announced in order, after the commit and before the answer."""
    row = await plane.create()
    plane.commits.clear()
    answer = await plane.append(row, chunk("x"), chunk("y"))
    (commit,) = plane.commits
    assert [event.generation for event in commit.events] == [answer.first_generation, answer.last_generation]
    page = await plane.log.read_after(row.uid, row.generation)
    assert list(page.events) == list(commit.events)
    assert page.row == commit.rows[0]


async def test_nothing_is_appended_to_an_artifact_that_is_not_there(plane: Plane) -> None:
    """P5, a2a C18: such an item is refused and changes nothing, whoever shares its batch; artifacts of others do not
    count."""
    row, other = await plane.create(), await plane.create()
    await plane.append(other, chunk("x"), chunk("x", "b"))
    refused = await plane.item(row, chunk("x", "b"), chunk("y", append=True))
    taken = await plane.item(other, chunk("y", append=True), chunk("y", "b", append=True))
    answers = await plane.log.submit_all([refused, taken])
    refusals = [only(commands.Appended, answer).refusal for answer in answers]
    assert [each.reason if each else None for each in refusals] == ["ILLEGAL_APPEND", None]
    assert await plane.check(row) == row
    with pytest.raises(Refused) as creation:
        await plane.create(changes=changed(status(WORKING), chunk("x", append=True)), name="never")
    assert creation.value.reason == "ILLEGAL_APPEND"
    with pytest.raises(NotFound):
        await plane.log.get(ADA, "never")
    assert (await plane.append(row, chunk("x"), chunk("y", append=True), chunk("z", "b"))).refusal is None
    assert (await plane.append(row, chunk("z", append=True))).refusal is None
    _, task = await plane.log.get(ADA, row.id)
    assert {each.artifact_id: each.parts[0].text for each in task.artifacts} == {"a": "xyz", "b": "z"}
    await plane.check(row)


async def test_an_artifact_outlives_pauses_and_replacements_but_not_its_lost_attempt(plane: Plane) -> None:
    """P5, C9: an attempt that is run again begins its artifacts anew, whatever the log has of the one before."""
    row = await plane.create(on_orphan=int(pb.ON_ORPHAN_RERUN))
    await plane.append(row, chunk("x"), chunk("x"), chunk("x", "b"))
    await plane.pause(row)
    await plane.say(row, "i2")
    await plane.claim(row)
    assert (await plane.append(row, status(WORKING), chunk("y", append=True))).refusal is None
    await plane.orphan(row)
    await plane.claim(row)
    for artifact_id in ("a", "b"):
        lost = await plane.append(row, chunk("z", artifact_id, append=True))
        assert lost.refusal is not None and lost.refusal.reason == "ILLEGAL_APPEND"
    assert (await plane.append(row, chunk("z", "b"), chunk("z"))).refusal is None
    assert (await plane.append(row, chunk("z", "b", append=True))).refusal is None
    _, task = await plane.log.get(ADA, row.id)
    assert {each.artifact_id: each.parts[0].text for each in task.artifacts} == {"b": "zz", "a": "z"}
    await plane.check(row)


async def test_acknowledged_operations_survive_a_restart(migrated: Migrated) -> None:
    """C2: the store process may be lost at any time."""
    url = await migrated("taskplane.tasks")
    async with opened(url) as plane:
        row = await plane.create()
        await plane.append(row, chunk("x"))
        epoch = await plane.log.epoch()
    async with opened(url) as plane:
        assert (await plane.check(row)).generation == 3
        assert await plane.log.epoch() == epoch


async def test_pages_follow_one_another_without_a_gap(plane: Plane) -> None:
    """C3: reading after a place gives what follows it, oldest first, in pages."""
    row = await plane.create()
    for _ in range(10):
        await plane.append(row, *(chunk("x") for _ in range(10)))
    seen: list[int] = []
    place = 0
    while (page := await plane.log.read_after(row.uid, place)).events:
        assert len(page.events) <= 64
        seen += [event.generation for event in page.events]
        place = seen[-1]
    assert seen == list(range(1, 103))
    assert page.row.generation == 102


async def test_a_page_is_bounded_in_bytes_and_never_empty_where_there_is_more(plane: Plane) -> None:
    """C13: a watcher holds a small page, whatever the events weigh."""
    row = await plane.create()
    await plane.append(row, *(chunk("x" * 10_000) for _ in range(20)), chunk("y" * 100_000), chunk("z"))
    page = await plane.log.read_after(row.uid, 2, max_bytes=35_000)
    assert [event.generation for event in page.events] == [3, 4, 5]
    page = await plane.log.read_after(row.uid, 22, max_bytes=35_000)
    assert [event.generation for event in page.events] == [23]
    assert len((await plane.log.read_after(row.uid, 0, limit=5, max_bytes=1 << 20)).events) == 5


async def test_a_place_that_the_log_does_not_have_is_refused(plane: Plane) -> None:
    """C4: beyond the head, in a log that is gone, before what is kept."""
    row = await plane.create()
    with pytest.raises(OutOfRange) as ahead:
        await plane.log.read_after(row.uid, 3)
    assert ahead.value.reason == "CURSOR_AHEAD"
    with pytest.raises(NotFound):
        await plane.log.read_after("nobody", 0)
    await plane.complete(row)
    await plane.log.submit(commands.MarkCopied(task_uid=row.uid, generation=3))
    await plane.log.submit(commands.Trim(task_uid=row.uid, ended_before=1 << 60, at_most=500))
    with pytest.raises(OutOfRange) as trimmed:
        await plane.log.read_after(row.uid, 1)
    assert (trimmed.value.reason, trimmed.value.metadata["oldest_generation"]) == ("CURSOR_TRIMMED", "3")
    assert [event.generation for event in (await plane.log.read_after(row.uid, 2)).events] == [3]


async def test_events_are_filtered_and_ordered_as_asked(plane: Plane) -> None:
    """C3: by kind, by whether they speak, after a place, in either direction, at most so many."""
    row = await plane.create()
    said = message("so far", "m2")
    await plane.append(row, chunk("x"), status(WORKING, said), chunk("y"))
    log, read = plane.log, EventFilter

    async def generations(query: EventFilter) -> list[int]:
        return [event.generation for event in (await log.events(ADA, row.id, query))[1]]

    assert await generations(read()) == [1, 2, 3, 4, 5]
    assert await generations(read(kinds=[ARTIFACT])) == [3, 5]
    assert await generations(read(speaking=True)) == [1, 4]
    assert await generations(read(after_generation=3)) == [4, 5]
    assert await generations(read(newest_first=True, limit=2)) == [5, 4]
    assert await generations(read(speaking=True, after_generation=1, kinds=[STATUS])) == [4]
    for limit in (0, 1001):
        with pytest.raises(Invalid):
            await generations(read(limit=limit))


async def test_a_long_stream_reads_as_the_fold_of_its_events(plane: Plane) -> None:
    """C3: whether a snapshot was rewritten on the way or not, a task is the fold of its log."""
    row = await plane.create()
    for _ in range(12):
        await plane.grow(row, 10, 4_000)
    now = await plane.check(row)
    assert 1 < now.snapshot_generation < now.generation
    await plane.complete(row)
    now = await plane.check(row)
    assert now.snapshot_generation == now.generation and now.folded_bytes == now.event_bytes


async def test_the_end_of_a_task_is_announced_with_the_whole_task(plane: Plane) -> None:
    """C3: a watcher that waits for the end need not read the task."""
    row = await plane.create()
    await plane.append(row, chunk("x"))
    await plane.complete(row)
    (change,) = plane.commits[-1].changes
    assert change.task == fold(a2a.Task(), await plane.all_events(row))
    assert change.row == await plane.log.row_by_uid(row.uid)


async def test_a_full_queue_refuses_at_once_and_changes_nothing(migrated: Migrated) -> None:
    """C13: backpressure is an answer, with a time to wait."""
    async with opened(await migrated("taskplane.tasks"), queue_ops=4) as plane:
        row = await plane.create()
        answers = await plane.log.submit_all([plane.saying(row, f"i{number}") for number in range(10)])
        refused = [answer for answer in answers if isinstance(answer, PlaneError)]
        assert len(refused) == 6
        assert all(isinstance(error, Exhausted) and error.retry_after for error in refused)
        assert (await plane.check(row)).generation == 6


async def test_no_text_with_a_nul_character_is_stored_or_breaks_a_read(plane: Plane) -> None:
    """One engine would refuse it with an error of its own, the other would keep it."""
    row = await plane.create()
    bad = plane.creation(name="b\0d")
    answers = await plane.log.submit_all([bad, plane.saying(row, "i\0"), plane.saying(row, "good")])
    assert [type(answer) for answer in answers] == [Invalid, Invalid, commands.Added]
    with pytest.raises(Invalid):
        await plane.log.submit(plane.creation(agent="\0"))
    with pytest.raises(Invalid):
        await plane.append(row, status(WORKING, message("x", "m\0")))
    with pytest.raises(Invalid):
        await plane.append(row, chunk("x", "a\0"), chunk("x", "b"))
    unknown = (await plane.append(row, chunk("x", "a\0", append=True))).refusal
    assert unknown is not None and unknown.reason == "ILLEGAL_APPEND"
    with pytest.raises(NotFound):
        await plane.log.get(ADA, "b\0d")
    with pytest.raises(NotFound):
        await plane.log.row_by_uid("\0")
    await plane.check(row)


async def test_a_change_that_the_database_refuses_harms_no_other(plane: Plane) -> None:
    """C6: a fault in one operation of a batch is its own."""
    row, other = await plane.create(), await plane.create()
    # No caller of the store makes the same uid twice.
    clash = plane.creation(name="clash", uid=row.uid)
    answers = await plane.log.submit_all([clash, await plane.item(other, chunk("x"))])
    assert isinstance(answers[0], Internal)
    assert only(commands.Appended, answers[1]).refusal is None
    await plane.check(row)
