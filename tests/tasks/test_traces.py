"""The trace of a call or a run on the rows of a task: what is stored, shown, linked and left out."""

from collections.abc import AsyncGenerator, AsyncIterable

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.support.spans import ONE, OTHER, id_of, install, links_of, trace_of
from tests.tasks.plane import COMPLETED, Plane, creation, follow_up, status

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime import tracing


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    return install(monkeypatch)


async def events(plane: Plane, task_id: str) -> list[str]:
    """The `traceparent` of each event."""
    found = await plane.store().ListEvents(pb.ListEventsRequest(task_id=task_id))
    return [event.traceparent for event in found.events]


def item(task: pb.CreateTaskResponse, traceparent: str) -> pb.AppendItem:
    return pb.AppendItem(
        task_uid=task.record.uid,
        fence=task.fence,
        number=1,
        changes=[status(COMPLETED)],
        consumed_generation=1,
        traceparent=traceparent,
    )


async def test_a_call_for_several_runs_is_linked_to_them_and_each_event_names_its_own(
    plane: Plane, exported: InMemorySpanExporter
) -> None:
    store = plane.store()
    tasks = [await store.CreateTask(creation(working=True)) for _ in range(3)]
    exported.clear()
    items = [item(task, trace) for task, trace in zip(tasks, (ONE, OTHER, "nonsense"), strict=True)]
    with tracing.within(ONE):
        await store.AppendEvents(pb.AppendEventsRequest(items=items))
    commit, call = exported.get_finished_spans()
    assert (trace_of(call), links_of(call)) == ("a" * 32, [int("d" * 16, 16)])
    assert commit.parent is not None and commit.parent.span_id == id_of(call)
    assert [(await events(plane, task.record.id))[-1] for task in tasks] == [ONE, OTHER, ""]


async def test_a_task_continues_the_trace_of_its_newest_message(plane: Plane, exported: InMemorySpanExporter) -> None:
    """Return what a run is a child of, whichever executor it is given to."""
    store = plane.store()
    with tracing.within(ONE):
        record = (await store.CreateTask(creation())).record
    assert tracing.trace_id_of(record.traceparent) == "a" * 32
    with tracing.within(OTHER):
        added = (await store.AddMessage(follow_up(record.id))).record
    assert tracing.trace_id_of(added.traceparent) == "c" * 32
    assert await events(plane, record.id) == [record.traceparent, added.traceparent]
    stream = plane.queue().Claim(pb.ClaimRequest(process_id="p1", agents=["demo"], capacity=1))
    assigned = [message.assignment.record async for message in until_assigned(stream)]
    assert [one.traceparent for one in assigned] == [added.traceparent]
    stream.cancel()


async def until_assigned(stream: AsyncIterable[pb.ClaimResponse]) -> AsyncGenerator[pb.ClaimResponse]:
    """The first response that is no hint."""
    async for message in stream:
        if message.HasField("assignment"):
            yield message
            return


async def test_an_export_has_no_trace(plane: Plane, exported: InMemorySpanExporter) -> None:
    """Traces belong to one operator, as leases belong to one store."""
    store = plane.store()
    with tracing.within(ONE):
        record = (await store.CreateTask(creation())).record
    responses = [each async for each in store.ExportTask(pb.ExportTaskRequest(task_id=record.id))]
    exported_events = [one.event for each in responses for one in each.events.events]
    assert [event.traceparent for event in exported_events] == [""]


async def test_nothing_is_stored_of_a_call_that_nobody_traces(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing.LIVE, "on", False)
    record = (await plane.store().CreateTask(creation(working=True))).record
    assert record.traceparent == ""
    assert await events(plane, record.id) == ["", ""]
