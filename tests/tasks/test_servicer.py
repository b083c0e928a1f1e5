"""TaskStore as its callers know it, over real channels: create, append, read, list, documents, copies, rights."""

import asyncio
from collections.abc import AsyncIterable
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from tests.tasks.plane import (
    ANN,
    BOB,
    CANCELED,
    COMPLETED,
    EXECUTOR,
    INPUT_REQUIRED,
    WORKING,
    Plane,
    chunk,
    creation,
    document,
    follow_up,
    message,
    opened,
    status,
)

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import AlreadyExists, Conflict, Invalid, NotFound, PermissionDenied, Refused
from taskplane.runtime.principal import Principal
from taskplane.tasks.servicer import POLICY

AGENT = a2a.ROLE_AGENT


async def test_an_invalid_import_or_export_is_refused_by_its_field(plane: Plane) -> None:
    """C14: it is not reported as a fault of the store."""
    store = plane.store()
    await store.CreateTask(creation())
    stage = pb.StageImportRequest(context_id="..", import_id="i", number=1)
    for field, call in (
        ("generation", drained(store.ExportTask(pb.ExportTaskRequest(task_id="t", generation=-1)))),
        ("import_id", store.DropImport(pb.DropImportRequest(context_id="c", import_id="\0"))),
        ("context_id", store.DropImport(pb.DropImportRequest(import_id="i"))),
        ("expected_generation", store.DeleteTask(pb.DeleteTaskRequest(task_id="t", expected_generation=-1))),
        ("context_id", store.StageImport(stage)),
        ("context_id", store.CreateTask(creation(context_id="."))),
        ("after.uid", store.ListUncopied(uncopied_after(uid="u\0"))),
        ("after.status_at", store.ListUncopied(uncopied_after(uid="u", status_at=Timestamp(seconds=1 << 62)))),
        ("task.id", store.PutTask(pb.PutTaskRequest(task=a2a.Task(id=".", context_id="c")))),
    ):
        with pytest.raises(Invalid) as refused:
            await call
        assert set(refused.value.fields) == {field}


def uncopied_after(**place: Any) -> pb.ListUncopiedRequest:
    return pb.ListUncopiedRequest(context_id="c", after=pb.UncopiedTask(**place))


async def drained(stream: AsyncIterable[pb.ExportTaskResponse]) -> None:
    async for _ in stream:
        pass


def test_every_method_has_a_line_in_the_policy() -> None:
    services = pb.DESCRIPTOR.services_by_name.values()
    paths = {f"/{service.full_name}/{method.name}" for service in services for method in service.methods}
    assert paths == set(POLICY)


@pytest.mark.parametrize("kind", ["inprocess", "socket"])
async def test_a_created_task_is_answered_as_it_began(plane: Plane, kind: str) -> None:
    """Generation 1, to be watched from there, whatever was committed with it."""
    response = await plane.store(kind=kind).CreateTask(creation(working=True))
    record = response.record
    assert (response.created, response.fence, response.lease_ttl) == (True, 1, 60.0)
    assert (record.generation, record.state) == (1, a2a.TASK_STATE_SUBMITTED)
    assert record.task.status.state == a2a.TASK_STATE_SUBMITTED
    assert record.task.status.HasField("timestamp")
    assert (record.task.id, record.task.context_id) == (record.id, "context")
    assert record.task.history[0].task_id == record.id
    now = (await plane.store(kind=kind).GetTask(pb.GetTaskRequest(task_id=record.id))).record
    assert (now.generation, now.state, now.task.status.state) == (2, WORKING, WORKING)


async def test_a_created_task_with_more_first_changes_than_memory_keeps_is_answered_alike(plane: Plane) -> None:
    changes = [status(WORKING), *[chunk() for _ in range(400)]]
    response = await plane.store().CreateTask(creation(claim_for="p1", first_changes=changes))
    assert response.record.task.history[0].parts[0].text == "hello"
    assert not response.record.task.artifacts


async def test_a_repeated_creation_under_one_invocation_returns_the_same_task(plane: Plane) -> None:
    """C10: the executor that holds the lease gets the same fence."""
    request = creation(working=True)
    first = await plane.store().CreateTask(request)
    again = await plane.store().CreateTask(request)
    assert (again.created, again.record.uid, again.fence) == (False, first.record.uid, first.fence)
    assert not again.record.HasField("task")
    request.claim_for = "p2"
    assert (await plane.store().CreateTask(request)).fence == 0
    request.request_hash = b"o" * 32
    with pytest.raises(Refused) as refused:
        await plane.store().CreateTask(request)
    assert refused.value.reason == "KEY_REUSED"
    assert (await plane.store(BOB._replace(service=True)).CreateTask(request)).created


async def test_one_append_carries_items_of_many_tasks_and_refuses_each_by_itself(plane: Plane) -> None:
    one, two, three = [await plane.create(working=True) for _ in range(3)]
    request = pb.AppendEventsRequest(
        items=[
            pb.AppendItem(task_uid=one.uid, fence=1, number=1, changes=[chunk(), chunk()]),
            pb.AppendItem(task_uid=two.uid, fence=9, number=1, changes=[chunk()]),
            pb.AppendItem(task_uid=three.uid, fence=1, number=1, changes=[chunk(append=True)]),
            pb.AppendItem(task_uid="none", fence=1, number=1, changes=[chunk()]),
        ]
    )
    results = (await plane.store().AppendEvents(request)).results
    assert [(result.task_uid, result.refusal.reason) for result in results] == [
        (one.uid, ""),
        (two.uid, "FENCED"),
        (three.uid, "ILLEGAL_APPEND"),
        ("none", "TASK_NOT_FOUND"),
    ]
    assert (results[0].first_generation, results[0].last_generation) == (3, 4)
    assert (await plane.store().AppendEvents(request)).results[0] == results[0]


async def test_a_task_comes_with_as_much_history_as_was_asked_for(plane: Plane) -> None:
    run = await plane.create(working=True)
    await run.append(status(WORKING, message("one", AGENT)), status(WORKING, message("two", AGENT)), chunk())
    await run.append(status(WORKING, message("three", AGENT)))
    store = plane.store(ANN)
    whole = (await store.GetTask(pb.GetTaskRequest(task_id=run.id))).record.task
    assert [one.parts[0].text for one in whole.history] == ["hello", "one", "two"]
    assert whole.status.message.parts[0].text == "three"
    newest = (await store.GetTask(pb.GetTaskRequest(task_id=run.id, history_length=1))).record.task
    assert [one.parts[0].text for one in newest.history] == ["two"]
    assert not (await store.GetTask(pb.GetTaskRequest(task_id=run.id, history_length=0))).record.task.history
    listed = (await store.ListTasks(pb.ListTasksRequest(history_length=1))).records[0].task
    assert [one.parts[0].text for one in listed.history] == ["two"]
    assert not listed.artifacts
    assert (await store.ListTasks(pb.ListTasksRequest(include_artifacts=True))).records[0].task.artifacts


async def test_a_list_has_pages_and_the_total_number(plane: Plane) -> None:
    runs = [await plane.create() for _ in range(5)]
    store = plane.store(ANN)
    page = await store.ListTasks(pb.ListTasksRequest(page_size=2))
    assert (len(page.records), page.total_size, page.page_size) == (2, 5, 2)
    ids = [record.id for record in page.records]
    while page.next_page_token:
        page = await store.ListTasks(pb.ListTasksRequest(page_size=2, page_token=page.next_page_token))
        ids.extend(record.id for record in page.records)
    assert sorted(ids) == sorted(run.id for run in runs)
    with pytest.raises(Invalid) as refused:
        await store.ListTasks(pb.ListTasksRequest(page_size=1000))
    assert list(refused.value.fields) == ["page_size"]
    assert not (await plane.store(BOB).ListTasks(pb.ListTasksRequest())).records


async def test_events_can_be_listed_by_kind_and_from_either_end(plane: Plane) -> None:
    run = await plane.create(working=True)
    await run.append(chunk(), status(WORKING, message("one", AGENT)))
    store = plane.store(ANN)
    response = await store.ListEvents(pb.ListEventsRequest(task_id=run.id))
    assert [event.generation for event in response.events] == [1, 2, 3, 4]
    assert response.record.generation == 4
    speaking = await store.ListEvents(pb.ListEventsRequest(task_id=run.id, speaking=True, newest_first=True))
    assert [event.generation for event in speaking.events] == [4, 1]
    kinds = await store.ListEvents(pb.ListEventsRequest(task_id=run.id, kinds=[pb.EVENT_KIND_ARTIFACT]))
    assert [event.generation for event in kinds.events] == [3]
    after = await store.ListEvents(pb.ListEventsRequest(task_id=run.id, after_generation=1, limit=2))
    assert [event.generation for event in after.events] == [2, 3]


async def test_a_canceled_task_is_answered_whole_and_cancels_no_second_time(plane: Plane) -> None:
    run = await plane.create(working=True)
    metadata = Struct()
    metadata["why"] = "because"
    store = plane.store(ANN)
    record = (await store.CancelTask(pb.CancelTaskRequest(task_id=run.id, metadata=metadata))).record
    assert (record.state, record.task.status.state) == (CANCELED, CANCELED)
    with pytest.raises(Refused) as refused:
        await store.CancelTask(pb.CancelTaskRequest(task_id=run.id))
    assert refused.value.reason == "TERMINAL"
    event = (await store.ListEvents(pb.ListEventsRequest(task_id=run.id, newest_first=True))).events[0]
    assert event.event.status_update.metadata["why"] == "because"
    assert event.actor == "user:ann"


async def test_a_document_is_stored_whole_and_replaced_whole(plane: Plane) -> None:
    store = plane.store(ANN)
    first = await store.PutTask(pb.PutTaskRequest(task=document("doc", COMPLETED)))
    assert (first.created, first.record.generation, first.record.origin) == (True, 1, pb.ORIGIN_DOCUMENT)
    second = await store.PutTask(pb.PutTaskRequest(task=document("doc", WORKING, "two"), expected_generation=1))
    assert (second.created, second.record.generation) == (False, 2)
    assert second.record.task.artifacts[0].parts[0].text == "two"
    with pytest.raises(Conflict):
        await store.PutTask(pb.PutTaskRequest(task=document("doc"), expected_generation=1))
    with pytest.raises(AlreadyExists):
        await plane.store(BOB).PutTask(pb.PutTaskRequest(task=document("doc")))
    named = await store.PutTask(pb.PutTaskRequest(task=document()))
    assert named.record.task.id == named.record.id != ""


async def test_a_deleted_task_is_gone(plane: Plane) -> None:
    run = await plane.create(working=True)
    with pytest.raises(NotFound):
        await plane.store(BOB._replace(service=True)).DeleteTask(pb.DeleteTaskRequest(task_id=run.id))
    await plane.store(ANN._replace(service=True)).DeleteTask(pb.DeleteTaskRequest(task_id=run.id))
    with pytest.raises(NotFound):
        await plane.store(ANN).GetTask(pb.GetTaskRequest(task_id=run.id))
    assert (await run.append(chunk())).refusal.reason == "TASK_NOT_FOUND"


async def test_a_created_task_is_returned_with_the_uncopied_tasks_of_its_session(plane: Plane, url: str) -> None:
    """C6: tasks at rest with messages missing in the session; also after a restart, and none of another session."""
    run = await plane.create(working=True)
    await run.append(status(WORKING, message("said", AGENT)))
    await run.complete()
    paused = await plane.create(working=True)
    await paused.append(status(INPUT_REQUIRED, message("which?", AGENT)))
    other = await plane.create(context_id="another")
    assert not other.response.uncopied
    response = await plane.store().CreateTask(creation())
    assert [task.uid for task in response.uncopied] == [run.uid, paused.uid]
    assert [(task.copied_generation, task.message_generation) for task in response.uncopied] == [(0, 3), (0, 3)]
    listed = await plane.store().ListUncopied(pb.ListUncopiedRequest())
    assert list(listed.tasks) == list(response.uncopied)
    assert not (await plane.store(BOB).ListUncopied(pb.ListUncopiedRequest(context_id="context"))).tasks
    with pytest.raises(PermissionDenied):
        await plane.store(ANN).ListUncopied(pb.ListUncopiedRequest())
    await plane.store().MarkCopied(pb.MarkCopiedRequest(task_uid=run.uid, generation=3))
    assert [task.uid for task in (await plane.store().CreateTask(creation())).uncopied] == [paused.uid]
    await plane.store(ANN._replace(service=True)).DeleteTask(pb.DeleteTaskRequest(task_id=paused.id))
    assert not (await plane.store().CreateTask(creation())).uncopied


async def test_uncopied_tasks_are_known_after_a_restart(url: str) -> None:
    async with opened(url, lease_ttl=60.0) as plane:
        run = await plane.create(working=True)
        await run.append(status(INPUT_REQUIRED, message("which?", AGENT)))
    async with opened(url, lease_ttl=60.0) as plane:
        assert [task.uid for task in (await plane.create()).response.uncopied] == [run.uid]


async def test_a_store_that_is_alone_does_not_read_to_know_that_a_session_is_copied(url: str, engine_name: str) -> None:
    if engine_name != "sqlite":
        pytest.skip("another store process may have left something uncopied")
    async with opened(url, lease_ttl=60.0, poll_every=60.0, sweep_every=60.0) as plane:
        await plane.create()
        plane.engine.reads.clear()
        await plane.create()
        assert "uncopied" not in plane.engine.reads


async def test_calls_for_executors_are_refused_to_users(plane: Plane) -> None:
    for call in (
        plane.store(ANN).AppendEvents(pb.AppendEventsRequest()),
        plane.store(ANN).MarkCopied(pb.MarkCopiedRequest(task_uid="u", generation=1)),
    ):
        with pytest.raises(PermissionDenied):
            await call


@pytest.mark.parametrize("kind", ["inprocess", "socket"])
async def test_a_user_creates_tasks_but_takes_no_lease(plane: Plane, kind: str) -> None:
    """C8: a lease is for executors; a user who asks for one gets nothing stored, not even the turn."""
    request = creation(working=True)
    with pytest.raises(PermissionDenied) as refused:
        await plane.store(ANN, kind).CreateTask(request)
    assert (refused.value.reason, list(refused.value.fields)) == ("SERVICE_ONLY", ["claim_for"])
    assert not (await plane.store(ANN).ListTasks(pb.ListTasksRequest())).records
    request.claim_for = ""
    del request.first_changes[:]
    response = await plane.store(ANN, kind).CreateTask(request)
    assert (response.created, response.fence, response.record.owner) == (True, 0, "ann")


async def test_messages_are_added_once_and_for_the_owner_only(plane: Plane) -> None:
    run = await plane.create(working=True)
    request = follow_up(run.id)
    with pytest.raises(NotFound):
        await plane.store(BOB).AddMessage(request)
    added = await plane.store(ANN).AddMessage(request)
    assert (added.added, added.generation, added.record.input_generation) == (True, 3, 3)
    again = await plane.store(ANN).AddMessage(request)
    assert (again.added, again.generation) == (False, 3)
    refused = await run.append(status(COMPLETED), consumed=1)
    assert (refused.refusal.reason, refused.input_generation) == ("PENDING_INPUT", 3)


async def test_bad_input_is_refused_over_every_channel(plane: Plane) -> None:
    """It says which field, and nothing was changed."""
    for kind in ("inprocess", "socket"):
        with pytest.raises(Invalid) as refused:
            await plane.store(kind=kind).CreateTask(creation(context_id="a\0b"))
        assert list(refused.value.fields) == ["context_id"]
    for limit in (-1, 1001):
        with pytest.raises(Invalid) as refused:
            await plane.store().ListEvents(pb.ListEventsRequest(task_id="t", limit=limit))
        assert refused.value.fields == {"limit": "must be 1 to 1,000"}
    assert not (await plane.store().ListTasks(pb.ListTasksRequest())).records


async def test_data_that_could_never_be_read_again_is_not_stored(plane: Plane) -> None:
    deep: dict[str, object] = {}
    for _ in range(30):
        deep = {"k": deep}
    request = creation()
    json_format.ParseDict(deep, request.message.parts.add().data)
    for kind in ("inprocess", "socket"):
        with pytest.raises(Invalid) as refused:
            await plane.store(kind=kind).CreateTask(request)
        assert refused.value.reason == "TOO_DEEP"
    assert not (await plane.store().ListTasks(pb.ListTasksRequest())).records


async def test_a_tenant_sees_nothing_of_another(plane: Plane) -> None:
    run = await plane.create()
    stranger = Principal("elsewhere", "ann", "user:ann")
    with pytest.raises(NotFound):
        await plane.store(stranger).GetTask(pb.GetTaskRequest(task_id=run.id))
    with pytest.raises(NotFound):
        await anext(plane.watch(run.id, who=stranger))
    assert (await plane.store(stranger).CreateTask(creation(task_id=run.id))).created


async def test_concurrent_creations_under_one_invocation_make_one_task(plane: Plane) -> None:
    """C10."""
    request = creation(working=True)
    answers = await asyncio.gather(*(plane.store().CreateTask(request) for _ in range(50)))
    assert sum(answer.created for answer in answers) == 1
    assert len({answer.record.uid for answer in answers}) == 1
    assert {answer.fence for answer in answers} == {1}
    assert EXECUTOR.owner == answers[0].record.owner


@pytest.mark.parametrize("kind", ["inprocess", "socket"])
async def test_an_artifact_is_read_from_any_byte_on(plane: Plane, kind: str) -> None:
    """P7: a head and pieces; of another owner's there is as little as of none."""
    run = await plane.create(working=True)
    await run.chunks(4, size=600_000, each=1)
    store = plane.store(kind=kind)
    for offset, length in ((0, 2_400_000), (2_300_000, 100_000), (-5, 5), (3_000_000, 0)):
        asked = pb.ReadArtifactRequest(task_id=run.id, artifact_id="a", offset=offset)
        head, *rest = [response async for response in store.ReadArtifact(asked)]
        assert (head.head.size, head.head.form) == (2_400_000, pb.ARTIFACT_FORM_TEXT)
        assert sum(len(piece.data) for each in rest for piece in each.pieces.pieces) == length
        assert all(each.ByteSize() < 260 * 1024 for each in rest)
    reading = store.ReadArtifact(pb.ReadArtifactRequest(task_id=run.id, artifact_id="a"))
    assert (await anext(aiter(reading))).HasField("head")
    reading.cancel()
    for who, task_id in ((BOB, run.id), (EXECUTOR, "none"), (EXECUTOR, "")):
        asked = pb.ReadArtifactRequest(task_id=task_id, artifact_id="a")
        with pytest.raises((NotFound, Invalid)):
            await anext(aiter(plane.store(who, kind).ReadArtifact(asked)))
