"""Retention over the wire: what a client of an old task sees, before and after its log was trimmed. C16, C4, M1."""

from collections.abc import AsyncGenerator

import pytest
from tests.conftest import Migrated
from tests.tasks.plane import (
    ANN,
    EXECUTOR,
    TERMINAL,
    Plane,
    Run,
    document,
    eventually,
    message,
    opened,
    status,
)

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import OutOfRange, PermissionDenied
from taskplane.tasks.domain.trimming import COUNTERS

MOMENT = 1e-6


@pytest.fixture
async def plane(migrated: Migrated) -> AsyncGenerator[Plane, None]:
    """A store that keeps no events of what has ended, and trims only when it is told to."""
    async with opened(await migrated("taskplane.tasks"), lease_ttl=60.0, events_ttl=MOMENT, trim_every=3600.0) as plane:
        yield plane


async def ended(plane: Plane, chunks: int = 20) -> Run:
    run = await plane.create(working=True)
    await run.chunks(chunks)
    said = message("done", a2a.ROLE_AGENT)
    result = await run.append(status(a2a.TASK_STATE_COMPLETED, said))
    await plane.store().MarkCopied(pb.MarkCopiedRequest(task_uid=run.uid, generation=result.last_generation))
    return run


async def collect(plane: Plane, *, dry_run: bool = False, kind: str = "socket") -> pb.CollectGarbageResponse:
    return await plane.store(kind=kind).CollectGarbage(pb.CollectGarbageRequest(dry_run=dry_run))


async def infos(plane: Plane) -> list[pb.TaskInfo]:
    request = pb.ListTaskInfosRequest(context_id="context")
    return list((await plane.store(ANN).ListTaskInfos(request)).infos)


async def test_an_old_task_reads_as_before_and_a_cursor_into_its_log_is_answered_with_the_way_out(
    plane: Plane,
) -> None:
    """C16, C4, M1: GetTask and the task infos are the same; a watch says from where there is no gap."""
    run, live = await ended(plane), await plane.create(working=True)
    await live.chunks(20)
    before, shown = await run.record_now(), await infos(plane)
    head = before.generation
    found = await collect(plane, dry_run=True)
    assert (found.tasks, found.events, found.more) == (1, 20, False) and found.bytes > 0
    assert await collect(plane) == found
    assert await collect(plane) == await collect(plane, dry_run=True) == pb.CollectGarbageResponse()
    assert (await run.record_now()).task == before.task
    assert await infos(plane) == shown
    for kind in ("inprocess", "socket"):
        for place in (0, 1, head - 2):
            with pytest.raises(OutOfRange) as refused:
                await anext(aiter(plane.watch(run.id, run.at(place), stop_at=TERMINAL, kind=kind)))
            assert refused.value.reason == "CURSOR_TRIMMED"
            assert refused.value.metadata["oldest_generation"] == str(head)
        told = [each async for each in plane.watch(run.id, run.at(head - 1), stop_at=TERMINAL, kind=kind)]
        assert [each.WhichOneof("response") for each in told] == ["events", "end"]
        whole = [each async for each in plane.watch(run.id, stop_at=TERMINAL, kind=kind)]
        assert whole[0].snapshot.record.task == before.task
    left = await plane.store(ANN).ListEvents(pb.ListEventsRequest(task_id=run.id, limit=1000))
    assert [event.generation for event in left.events] == [1, 2, head]
    assert len((await plane.store(ANN).ListEvents(pb.ListEventsRequest(task_id=live.id))).events) == 22


async def test_a_document_can_be_watched_from_any_place_after_its_log_was_trimmed(plane: Plane) -> None:
    """C16: a watcher from an earlier place gets the document, which has lost nothing."""
    put = await plane.store(ANN).PutTask(pb.PutTaskRequest(task=document("doc", text="0")))
    for number in range(1, COUNTERS + 20):
        await plane.store(ANN).PutTask(pb.PutTaskRequest(task=document("doc", text=str(number))))
    assert (await collect(plane)).events == 19
    cursor = f"{put.record.incarnation}-1"
    stream = plane.watch("doc", cursor, who=ANN)
    told = [await anext(aiter(stream)), await anext(aiter(stream))]
    stream.cancel()
    assert told[0].events.events[0].generation == 21
    assert told[1].snapshot.record.task.artifacts[0].parts[0].text == str(COUNTERS + 19)


async def test_the_store_trims_by_itself(migrated: Migrated) -> None:
    """C16: every `trim_every` seconds."""
    async with opened(await migrated("taskplane.tasks"), lease_ttl=60.0, events_ttl=MOMENT, trim_every=0.05) as plane:
        run = await ended(plane)

        async def left() -> int:
            return len((await plane.store(ANN).ListEvents(pb.ListEventsRequest(task_id=run.id))).events)

        await eventually(left, lambda count: count == 3)


async def test_everything_is_kept_by_default_and_before_its_time(migrated: Migrated) -> None:
    """C16: 0 keeps everything; a time that has not passed keeps what ended since."""
    url = await migrated("taskplane.tasks")
    for ttl in (0.0, 3600.0):
        async with opened(url, events_ttl=ttl) as plane:
            run = await ended(plane)
            assert await collect(plane) == await collect(plane, dry_run=True) == pb.CollectGarbageResponse()
            listed = await plane.store(ANN).ListEvents(pb.ListEventsRequest(task_id=run.id))
            assert len(listed.events) == 23


async def test_only_a_service_collects_garbage(plane: Plane) -> None:
    """S1: it concerns the tasks of all owners."""
    with pytest.raises(PermissionDenied):
        await plane.store(ANN).CollectGarbage(pb.CollectGarbageRequest())
    assert await plane.store(EXECUTOR).CollectGarbage(pb.CollectGarbageRequest()) == pb.CollectGarbageResponse()
    await plane.store().CollectGarbage(pb.CollectGarbageRequest(dry_run=True))
