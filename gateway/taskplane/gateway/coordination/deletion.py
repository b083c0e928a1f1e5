"""Deletions of tasks. Those that an executor runs are deleted by an executor; documents here, whether or not one is up.

In either case the turns of the task are voided in its session for good, then the task goes.
"""

import logging

from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.coordination.applying import apply_session
from taskplane.gateway.plane import Plane
from taskplane.runtime.errors import Conflict, NotFound
from taskplane.runtime.failpoints import afp
from taskplane.runtime.principal import acting_as, caller

_log = logging.getLogger(__name__)


async def delete_task(plane: Plane, task_id: str) -> None:
    """Delete a task with its log and its words, canceling it if it runs. Raise NotFound."""
    record = (await plane.tasks.ListEvents(pb.ListEventsRequest(task_id=task_id, limit=1))).record
    if record.origin != pb.ORIGIN_DOCUMENT:
        await plane.executor.DeleteTask(xb.DeleteTaskRequest(task_id=task_id))
        return
    asked = pb.ListTurnsRequest(task_id=task_id)
    found = await plane.tasks.ListTurns(asked)
    has_session = await _void(plane, found)
    try:
        while True:
            await afp("delete.after_void")
            try:
                await delete_written(plane, found.record)
                break
            except Conflict:
                # Its runtime wrote it again, and it may have other turns by now.
                found = await plane.tasks.ListTurns(asked)
                has_session = await _void(plane, found)
    except NotFound:
        # After the void, any other request or sweep may finish the deletion.
        _log.info("another request has deleted task %s", task_id)
    await afp("delete.after_task")
    if has_session:
        await apply_session(plane, record.context_id)


async def delete_written(plane: Plane, record: pb.TaskRecord) -> None:
    """Delete a document that is as it was read or written, with the session's knowledge. Raise NotFound; Conflict."""
    asked = pb.DeleteTaskRequest(task_id=record.id, expected_generation=record.generation)
    with acting_as(caller()._replace(service=True)):
        await plane.tasks.DeleteTask(asked)


async def _void(plane: Plane, found: pb.ListTurnsResponse) -> bool:
    """Void the turns of a document for good; return whether it has a session."""
    record, turns = found.record, found.invocation_ids
    # It may name no turn.
    target = turns[0] if turns else record.id
    void = sb.Entry(
        id=f"{record.uid}-deleted-{record.generation}",
        kind=sb.ENTRY_KIND_VOID,
        invocation_id=target,
        task_id=record.id,
        generation=record.generation,
        target=target,
        deleted=sb.DeletedTask(invocation_ids=turns, message_ids=found.message_ids, contents=found.contents),
    )
    asked = sb.AppendEntriesRequest(context_id=record.context_id, entries=[void], openings=found.openings)
    try:
        await plane.sessions.AppendEntries(asked)
    except NotFound:
        _log.info("session %s of task %s no longer exists", record.context_id, record.id)
        return False
    return True
