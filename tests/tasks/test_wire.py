"""Conversion of rows and events to messages, and of requests to operations."""

from tests.tasks.plane import WORKING, creation, message, status

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import PlaneError, Refused
from taskplane.tasks import wire
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.changes import read_message
from taskplane.tasks.domain.commands import Found, Write
from taskplane.tasks.domain.decide import decide
from taskplane.tasks.domain.task import Event, Row, Scope
from taskplane.tasks.wire import read_changes

SCOPE = Scope(tenant="tenant", owner="ann", actor="user:ann")
NOW = 1_700_000_000_123_456


def created(**fields: object) -> Write:
    """Return the task that the rules make of a request, carried over the wire."""
    request = creation(**{"working": True, **fields})
    message_, changes = read_message(request.message), read_changes(request.first_changes, "first_changes")
    operation = wire.create(request, SCOPE, message_, changes, uid="uid", salt="salt", task_id="made", lease_until=NOW)
    write = decide(Found(row=None), operation, NOW)
    assert isinstance(write, Write)
    return write


def test_a_record_shows_every_column_that_it_names() -> None:
    row = created(on_orphan=pb.ON_ORPHAN_RERUN, max_attempts=7).row
    record = wire.Wire("epoch").record(row)
    shown = {field.name for field in pb.TaskRecord.DESCRIPTOR.fields} & set(Row._fields)
    for name in shown - {"origin", "status_at", "created_at", "updated_at"}:
        assert getattr(record, name) == (getattr(row, name) or type(getattr(record, name))()), name
    assert record.origin == pb.ORIGIN_MANAGED
    assert record.created_at.ToMicroseconds() == record.status_at.ToMicroseconds() == NOW
    assert not record.HasField("task")


def test_a_cursor_names_the_row_the_epoch_and_the_generation() -> None:
    row = created().row
    here, restored = wire.Wire("one"), wire.Wire("two")
    assert here.cursor(row, 7) == f"{here.incarnation(row)}-7"
    assert here.incarnation(row) != restored.incarnation(row)
    assert here.incarnation(row) != here.incarnation(row._replace(salt="other"))


def test_an_event_is_shown_with_its_payload() -> None:
    first, second = created().events
    shown = wire.event(first)
    assert (shown.generation, shown.kind, shown.speaks) == (1, pb.EVENT_KIND_CREATED, True)
    assert shown.created_at.ToMicroseconds() == NOW
    assert shown.event.task.history[0].parts[0].text == "hello"
    assert wire.event(second).event.status_update.status.state == WORKING


def test_an_event_without_payload_has_no_event() -> None:
    counter = Event("uid", 3, None, None, 0, 0, pb.EVENT_KIND_REPLACED, 0, "a", None, None, None, False, b"", NOW, None)
    assert not wire.event(counter).HasField("event")


def test_trimming_keeps_the_newest_messages() -> None:
    task = a2a.Task(history=[message(str(index)) for index in range(5)], artifacts=[a2a.Artifact(artifact_id="a")])
    for length, texts in ((None, "01234"), (9, "01234"), (2, "34"), (0, "")):
        kept = a2a.Task()
        kept.CopyFrom(task)
        wire.trim(kept, length, artifacts=length is None)
        assert "".join(one.parts[0].text for one in kept.history) == texts
        assert bool(kept.artifacts) is (length is None)


def test_a_refused_item_has_its_reason_and_an_error_of_one_item_affects_no_other() -> None:

    def result_of(answer: commands.Appended | PlaneError) -> pb.AppendResult:
        result = pb.AppendResult()
        wire.append_result(result, commands.Append(actor="a", task_uid="uid", fence=1, number=1), answer)
        assert result.task_uid == "uid"
        return result

    pending = Refused("there is a message", reason="PENDING_INPUT")
    appended = commands.Appended(first_generation=0, last_generation=0, input_generation=4, refusal=pending)
    result = result_of(appended)
    assert (result.refusal.reason, result.input_generation) == ("PENDING_INPUT", 4)
    assert result_of(pending).refusal.message == "there is a message"
    fine = commands.Appended(first_generation=2, last_generation=3, input_generation=1)
    assert not result_of(fine).HasField("refusal")


def test_defaults_are_those_of_the_contract() -> None:
    request = creation()
    operation = wire.create(
        request, SCOPE, read_message(request.message), [], uid="u", salt="s", task_id="made", lease_until=0
    )
    assert (operation.task_id, operation.on_orphan, operation.max_attempts) == ("made", pb.ON_ORPHAN_FAIL, 3)
    assert wire.task_filter(pb.ListTasksRequest()).page_size == 50
    assert wire.event_filter(pb.ListEventsRequest()).limit == 100
    put = wire.put(pb.PutTaskRequest(task=a2a.Task(context_id="c")), SCOPE, uid="u", salt="s", task_id="made")
    assert put.task.id == "made"


def test_a_record_of_a_new_task_is_as_it_was_at_generation_one() -> None:
    write = created()
    assert (write.row.generation, write.row.state) == (2, WORKING)
    record = pb.TaskRecord()
    wire.Wire("epoch").fill_created(record, write.row, write.document or b"")
    assert (record.generation, record.state) == (1, a2a.TASK_STATE_SUBMITTED)
    assert record.status_at == record.updated_at == record.created_at
    assert record.task == a2a.StreamResponse.FromString(write.events[0].payload).task


def test_requests_become_operations_of_the_caller() -> None:
    cancel = wire.cancel(pb.CancelTaskRequest(task_id="t"), SCOPE)
    assert cancel.event_metadata is None
    changes = [status(WORKING)]
    items = wire.append(pb.AppendEventsRequest(items=[pb.AppendItem(task_uid="u", changes=changes)]), "actor")
    assert [(item.task_uid, item.actor, len(item.changes)) for item in items] == [("u", "actor", 1)]
    request = pb.AddMessageRequest(task_id="t", expected_context="c", message=message(), expected_generation=3)
    added = wire.add_message(request, SCOPE, read_message(request.message))
    assert (added.task_id, added.expected_context, added.expected_generation, added.scope) == ("t", "c", 3, SCOPE)
