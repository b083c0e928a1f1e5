"""The tasks of a session over real channels: infos, summaries, figures."""

import pytest
from tests.tasks.plane import (
    ANN,
    BOB,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    WORKING,
    Plane,
    document,
    message,
    status,
)

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Invalid

SUBMITTED = a2a.TASK_STATE_SUBMITTED


@pytest.mark.parametrize("kind", ["inprocess", "socket"])
async def test_a_session_lists_its_tasks_with_their_states_and_times(plane: Plane, kind: str) -> None:
    """M1, M4, M9: two messages in sequence are two tasks, and both stay listed, oldest first."""
    store = plane.store(ANN, kind)
    done = await plane.create(working=True, invocation_id="i1")
    await done.complete()
    failed = await plane.create(working=True)
    await failed.append(status(FAILED, message("the disk is full", a2a.ROLE_AGENT)))
    await plane.store().PutTask(pb.PutTaskRequest(task=document("doc")))
    infos = (await store.ListTaskInfos(pb.ListTaskInfosRequest(context_id="context"))).infos
    assert [(info.task_id, info.state, info.error) for info in infos] == [
        (done.id, COMPLETED, ""),
        (failed.id, FAILED, "the disk is full"),
        ("doc", WORKING, ""),
    ]
    first, _, last = infos
    assert (first.context_id, first.agent, first.invocation_id) == ("context", "demo", "i1")
    assert (first.origin, last.origin) == (pb.ORIGIN_MANAGED, pb.ORIGIN_DOCUMENT)
    assert [change.state for change in first.changes] == [SUBMITTED, WORKING, COMPLETED]
    record = await done.record_now()
    assert first.changes[0].at == first.created_at == record.created_at
    assert first.changes[-1].at == first.completed_at == record.status_at
    assert first.generation == record.generation and not last.HasField("completed_at")


async def test_the_latest_incomplete_task_is_found_if_there_is_one(plane: Plane) -> None:
    """M3, M5, M9: otherwise the answer is empty and not an error."""
    request = pb.ListTaskInfosRequest(context_id="context", latest_incomplete=True)
    assert not (await plane.store(ANN).ListTaskInfos(request)).infos
    run = await plane.create(working=True)
    await run.append(status(INPUT_REQUIRED, message("which?", a2a.ROLE_AGENT)))
    (info,) = (await plane.store(ANN).ListTaskInfos(request)).infos
    assert (info.task_id, info.state) == (run.id, INPUT_REQUIRED)


async def test_an_unknown_session_is_empty_and_anothers_is_unknown(plane: Plane) -> None:
    """M6: never an error."""
    await plane.create()
    assert not (await plane.store(ANN).ListTaskInfos(pb.ListTaskInfosRequest(context_id="none"))).infos
    assert not (await plane.store(BOB).ListTaskInfos(pb.ListTaskInfosRequest(context_id="context"))).infos
    figures = await plane.store(BOB).GetSessionFigures(pb.GetSessionFiguresRequest(context_id="context"))
    assert figures == pb.GetSessionFiguresResponse()


async def test_sessions_are_summed_up_in_the_order_asked(plane: Plane) -> None:
    """T9: one call for a page of sessions."""
    for context in ("a", "b", "b"):
        await plane.create(context_id=context, working=True)
    run = await plane.create(context_id="b", working=True)
    await run.complete()
    asked = pb.SummarizeSessionsRequest(context_ids=["b", "none", "a"])
    found = (await plane.store(ANN).SummarizeSessions(asked)).sessions
    assert [(each.context_id, each.total, each.last_state) for each in found] == [
        ("b", 3, COMPLETED),
        ("none", 0, 0),
        ("a", 1, WORKING),
    ]
    assert {each.state: each.count for each in found[0].states} == {WORKING: 2, COMPLETED: 1}
    assert found[0].updated_at == (await run.record_now()).updated_at and not found[1].HasField("updated_at")


async def test_a_session_has_figures(plane: Plane) -> None:
    """M7."""
    run = await plane.create(working=True)
    await run.complete()
    await plane.create(working=True)
    found = await plane.store(ANN).GetSessionFigures(pb.GetSessionFiguresRequest(context_id="context"))
    assert (found.total, found.error_rate) == (2, 0.0)
    assert 0 < found.durations.min == found.durations.median == found.durations.max
    assert {each.state for each in found.times} == {SUBMITTED, WORKING}


async def test_an_invalid_list_request_is_refused(plane: Plane) -> None:
    store = plane.store(ANN)
    for size in (-1, 1001):
        with pytest.raises(Invalid) as bad:
            await store.ListTaskInfos(pb.ListTaskInfosRequest(context_id="context", page_size=size))
        assert list(bad.value.fields) == ["page_size"]
    with pytest.raises(Invalid) as bad:
        await store.ListTaskInfos(pb.ListTaskInfosRequest(context_id="context", page_token="x"))
    assert bad.value.reason == "BAD_PAGE_TOKEN"
    with pytest.raises(Invalid):
        await store.SummarizeSessions(pb.SummarizeSessionsRequest(context_ids=["x"] * 1001))
    with pytest.raises(Invalid):
        await store.GetSessionFigures(pb.GetSessionFiguresRequest())
