"""Bad input is refused by name, before anything is done about it."""

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct, Value
from tests.tasks.plane import HASH, WORKING, chunk, creation, document, message, status

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Invalid
from taskplane.tasks import request_checks, wire
from taskplane.tasks.domain.changes import read_message
from taskplane.tasks.wire import read_changes

USER = a2a.ROLE_USER


def said(**fields: Any) -> a2a.Message:
    values: dict[str, Any] = {"message_id": "m", "role": USER, "parts": [a2a.Part(text="hi")]}
    return a2a.Message(**{**values, **fields})


def item(**fields: Any) -> pb.AppendItem:
    values: dict[str, Any] = {"task_uid": "u", "fence": 1, "number": 1}
    return pb.AppendItem(**{**values, **fields})


def adding(**fields: Any) -> pb.AddMessageRequest:
    values: dict[str, Any] = {"task_id": "t", "invocation_id": "i", "request_hash": HASH, "message": said()}
    return pb.AddMessageRequest(**{**values, **fields})


def create(request: pb.CreateTaskRequest) -> None:
    request_checks.create(request, read_message(request.message), read_changes(request.first_changes, "first_changes"))


def append(request: pb.AppendEventsRequest) -> None:
    request_checks.append(wire.append(request, "executor"))


def add_message(request: pb.AddMessageRequest) -> None:
    request_checks.add_message(request, read_message(request.message))


BAD: list[tuple[Callable[[Any], None], Any, str]] = [
    (create, creation(invocation_id=""), "invocation_id"),
    (create, creation(invocation_id="x" * 256), "invocation_id"),
    (create, creation(context_id=""), "context_id"),
    (create, creation(context_id="a\0b"), "context_id"),
    (create, creation(context_id="a\nb"), "context_id"),
    (create, creation(agent=""), "agent"),
    (create, creation(task_id="\x7f"), "task_id"),
    (create, creation(claim_for="p" * 256), "claim_for"),
    (create, creation(request_hash=b"short"), "request_hash"),
    (create, creation(on_orphan=9), "on_orphan"),
    (create, creation(max_attempts=-1), "max_attempts"),
    (create, creation(first_changes=[status(WORKING)]), "claim_for"),
    (create, creation(claim_for="p", first_changes=[pb.Change()]), "first_changes[0]"),
    (create, creation(message=said(message_id="")), "message.message_id"),
    (create, creation(message=said(role=0)), "message.role"),
    (create, creation(message=said(role=7)), "message.role"),
    (create, creation(message=said(parts=[])), "message.parts"),
    (create, creation(message=said(parts=[a2a.Part()])), "message.parts[0]"),
    (create, creation(message=said(parts=[a2a.Part(text="a\0")])), "message.parts[0].text"),
    (append, pb.AppendEventsRequest(items=[item(task_uid="")]), "items[0].task_uid"),
    (append, pb.AppendEventsRequest(items=[item(), item()]), "items"),
    (append, pb.AppendEventsRequest(items=[item(changes=[chunk()] * 1001)]), "items"),
    (append, pb.AppendEventsRequest(items=[item(changes=[pb.Change()])]), "items[0].changes[0]"),
    (append, pb.AppendEventsRequest(items=[item(consumed_generation=-1)]), "items[0].consumed_generation"),
    (
        append,
        pb.AppendEventsRequest(items=[item(changes=[status(WORKING, message("\0"))])]),
        "items[0].changes[0].status.message.parts[0].text",
    ),
    (add_message, adding(task_id=""), "task_id"),
    (add_message, adding(invocation_id=""), "invocation_id"),
    (add_message, adding(expected_context="\0"), "expected_context"),
    (add_message, adding(expected_generation=-1), "expected_generation"),
    (add_message, adding(message=said(parts=[])), "message.parts"),
    (request_checks.check, pb.WatchTaskRequest(), "task_id"),
    (request_checks.check, pb.WatchTaskRequest(task_id="t", stop_at=[77]), "stop_at"),  # type: ignore[list-item]
    (request_checks.check, pb.WatchTaskRequest(task_id="t", stop_at=[0]), "stop_at"),  # type: ignore[list-item]
    (request_checks.check, pb.GetTaskRequest(), "task_id"),
    (request_checks.check, pb.GetTaskRequest(task_id="t", history_length=-1), "history_length"),
    (request_checks.list_tasks, pb.ListTasksRequest(state=99), "state"),  # type: ignore[arg-type]
    (request_checks.list_tasks, pb.ListTasksRequest(order=99), "order"),  # type: ignore[arg-type]
    (request_checks.list_tasks, pb.ListTasksRequest(history_length=-1), "history_length"),
    (request_checks.check, pb.ListEventsRequest(task_id="t", kinds=[99]), "kinds"),  # type: ignore[list-item]
    (request_checks.check, pb.ListEventsRequest(task_id="t", after_generation=-1), "after_generation"),
    (request_checks.cancel, pb.CancelTaskRequest(), "task_id"),
    (request_checks.put, pb.PutTaskRequest(task=a2a.Task()), "task.context_id"),
    (request_checks.put, pb.PutTaskRequest(task=document("a\0")), "task.id"),
    (request_checks.put, pb.PutTaskRequest(task=document(text="\0")), "task.history[0].parts[0].text"),
    (request_checks.put, pb.PutTaskRequest(task=document(), expected_generation=-1), "expected_generation"),
    (request_checks.list_uncopied, pb.ListUncopiedRequest(limit=1001), "limit"),
    (request_checks.check, pb.MarkCopiedRequest(generation=1), "task_uid"),
    (request_checks.check, pb.MarkCopiedRequest(task_uid="u"), "generation"),
    (request_checks.check, pb.ClaimRequest(), "process_id"),
    (request_checks.check, pb.ClaimRequest(process_id="p", capacity=-1), "capacity"),
    (request_checks.check, pb.ClaimRequest(process_id="p", agents=["\0"]), "agents[0]"),
    (request_checks.check, pb.RenewRequest(leases=[pb.Lease(task_uid="u")]), "process_id"),
    (request_checks.check, pb.ReleaseRequest(process_id="p", leases=[pb.Lease()]), "leases[0].task_uid"),
]


@pytest.mark.parametrize(("check", "request_", "field"), BAD, ids=[f"{c.__name__}-{f}" for c, _, f in BAD])
def test_a_bad_request_is_refused_naming_the_field(check: Callable[[Any], None], request_: Any, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        check(request_)
    assert field in refused.value.fields
    assert field in refused.value.message


def test_good_requests_pass() -> None:
    create(creation(working=True, metadata=nested(3).struct_value))
    append(pb.AppendEventsRequest(items=[item(changes=[chunk()] * 1000)]))
    append(pb.AppendEventsRequest())
    add_message(adding())
    request_checks.put(pb.PutTaskRequest(task=document()))
    request_checks.list_tasks(pb.ListTasksRequest(page_size=100, state=WORKING))
    request_checks.check(pb.ListEventsRequest(task_id="t", kinds=[pb.EVENT_KIND_STATUS], limit=1000))


def nested(levels: int) -> Value:
    """A JSON object of so many levels."""
    content: dict[str, Any] = {}
    for _ in range(levels - 1):
        content = {"k": content}
    return json_format.ParseDict(content, Value())


def deep_message(levels: int) -> a2a.Message:
    made = said()
    made.parts.add().data.CopyFrom(nested(levels))
    return made


def deep_metadata(levels: int) -> Struct:
    return nested(levels).struct_value


def with_data(levels: int) -> list[tuple[Callable[[Any], None], Any]]:
    """Every place of every request where a value may stand."""
    part = a2a.Part(text="x", metadata=deep_metadata(levels))
    artifact = a2a.TaskArtifactUpdateEvent(artifact=a2a.Artifact(artifact_id="a", parts=[part]))
    update = a2a.TaskStatusUpdateEvent(metadata=deep_metadata(levels), status=a2a.TaskStatus(state=WORKING))
    changes = [
        pb.Change(artifact=artifact),
        pb.Change(status=update),
        pb.Change(
            artifact=a2a.TaskArtifactUpdateEvent(artifact=a2a.Artifact(artifact_id="a"), metadata=deep_metadata(levels))
        ),
        pb.Change(
            artifact=a2a.TaskArtifactUpdateEvent(artifact=a2a.Artifact(artifact_id="a", metadata=deep_metadata(levels)))
        ),
        status(WORKING, deep_message(levels)),
        status(WORKING, said(metadata=deep_metadata(levels))),
    ]
    found: list[tuple[Callable[[Any], None], Any]] = [
        *[(append, pb.AppendEventsRequest(items=[item(changes=[change])])) for change in changes],
        *[(create, creation(claim_for="p", first_changes=[change])) for change in changes],
        (create, creation(message=deep_message(levels))),
        (create, creation(metadata=deep_metadata(levels))),
        (add_message, adding(message=deep_message(levels))),
        (request_checks.cancel, pb.CancelTaskRequest(task_id="t", metadata=deep_metadata(levels))),
        (request_checks.put, pb.PutTaskRequest(task=a2a.Task(context_id="c", metadata=deep_metadata(levels)))),
        (request_checks.put, pb.PutTaskRequest(task=a2a.Task(context_id="c", history=[deep_message(levels)]))),
        (request_checks.put, pb.PutTaskRequest(task=a2a.Task(context_id="c", artifacts=[artifact.artifact]))),
        (
            request_checks.put,
            pb.PutTaskRequest(task=a2a.Task(context_id="c", status=a2a.TaskStatus(message=deep_message(levels)))),
        ),
    ]
    return found


def test_data_of_24_levels_passes_everywhere() -> None:
    for check, request in with_data(24):
        check(request)


def test_data_too_deep_to_be_read_again_is_refused_everywhere() -> None:
    for check, request in with_data(30):
        with pytest.raises(Invalid) as refused:
            check(request)
        assert refused.value.reason == "TOO_DEEP"


@pytest.mark.parametrize("levels", range(1, 33))
def test_an_accepted_message_can_be_read_inside_the_deepest_reply(levels: int) -> None:
    try:
        add_message(adding(message=deep_message(levels)))
    except Invalid:
        assert levels > 24
        return
    task = a2a.Task(history=[deep_message(levels)])
    reply = pb.WatchTaskResponse(events=pb.EventBatch(events=[pb.Event(event=a2a.StreamResponse(task=task))]))
    assert pb.WatchTaskResponse.FromString(reply.SerializeToString()) == reply
