"""Hostile clients over gRPC: each gets its typed error, and neither store keeps anything of the request."""

import base64
import json
from typing import Any, cast
from uuid import uuid4

import grpc
import pytest
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Value
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from tests.system.plane import Plane
from tests.system.untouched import untouched
from tests.system.wire import Json, client, result

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb

pytestmark = pytest.mark.asyncio(loop_scope="module")

_TASKS = "/taskplane.api.tasks.v1.TaskStore/"
_SESSIONS = "/taskplane.api.sessions.v1.SessionHistory/"
_EXECUTOR = "/taskplane.api.executor.v1.AgentExecutor/"
LONG, C1 = "x" * 300, "a\x85b"


def deep(levels: int) -> Value:
    """A value of so many levels."""
    value = Value(number_value=1)
    for _ in range(levels):
        outer = Value()
        outer.struct_value.fields["a"].CopyFrom(value)
        value = outer
    return value


def spoken(**fields: Any) -> a2a.Message:
    """A message of the user."""
    values: Json = {"message_id": "m", "role": a2a.ROLE_USER, "parts": [a2a.Part(text="echo x")]}
    return a2a.Message(**{**values, **fields})


def submit(**fields: Any) -> bytes:
    asked = xb.SubmitRequest(request=a2a.SendMessageRequest(message=spoken(**fields)))
    return asked.SerializeToString()


def put(**fields: Any) -> bytes:
    values: Json = {"id": "put", "context_id": "puts"}
    return pb.PutTaskRequest(task=a2a.Task(**{**values, **fields})).SerializeToString()


def create(**fields: Any) -> bytes:
    values: Json = {"invocation_id": uuid4().hex, "context_id": "c", "agent": "nobody", "message": spoken()}
    values["request_hash"] = b"h" * 32
    return pb.CreateTaskRequest(**{**values, **fields}).SerializeToString()


_FAR = Timestamp(seconds=2**62, nanos=-7)
_DATA = [a2a.Part(data=deep(30))]
# Field 99 as nested groups, as deep as a message in a request can be read.
_GROUPS = spoken()
_GROUPS.MergeFromString(b"\x9b\x06" * 96 + b"\x9c\x06" * 96)

GRPC: dict[str, tuple[str, bytes]] = {
    **{f"junk to {path}": (path, b"\xff\xff\xff\xff\x0f") for path in (_TASKS + "PutTask", _EXECUTOR + "Submit")},
    "no UTF-8": (_TASKS + "GetTask", b"\x0a\x02\xff\xfe"),
    "an empty creation": (_TASKS + "CreateTask", b""),
    "deep data in a creation": (_TASKS + "CreateTask", create(message=spoken(parts=_DATA))),
    "unknown groups in a creation": (_TASKS + "CreateTask", create(message=_GROUPS)),
    "unknown groups in a document": (_TASKS + "PutTask", put(history=[_GROUPS])),
    "unknown groups in a send": (
        _EXECUTOR + "Submit",
        xb.SubmitRequest(request=a2a.SendMessageRequest(message=_GROUPS)).SerializeToString(),
    ),
    "a C1 control in a creation": (_TASKS + "CreateTask", create(context_id=C1)),
    "deep data in a document": (_TASKS + "PutTask", put(history=[spoken(parts=_DATA)])),
    "a time beyond all years": (
        _TASKS + "PutTask",
        put(status=a2a.TaskStatus(state=a2a.TASK_STATE_WORKING, timestamp=_FAR)),
    ),
    "a filter beyond all years": (_TASKS + "ListTasks", pb.ListTasksRequest(status_after=_FAR).SerializeToString()),
    "deep data in a send": (_EXECUTOR + "Submit", submit(parts=_DATA)),
    "deep metadata in a send": (_EXECUTOR + "Submit", submit(metadata=deep(30).struct_value)),
    "a send without content": (_EXECUTOR + "Submit", submit(parts=[a2a.Part()])),
    "NUL in a send": (_EXECUTOR + "Submit", submit(parts=[a2a.Part(text="a\0b")])),
    "a long message id in a send": (_EXECUTOR + "Submit", submit(message_id=LONG)),
    "a C1 control in a send": (_EXECUTOR + "Submit", submit(context_id=C1)),
    "101 references in a send": (_EXECUTOR + "Submit", submit(reference_task_ids=["x"] * 101)),
    "a send that fills a request": (_EXECUTOR + "Submit", submit(parts=[a2a.Part(text="x" * 4_180_000)])),
    "an entry of no kind": (
        _SESSIONS + "AppendEntries",
        sb.AppendEntriesRequest(
            context_id="e", create=sb.NewSession(agent="a"), entries=[sb.Entry(id="e", kind=sb.EntryKind.ValueType(99))]
        ).SerializeToString(),
    ),
}


def raw_call(channel: grpc.aio.Channel, path: str) -> Any:
    """Returns a unary method by its path; its requests and replies are bytes."""
    return cast("Any", channel).unary_unary(path)


async def refused(plane: Plane, path: str, body: bytes, principal: Any = None) -> tuple[grpc.StatusCode, str]:
    """The code of a raw unary call that is refused, and the reason in its details."""
    metadata = None if principal is None else (("x-taskplane-principal", principal),)
    async with grpc.aio.insecure_channel(plane.tasks_target) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await raw_call(channel, path)(body, metadata=metadata, timeout=10)
    raw_status: Any = dict(caught.value.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    info = error_details_pb2.ErrorInfo()
    for detail in status_pb2.Status.FromString(raw_status).details:
        detail.Unpack(info)
    return caught.value.code(), info.reason


@pytest.mark.parametrize("name", GRPC)
async def test_a_bad_message_over_grpc_is_invalid_and_stores_nothing(plane: Plane, name: str) -> None:
    """S7: data that cannot be parsed, stored or read again is refused with a reason before either store has it."""
    path, body = GRPC[name]
    async with untouched(plane):
        code, reason = await refused(plane, path, body)
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert reason


async def test_data_too_deep_to_be_read_again_is_not_appended(plane: Plane) -> None:
    """An executor's change is refused if no reader could parse it; the lease stays valid."""
    service = principal(s=True)
    async with grpc.aio.insecure_channel(plane.tasks_target) as channel:
        made = pb.CreateTaskResponse.FromString(
            await raw_call(channel, _TASKS + "CreateTask")(create(claim_for="tester"), metadata=(service,))
        )

        def item(number: int, part: a2a.Part) -> bytes:
            chunk = a2a.TaskArtifactUpdateEvent(artifact=a2a.Artifact(artifact_id=f"a{number}", parts=[part]))
            change = pb.Change(artifact=chunk)
            one = pb.AppendItem(task_uid=made.record.uid, fence=made.fence, number=number, changes=[change])
            return pb.AppendEventsRequest(items=[one]).SerializeToString()

        async with untouched(plane):
            code, reason = await refused(plane, _TASKS + "AppendEvents", item(1, _DATA[0]), service[1])
            assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "TOO_DEEP")
        append = raw_call(channel, _TASKS + "AppendEvents")
        answer = pb.AppendEventsResponse.FromString(await append(item(1, a2a.Part(data=deep(24))), metadata=(service,)))
        assert answer.results[0].last_generation == 2
    async with client(plane.url) as http:
        task = await result(http, "GetTask", {"id": made.record.id})
        assert len(task["artifacts"]) == 1
        assert (await http.delete(f"/api/tasks/{made.record.id}")).status_code == 204


def principal(**fields: Any) -> tuple[str, str]:
    """Metadata that names a caller."""
    values = json.dumps({"t": "default", "o": "local", "a": "local", **fields}).encode()
    return "x-taskplane-principal", base64.urlsafe_b64encode(values).rstrip(b"=").decode()


PRINCIPALS: dict[str, str] = {
    "junk": "%%%",
    "no object": base64.urlsafe_b64encode(b"[1]").decode(),
    "5,000 brackets": base64.urlsafe_b64encode(b"[" * 5_001).decode(),
    "an owner that is a number": principal(o=5)[1],
    "half a surrogate pair": principal(o="\ud800")[1],
    "NUL": principal(a="a\0b")[1],
    "300 characters": principal(o=LONG)[1],
}


@pytest.mark.parametrize("name", PRINCIPALS)
async def test_a_forged_principal_is_unauthenticated(plane: Plane, name: str) -> None:
    """S2: a name that no store could hold is refused, and nothing is written for it."""
    async with untouched(plane):
        code, reason = await refused(plane, _TASKS + "PutTask", put(), PRINCIPALS[name])
        assert (code, reason) == (grpc.StatusCode.UNAUTHENTICATED, "BAD_PRINCIPAL")


async def test_calls_of_services_are_refused_to_other_callers(plane: Plane) -> None:
    """C8: appending, claiming, and creating a task with a lease."""
    requests: tuple[tuple[str, Message], ...] = (
        (_TASKS + "AppendEvents", pb.AppendEventsRequest()),
        (_TASKS + "MarkCopied", pb.MarkCopiedRequest(task_uid="x", generation=1)),
        ("/taskplane.api.tasks.v1.TaskQueue/Renew", pb.RenewRequest(process_id="p")),
        (_TASKS + "CreateTask", pb.CreateTaskRequest.FromString(create(claim_for="p"))),
    )
    async with untouched(plane):
        for path, asked in requests:
            code, reason = await refused(plane, path, asked.SerializeToString())
            assert (code, reason) == (grpc.StatusCode.PERMISSION_DENIED, "SERVICE_ONLY")
