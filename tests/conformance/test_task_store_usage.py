"""Figures of runs: kept until a run ends, and part of the event that ends it, whoever writes that."""

import pytest
from tests.conformance.task_log import ADA, Plane, message, status

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import USAGE
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.json_values import to_dict
from taskplane.tasks.domain.task import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, SUBMITTED, Row
from taskplane.tasks.wire import append as read_items


def told(**figures: float) -> bytes | None:
    """Figures as an item of an executor brings them."""
    item = pb.AppendItem(task_uid="any", usage=figures)
    return read_items(pb.AppendEventsRequest(items=[item]), "agent:demo")[0].usage


async def told_by_events(plane: Plane, row: Row) -> list[tuple[int, object]]:
    """The states with which events have figures, and the figures."""
    updates = [a2a.StreamResponse.FromString(event.payload).status_update for event in await plane.all_events(row)]
    return [
        (int(update.status.state), to_dict(update.metadata)[USAGE])
        for update in updates
        if USAGE in update.metadata.fields
    ]


async def of_task(plane: Plane, row: Row) -> object:
    """The figures of the task, which is what its events say."""
    await plane.check(row)
    _, task = await plane.log.get(ADA, row.id)
    return to_dict(task.metadata).get(USAGE)


@pytest.mark.parametrize("how", ["cancel", "rewind"])
async def test_a_cancel_tells_what_its_run_has_used(plane: Plane, how: str) -> None:
    """P7, P8: without an event until then, by the newest sums."""
    row = await plane.create()
    head = (await plane.log.row_by_uid(row.uid)).generation
    first = await plane.append(row, usage=told(tokens=2))
    assert (first.first_generation, first.last_generation) == (0, 0)
    await plane.append(row, usage=told(tokens=5, cost=0.5))
    assert (await plane.log.row_by_uid(row.uid)).generation == head
    if how == "cancel":
        await plane.cancel(row)
    else:
        await plane.mark(1, f"{row.id}-i1")
    assert await told_by_events(plane, row) == [(CANCELED, {"tokens": 5, "cost": 0.5})]
    assert await of_task(plane, row) == {"tokens": 5, "cost": 0.5}


async def test_a_run_whose_process_is_lost_has_used_what_it_told(plane: Plane) -> None:
    """P7, P9, C9: whether the task fails or runs again, whose figures come on top."""
    failing = await plane.create()
    rerun = await plane.create(on_orphan=int(pb.ON_ORPHAN_RERUN))
    for row in (failing, rerun):
        await plane.append(row, status(a2a.TASK_STATE_WORKING, message("so far", "m-1")), usage=told(tokens=5))
        await plane.orphan(row)
    assert await told_by_events(plane, failing) == [(FAILED, {"tokens": 5})]
    assert await of_task(plane, failing) == {"tokens": 5}
    await plane.claim(rerun)
    await plane.append(rerun, status(a2a.TASK_STATE_WORKING), usage=told(tokens=3))
    await plane.complete(rerun)
    assert await told_by_events(plane, rerun) == [(SUBMITTED, {"tokens": 5}), (COMPLETED, {"tokens": 3})]
    assert await of_task(plane, rerun) == {"tokens": 8}


@pytest.mark.parametrize("policy", [pb.ON_ORPHAN_FAIL, pb.ON_ORPHAN_RERUN, pb.ON_ORPHAN_RESUME])
async def test_a_lost_run_that_told_nothing_but_figures_has_used_them(plane: Plane, policy: int) -> None:
    """P7, P9, C9: it had begun, so its policy holds, and the figures of the next run come on top."""
    row = await plane.queued(on_orphan=int(policy))
    await plane.claim(row)
    await plane.append(row, usage=told(tokens=5))
    await plane.orphan(row)
    if policy == pb.ON_ORPHAN_FAIL:
        assert await told_by_events(plane, row) == [(FAILED, {"tokens": 5})]
        return
    await plane.claim(row)
    await plane.append(row, status(a2a.TASK_STATE_WORKING), usage=told(tokens=3))
    await plane.complete(row)
    assert await told_by_events(plane, row) == [(SUBMITTED, {"tokens": 5}), (COMPLETED, {"tokens": 3})]
    assert await of_task(plane, row) == {"tokens": 8}


@pytest.mark.parametrize("where", ["text", "metadata of the message", "value", "key below"])
async def test_figures_are_told_whatever_the_last_message_says(plane: Plane, where: str) -> None:
    """P7: a text that names the metadata of figures, such as one that a user asked for, is not figures."""
    row = await plane.create()
    ended = status(COMPLETED, message(USAGE if where == "text" else "done", "m-2"))
    if where == "metadata of the message":
        ended.status.status.message.metadata.update({USAGE: {"tokens": 7}})
    elif where == "value":
        ended.status.metadata.update({"about": USAGE})
    elif where == "key below":
        ended.status.metadata.update({"about": {USAGE: {"tokens": 7}}})
    await plane.append(row, ended, usage=told(tokens=5), consumed_generation=1)
    assert await told_by_events(plane, row) == [(COMPLETED, {"tokens": 5})]
    assert await of_task(plane, row) == {"tokens": 5}


async def test_figures_are_counted_once(plane: Plane) -> None:
    """P7: with the pause, and not again with the cancel that follows; and not where the run ends with figures of its
    own, as older executors do."""
    paused, own = await plane.create(), await plane.create()
    await plane.append(paused, usage=told(tokens=5))
    await plane.pause(paused)
    await plane.cancel(paused)
    assert await told_by_events(plane, paused) == [(INPUT_REQUIRED, {"tokens": 5})]
    ended = status(COMPLETED, message("done", "m-2"))
    ended.status.metadata.update({USAGE: {"tokens": 7}})
    await plane.append(own, ended, usage=told(tokens=5), consumed_generation=1)
    for row, tokens in ((paused, 5), (own, 7)):
        assert await of_task(plane, row) == {"tokens": tokens}
