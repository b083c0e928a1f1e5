"""The deletion of a task with its content: its turns are voided in its session for good, then the task is deleted.

The void decides: after it, nothing more is stored of these turns. If a process dies after the void, the next deletion,
the next request in the session, or a sweep finishes the deletion: the session shows that its tasks are not in line with
its history (`sweeps.reconcile`).
"""

import logging
from contextlib import suppress

from taskplane.agents.states import TERMINAL
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.executor.derived_ids import turn_after
from taskplane.executor.session_log import SessionLog
from taskplane.runtime.errors import Conflict, NotFound, Refused
from taskplane.runtime.failpoints import afp

log = logging.getLogger(__name__)


async def delete_with_content(store: TaskStoreStub, history: SessionLog, task_id: str) -> str:
    """Cancel a task if it has not ended, void its turns, then delete it; return its session.

    Acts for the principal of the current context, which must be the task's owner and a service. NotFound.
    """
    asked = pb.ListTurnsRequest(task_id=task_id)
    found = await store.ListTurns(asked)
    if found.record.origin == pb.ORIGIN_MANAGED and found.record.state not in TERMINAL:
        try:
            await store.CancelTask(pb.CancelTaskRequest(task_id=task_id))
        except Refused as error:
            log.info("deleting task %s without canceling it: %s", task_id, error)
        found = await store.ListTurns(asked)
    await _void(history, found)
    try:
        while True:
            await afp("delete.after_void")
            try:
                request = pb.DeleteTaskRequest(task_id=task_id, expected_generation=found.record.generation)
                await store.DeleteTask(request)
                break
            except Conflict:
                # The task has changed meanwhile, and may have further turns.
                found = await store.ListTurns(asked)
                await _void(history, found)
    except NotFound:
        # After the void, another request may finish the deletion.
        log.info("another request has deleted task %s", task_id)
    await afp("delete.after_task")
    context_id = found.record.context_id
    log.info("task %s of session %s is deleted with its messages", task_id, context_id)
    return context_id


async def _void(history: SessionLog, found: pb.ListTurnsResponse) -> None:
    """Void the turns of a task for good. Do nothing if the session is gone."""
    record, turns = found.record, list(found.invocation_ids)
    deleted = sessions.DeletedTask(invocation_ids=turns, message_ids=found.message_ids, contents=found.contents)
    with suppress(NotFound):
        deleted.entry_ids.extend(await _rewinds_before(history, record.context_id, turns))
    # A document may name no turn.
    target = turns[0] if turns else record.id
    void = sessions.Entry(
        id=f"{record.uid}-deleted-{record.generation}",
        kind=sessions.ENTRY_KIND_VOID,
        invocation_id=target,
        task_id=record.id,
        generation=record.generation,
        target=target,
        deleted=deleted,
    )
    # As long as no message of a managed task is copied, its session may not exist yet.
    begins = record.origin == pb.ORIGIN_MANAGED and not record.copied_generation
    create = sessions.NewSession(agent=record.agent) if begins else None
    try:
        await history.append(record.context_id, [void], create, openings=found.openings)
    except NotFound:
        log.info("session %s of task %s no longer exists", record.context_id, record.id)


async def _rewinds_before(history: SessionLog, context_id: str, turns: list[str]) -> list[str]:
    """Return the rewinds whose request began one of these turns and contains its message."""
    if not (await history.session(context_id)).steered_seq:
        return []
    return [rewind for rewind in await history.rewinds(context_id) if turn_after(rewind) in turns]
