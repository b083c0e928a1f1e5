"""Limits on how long a task waits for an executor, or for its user."""

import pytest
from tests.conformance.task_log import ADA, Plane, chunk, status
from tests.conformance.test_task_store_cost import plan, statements

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.task import FAILED, INPUT_REQUIRED, QUEUE, SUBMITTED, WORKING, Row

# Microseconds. SHORT is over at once, LONG never within a test.
SHORT, LONG = 1, 3_600_000_000


async def time_out(plane: Plane, row: Row) -> Row | None:
    answer = await plane.log.submit(commands.TimeOut(task_uid=row.uid))
    return answer.row if isinstance(answer, commands.Done) else None


async def overdue(plane: Plane) -> list[str]:
    return list(await plane.log.overdue(10))


async def reason(plane: Plane, row: Row) -> tuple[str, str]:
    _, task = await plane.log.get(ADA, row.id)
    return task.status.message.metadata.fields["reason"].string_value, task.status.message.parts[0].text


async def test_a_task_that_is_queued_too_long_fails(plane: Plane) -> None:
    """P9: the task names the reason, and its session gets the message. Tasks with a longer or no limit stay queued."""
    row = await plane.queued(queue_limit=2_500_000, pause_limit=LONG)
    patient, endless = await plane.queued(queue_limit=LONG), await plane.queued()
    assert not await overdue(plane) and await time_out(plane, row) is None
    late = await plane.queued(queue_limit=SHORT)
    assert await overdue(plane) == [late.uid]
    ended = await time_out(plane, late)
    assert ended is not None and (ended.state, ended.ready_at, ended.limit_at) == (FAILED, None, None)
    assert ended.copied_generation < ended.message_generation
    assert (await reason(plane, late))[0] == "QUEUE_TIMEOUT"
    assert not await overdue(plane)
    for other in (row, patient, endless):
        assert (await plane.check(other)).state == SUBMITTED
    await plane.check(late)
    assert await time_out(plane, late) is None


async def test_a_task_that_is_paused_too_long_fails(plane: Plane) -> None:
    """P9: each pause has a new limit; an answer that comes before the sweep saves the task."""
    row = await plane.create(queue_limit=LONG, pause_limit=SHORT)
    assert row.limit_at is None and not await overdue(plane)
    await plane.pause(row)
    first = (await plane.log.row_by_uid(row.uid)).limit_at
    assert first is not None and await overdue(plane) == [row.uid]
    await plane.say(row, "i2")
    answered = await plane.log.row_by_uid(row.uid)
    assert (answered.limit_at or 0) > (answered.ready_at or 0)
    assert not await overdue(plane) and await time_out(plane, row) is None
    await plane.claim(row)
    await plane.append(row, status(WORKING))
    await plane.pause(row)
    assert ((await plane.log.row_by_uid(row.uid)).limit_at or 0) > first
    assert await overdue(plane) == [row.uid]
    ended = await time_out(plane, row)
    assert ended is not None and (ended.state, ended.limit_at) == (FAILED, None)
    found, text = await reason(plane, row)
    assert found == "PAUSE_TIMEOUT" and "had no answer within" in text
    _, task = await plane.log.get(ADA, row.id)
    assert task.status.message.metadata.fields["kagent_invocation_id"].string_value == "i2"
    await plane.check(row)


async def test_a_task_that_is_claimed_before_it_times_out_keeps_running(plane: Plane) -> None:
    """P9: also if a sweep has found it already."""
    row = await plane.queued(queue_limit=SHORT)
    assert await overdue(plane) == [row.uid]
    assert await plane.claim(row) is not None
    assert not await overdue(plane) and await time_out(plane, row) is None
    assert (await plane.check(row)).state == SUBMITTED


async def test_the_wait_for_earlier_tasks_of_a_session_counts_as_queue_time(plane: Plane) -> None:
    """P9: the back-off before the next attempt counts as queue time, too."""
    first = await plane.create()
    second = await plane.create(strategy=QUEUE, claim_for="", changes=[], queue_limit=SHORT)
    assert await overdue(plane) == [second.uid]
    await time_out(plane, second)
    assert (await reason(plane, second))[0] == "QUEUE_TIMEOUT"
    lost = await plane.create(on_orphan=int(pb.ON_ORPHAN_RERUN), queue_limit=SHORT, context_id="c2")
    await plane.append(lost, chunk("x"))
    await plane.orphan(lost)
    await plane.claim(lost)
    await plane.append(lost, chunk("x"))
    # Backing off for a second.
    queued = await plane.orphan(lost)
    assert queued is not None and (queued.ready_at or 0) > (queued.limit_at or 0) > 0
    assert await overdue(plane) == [lost.uid]
    assert await time_out(plane, lost) is not None
    assert (await plane.check(first)).state == WORKING
    await plane.check(lost)


@pytest.mark.parametrize("state", [SUBMITTED, INPUT_REQUIRED])
async def test_the_sweep_does_not_find_a_canceled_task(plane: Plane, state: int) -> None:
    """C7: queued or paused."""
    row = await plane.queued(queue_limit=SHORT, pause_limit=SHORT)
    if state == INPUT_REQUIRED:
        await plane.claim(row)
        await plane.append(row, status(WORKING))
        await plane.pause(row)
    assert await overdue(plane) == [row.uid]
    await plane.cancel(row)
    assert not await overdue(plane) and await time_out(plane, row) is None


async def test_the_sweep_reads_its_index_only(plane: Plane) -> None:
    """C13: the query uses the index of tasks with a limit, so other tasks cost nothing."""
    await plane.queued(queue_limit=SHORT)
    with statements() as seen:
        await overdue(plane)
    (query,) = seen
    shown = await plane.engine.write(plan, *query)
    assert "task_limited" in shown and "Seq Scan" not in shown and "SCAN task" not in shown, shown
