"""What the store keeps of a turn besides its task, over real channels: for services only, and past every watcher."""

import pytest
from google.protobuf.struct_pb2 import Struct
from tests.conftest import Migrated
from tests.tasks.plane import (
    ANN,
    COMPLETED,
    EXECUTOR,
    FAILED,
    INPUT_REQUIRED,
    TERMINAL,
    WORKING,
    Plane,
    chunk,
    creation,
    follow_up,
    message,
    opened,
    status,
)

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Invalid
from taskplane.runtime.principal import Principal

OPTIONS = pb.TurnOptions(accepted_output_modes=["text/plain"], extensions=["urn:x"])


def checkpoint(data: bytes = b"secret") -> pb.Change:
    return pb.Change(checkpoint=data)


def status_text(text: str) -> pb.Change:
    said = message(text, a2a.ROLE_AGENT)
    return pb.Change(status_text=a2a.TaskStatusUpdateEvent(status=a2a.TaskStatus(state=WORKING, message=said)))


async def events(plane: Plane, task_id: str, who: Principal = EXECUTOR) -> list[pb.Event]:
    return list((await plane.store(who).ListEvents(pb.ListEventsRequest(task_id=task_id))).events)


@pytest.mark.parametrize("kind", ["inprocess", "socket"])
async def test_options_and_checkpoints_are_for_services_only(plane: Plane, kind: str) -> None:
    """C9, W18: the executor of the task reads them. Its owner does not, by any read of the log."""
    run = await plane.create(working=True, options=OPTIONS)
    await run.append(checkpoint(), status(INPUT_REQUIRED))
    more = follow_up(run.id)
    more.options.metadata.update({"k": "v"})
    answered = await plane.store(ANN, kind).AddMessage(more)
    assert answered.record.checkpoint_generation == 3
    found = await events(plane, run.id)
    assert [each.kind for each in found] == [
        pb.EVENT_KIND_CREATED,
        pb.EVENT_KIND_STATUS,
        pb.EVENT_KIND_CHECKPOINT,
        pb.EVENT_KIND_STATUS,
        pb.EVENT_KIND_MESSAGE,
    ]
    assert (found[0].options, found[2].checkpoint, found[4].options) == (OPTIONS, b"secret", more.options)
    assert not found[2].HasField("event")
    shown = await events(plane, run.id, ANN)
    await plane.store(ANN).CancelTask(pb.CancelTaskRequest(task_id=run.id))
    async for response in plane.watch(run.id, run.at(0), stop_at=TERMINAL, kind=kind):
        shown += response.events.events
    async for exported in plane.store(ANN, kind).ExportTask(pb.ExportTaskRequest(task_id=run.id)):
        shown += [each.event for each in exported.events.events]
    assert len(shown) == 5 + 6 + 6
    assert not [each for each in shown if each.HasField("options") or each.checkpoint]


async def test_a_watch_skips_events_that_clients_do_not_see(plane: Plane) -> None:
    """C1, C3: the generations have no gap, and a cursor may be at such an event."""
    run = await plane.create(working=True)
    await run.append(status_text("Reading"), checkpoint(), chunk(), checkpoint())
    await run.append(status(COMPLETED, message("done", a2a.ROLE_AGENT)))
    seen: list[pb.Event] = []
    async for response in plane.watch(run.id, run.at(0), stop_at=TERMINAL, kind="socket", who=ANN):
        seen += response.events.events
    assert [each.generation for each in seen] == list(range(1, 8))
    assert [each.event.WhichOneof("payload") for each in seen] == [
        "task",
        "status_update",
        "status_update",
        None,
        "artifact_update",
        None,
        "status_update",
    ]
    rest: list[int] = []
    async for response in plane.watch(run.id, run.at(6), stop_at=TERMINAL):
        rest += [each.generation for each in response.events.events]
    assert rest == [7]


async def test_options_nested_too_deeply_and_limits_that_are_none_are_refused(plane: Plane) -> None:
    """C14: before anything is stored."""
    deep = Struct()
    inner = deep
    for _ in range(60):
        inner = inner.fields["x"].struct_value
    run = await plane.create(working=True)
    more = follow_up(run.id)
    more.options.metadata.CopyFrom(deep)
    with pytest.raises(Invalid) as refused:
        await plane.store().AddMessage(more)
    assert refused.value.reason == "TOO_DEEP"
    for field in ("queue_limit", "pause_limit"):
        for value in (-1.0, float("nan"), float("inf"), 1e10):
            with pytest.raises(Invalid) as refused:
                await plane.store().CreateTask(creation(**{field: value}))
            assert list(refused.value.fields) == [field]


async def test_tasks_that_wait_too_long_are_ended_by_the_sweep(migrated: Migrated) -> None:
    """P9: by the limits of the settings, or by their own ones; those that run are not."""
    url = await migrated("taskplane.tasks")
    async with opened(url, queue_limit=0.01, pause_limit=3600.0) as plane:
        queued = await plane.create()
        patient = await plane.create(queue_limit=3600.0)
        paused = await plane.create(working=True, pause_limit=0.01)
        asked = await plane.create(working=True)
        for run in (paused, asked):
            await run.append(status(INPUT_REQUIRED, message("?", a2a.ROLE_AGENT)))
        for run, reason in ((queued, "QUEUE_TIMEOUT"), (paused, "PAUSE_TIMEOUT")):
            async for response in plane.watch(run.id, stop_at=TERMINAL, end_only=True):
                record = response.end.record
                if response.HasField("end"):
                    assert record.state == FAILED
                    assert record.task.status.message.metadata["reason"] == reason
        assert (await patient.record_now()).state == a2a.TASK_STATE_SUBMITTED
        assert (await asked.record_now()).state == INPUT_REQUIRED
