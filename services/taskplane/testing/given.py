"""The beginning of a turn as a test gives it, stored as a plane would have stored it."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from taskplane.agents.agent import Checkpoint
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2
from taskplane.api.message_metadata import INVOCATION
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.executor.derived_ids import derived
from taskplane.executor.session_log import SessionLog
from taskplane.executor.turns.invocations import identify
from taskplane.executor.turns.saving import Opening
from taskplane.runtime import message_times
from taskplane.runtime.storable import dumped
from taskplane.testing.plane import AGENT, CONTEXT, USER, Plane

# The process that held the lease of a task before the executor of the test.
_EARLIER: Final = "earlier"
_WORKING: Final = tasks.Change(status=a2a.TaskStatusUpdateEvent(status=a2a.TaskStatus(state=a2a.TASK_STATE_WORKING)))


async def fill_session(
    plane: Plane, history: Sequence[a2a.Message], events: Sequence[Mapping[str, Any]], state: Mapping[str, Any]
) -> None:
    """Begin the session with the earlier messages, and with the events and the state that a runtime left.

    PlaneError: it cannot be stored.
    """
    entries: list[sessions.Entry] = []
    for number, message in enumerate(history, 1):
        turn = f"before-{(number + 1) // 2}"
        message.context_id = CONTEXT
        message.metadata.fields[INVOCATION].string_value = turn
        kind = sessions.ENTRY_KIND_MESSAGE
        entries.append(sessions.Entry(id=f"before-{number}", kind=kind, invocation_id=turn, message=message))
    for number, event in enumerate(_with_state(events, state), 1):
        data = {"id": f"event-{number}", **event}
        kind = sessions.ENTRY_KIND_EVENT
        entries.append(sessions.Entry(id=data["id"], kind=kind, invocation_id="before", data=dumped(data)))
    if entries:
        await SessionLog(plane.sessions).append_many(CONTEXT, entries, sessions.NewSession(agent=AGENT))


def _with_state(events: Sequence[Mapping[str, Any]], state: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the events of which the first one begins with the state: a session has no other."""
    if not state:
        return events
    first, *others = events or [{}]
    actions: dict[str, Any] = dict(first.get("actions") or {})
    name = "stateDelta" if "stateDelta" in actions else "state_delta"
    actions[name] = {**state, **(actions.get(name) or {})}
    return [{**first, "actions": actions}, *others]


async def keep_task(plane: Plane, task: a2a.Task) -> None:
    """Keep a task that ended before, so that a message may refer to it. PlaneError: it cannot be stored."""
    await plane.tasks.PutTask(tasks.PutTaskRequest(task=task, agent=AGENT))


async def queue_task(
    plane: Plane, request: executor_pb2.SubmitRequest, incoming: Sequence[a2a.Message], checkpoint: Any
) -> tasks.TaskRecord:
    """Create the task of a message, with further messages and the checkpoint of a run that was lost, and queue it then.

    Until then another process has its lease.
    """
    invocation, request_hash = identify(request, USER, AGENT)
    message = request.request.message
    message.context_id = CONTEXT
    message.metadata.fields[INVOCATION].string_value = invocation
    message_times.add_time(message.metadata, time.time_ns() // 1000)
    task_id = derived(invocation, "task")
    opening = Opening(
        invocation_id=invocation,
        request_hash=request_hash,
        context_id=CONTEXT,
        task_id=task_id,
        agent=AGENT,
        message=message,
    )
    await opening.decide(SessionLog(plane.sessions), None, 0.0)
    message.task_id = task_id
    created = await plane.store.CreateTask(
        tasks.CreateTaskRequest(
            invocation_id=invocation,
            request_hash=request_hash,
            task_id=task_id,
            context_id=CONTEXT,
            agent=AGENT,
            message=message,
            metadata=request.request.metadata if request.request.HasField("metadata") else None,
            options=tasks.TurnOptions(
                accepted_output_modes=request.request.configuration.accepted_output_modes,
                extensions=request.extensions,
            ),
            on_orphan=tasks.ON_ORPHAN_RESUME,
            claim_for=_EARLIER,
            first_changes=[_WORKING] if checkpoint is not None else (),
        )
    )
    lease = tasks.Lease(task_uid=created.record.uid, fence=created.fence)
    if checkpoint is not None:
        saved = tasks.Change(checkpoint=dumped(Checkpoint(checkpoint).data).encode())
        item = tasks.AppendItem(task_uid=lease.task_uid, fence=lease.fence, number=1, changes=[saved])
        await plane.store.AppendEvents(tasks.AppendEventsRequest(items=[item]))
    for further in incoming:
        further.task_id = task_id
        await plane.executor.Submit(executor_pb2.SubmitRequest(request=a2a.SendMessageRequest(message=further)))
    lost = checkpoint is not None
    await plane.queue.Release(tasks.ReleaseRequest(process_id=_EARLIER, leases=[lease], lost=lost))
    return created.record
