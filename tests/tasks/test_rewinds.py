"""MarkSuperseded as its callers know it: what a rewind does to tasks, to lists of them and to who watches them."""

import pytest
from tests.tasks.plane import ANN, CANCELED, COMPLETED, EXECUTOR, Plane, creation, follow_up

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Invalid, PermissionDenied, Refused


def rewind(seq: int, *cut: str) -> pb.MarkSupersededRequest:
    return pb.MarkSupersededRequest(context_id="context", steered_seq=seq, cut_invocation_ids=cut)


@pytest.mark.parametrize("kind", ["inprocess", "socket"])
async def test_a_rewind_hides_tasks_and_an_undo_shows_them_again(plane: Plane, kind: str) -> None:
    """R4, R8: kept for audit, left out of the default listing, asked for by name or with `include_superseded`."""
    store = plane.store(kind=kind)
    kept = await plane.create(working=True, invocation_id="i1")
    cut = await plane.create(working=True, invocation_id="i2")
    (record,) = (await store.MarkSuperseded(rewind(4, "i2"))).records
    assert (record.id, record.superseded, record.state) == (cut.id, True, CANCELED)
    found = (await store.GetTask(pb.GetTaskRequest(task_id=cut.id))).record
    assert found.superseded and found.task.status.state == CANCELED
    listed = await store.ListTasks(pb.ListTasksRequest(context_id="context"))
    assert [each.id for each in listed.records] == [kept.id] and listed.total_size == 1
    both = await store.ListTasks(pb.ListTasksRequest(context_id="context", include_superseded=True))
    assert {each.id: each.superseded for each in both.records} == {kept.id: False, cut.id: True}
    events = (await store.ListEvents(pb.ListEventsRequest(task_id=cut.id))).events
    assert (events[-1].kind, events[-1].HasField("event")) == (pb.EVENT_KIND_SUPERSEDED, False)
    with pytest.raises(Refused) as refused:
        await store.AddMessage(follow_up(cut.id))
    assert refused.value.reason == "SUPERSEDED"
    assert not (await store.MarkSuperseded(rewind(4))).records
    (record,) = (await store.MarkSuperseded(rewind(5))).records
    assert not record.superseded and record.state == CANCELED
    assert len((await store.ListTasks(pb.ListTasksRequest(context_id="context"))).records) == 2


async def test_a_watcher_of_a_cut_task_ends_as_with_any_cancel(plane: Plane) -> None:
    """R4: it sees the end, and a later one the same; the marks are in the log for who goes on behind the end."""
    run = await plane.create(working=True, invocation_id="i1")
    live = plane.watch(run.id, run.at(1), stop_at=[CANCELED])
    await anext(live)
    await plane.store().MarkSuperseded(rewind(1, "i1"))
    ends = [[each async for each in live][-1].end]
    for cursor in ("", run.at(1), run.at(3)):
        responses = [each async for each in plane.watch(run.id, cursor, stop_at=[CANCELED])]
        ends.append(responses[-1].end)
    assert {end.record.generation for end in ends} == {4}
    assert {end.record.task.status.state for end in ends} == {CANCELED}
    assert [end.cursor for end in ends] == [run.at(3), run.at(4), run.at(3), run.at(4)]


async def test_a_rewind_is_visible_after_an_earlier_read(plane: Plane) -> None:
    """The cached task in the store follows the rewind."""
    run = await plane.create(working=True, invocation_id="i1")
    await run.complete()
    await plane.store().MarkSuperseded(rewind(1, "i1"))
    (first,) = [each async for each in plane.watch(run.id, stop_at=[COMPLETED]) if each.HasField("snapshot")]
    assert first.snapshot.record.superseded and first.snapshot.record.generation == 4
    again = await plane.store().CreateTask(creation(working=True, invocation_id="i1"))
    assert not again.created and again.record.superseded


async def test_a_rewind_is_for_executors_only_and_requires_its_fields(plane: Plane) -> None:
    with pytest.raises(PermissionDenied):
        await plane.store(ANN).MarkSuperseded(rewind(1))
    for request in (rewind(0), pb.MarkSupersededRequest(steered_seq=1), rewind(1, "")):
        with pytest.raises(Invalid):
            await plane.store(EXECUTOR).MarkSuperseded(request)
