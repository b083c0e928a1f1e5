"""The operations on tasks: get, list and cancel. The principal of the calls decides which tasks are visible."""

from google.protobuf.struct_pb2 import Struct

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.a2a.call import Call
from taskplane.gateway.a2a.follow import cursor_of
from taskplane.gateway.a2a.waiting import tell_waiting
from taskplane.gateway.coordination import conversation
from taskplane.gateway.coordination.canceling import cancel_task
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.dialect import Answer, Listing
from taskplane.runtime.errors import NotFound, Refused


async def get(call: Call, request: a2a.GetTaskRequest) -> Answer:
    """Return a task, as `read` does."""
    history_length = request.history_length if request.HasField("history_length") else None
    record = await read(call.plane, request.id, history_length)
    return Answer(record.task, cursor_of(record), bare=True, numbered=call.numbered)


async def read(plane: Plane, task_id: str, history_length: int | None = None) -> pb.TaskRecord:
    """Return a task or, under the id of a session, its session task, with at most `history_length` messages of its
    history. Raise NotFound."""
    try:
        record = (await plane.tasks.GetTask(pb.GetTaskRequest(task_id=task_id, history_length=history_length))).record
        if record.id != record.context_id or record.origin != pb.ORIGIN_DOCUMENT:
            tell_waiting(record)
            return record
        record = await conversation.shown_record(plane, record)
    except NotFound as missing:
        try:
            task = await conversation.session_task(plane, task_id)
        except NotFound:
            raise missing from None
        record = pb.TaskRecord(id=task.id, context_id=task.context_id, task=task)
    if history_length is not None:
        del record.task.history[: max(len(record.task.history) - history_length, 0)]
    return record


async def listing(call: Call, request: a2a.ListTasksRequest) -> Listing:
    """Return a page of the caller's tasks, newest state change first (A2A 1.0 section 3.1.4). Raise Invalid for a bad
    page token."""
    asked = pb.ListTasksRequest(
        context_id=request.context_id,
        state=request.status,
        page_size=request.page_size,
        page_token=request.page_token,
        include_artifacts=request.include_artifacts,
        history_length=request.history_length if request.HasField("history_length") else None,
    )
    if request.HasField("status_timestamp_after"):
        asked.status_after.CopyFrom(request.status_timestamp_after)
    page = await call.plane.tasks.ListTasks(asked)
    tasks = [(record.task, cursor_of(record)) for record in page.records]
    return Listing(
        tasks, page.next_page_token, page.page_size, page.total_size, request.include_artifacts, call.numbered
    )


async def cancel(call: Call, request: a2a.CancelTaskRequest) -> Answer:
    """Cancel a task and return it. Raise Refused `TASK_NOT_CANCELABLE` if it has ended or no executor runs it;
    NotFound."""
    metadata: Struct | None = request.metadata if request.HasField("metadata") else None
    try:
        record = await cancel_task(call.plane, request.id, metadata)
    except Refused as error:
        if error.reason in {"TERMINAL", "NOT_MANAGED"}:
            raise Refused(error.message, reason="TASK_NOT_CANCELABLE", metadata=error.metadata) from error
        raise
    return Answer(record.task, cursor_of(record), bare=True, numbered=call.numbered)
