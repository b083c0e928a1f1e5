"""The rules of leases: to take a lease, to keep it, and the next state of a task after its loss."""

import hashlib
import math
from collections.abc import Sequence
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import INVOCATION, LOST_ATTEMPT
from taskplane.runtime import final_message
from taskplane.runtime.backoff import growing
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.changes import read_status
from taskplane.tasks.domain.commands import Found, Write
from taskplane.tasks.domain.drafts import Draft
from taskplane.tasks.domain.fold import LOST_MESSAGES, RESUMED_ATTEMPT
from taskplane.tasks.domain.task import (
    COMPLETED,
    FAIL_ON_ORPHAN,
    FAILED,
    MANAGED,
    PAUSED,
    RESUME_ON_ORPHAN,
    SUBMITTED,
    TERMINAL,
    Row,
    changed_by,
)

STORE_ACTOR: Final = "taskplane"

_SECOND: Final = 1_000_000
# The states that may follow the final message of a run, by name.
_ENDS: Final = {a2a.TaskState.Name(state): state for state in (COMPLETED, *PAUSED)}  # type: ignore[arg-type]


def claim(found: Found, op: commands.Claim, now: int) -> Write | None:
    """Give a queued task to an executor: a new fence, one more attempt, no event."""
    row = found.row
    if row is None or row.ready_at is None or row.ready_at > now or found.waits:
        return None
    values = {
        "fence": row.fence + 1,
        "attempt": row.attempt + 1,
        "started": False,
        "ready_at": None,
        "lease_owner": op.process_id,
        "limit_at": None,
    }
    new = changed_by(row, values)
    return Write(new, (), commands.Done(new), values, lease_until=op.lease_until)


def orphan(found: Found, op: commands.Orphan, now: int) -> Write | None:
    """Decide about a task with a lost lease by its policy: run again, silently or as a new attempt, continue, or fail.

    If the run had committed its final message, the task ends or pauses with it, whatever the policy is.
    """
    row = found.row
    if row is None or row.origin != MANAGED or row.lease_owner != op.process_id or row.fence != op.fence:
        return None
    # Looked at again under its lock: a renewal that was committed meanwhile, or is on its way, keeps the lease.
    if op.expired_before is not None and (found.lease_until is None or found.lease_until > op.expired_before):
        return None
    attempts = row.attempt - 1 if op.released else row.attempt
    draft = Draft(row, STORE_ACTOR, now, trace=row.trace)
    draft.lose_lease()
    if (ended := _with_final_message(draft, found.final_message)) is not None:
        return ended
    if row.started and row.on_orphan == FAIL_ON_ORPHAN:
        return _failed(draft, found, "EXECUTOR_LOST", "The process that ran this task was lost before it finished.")
    if attempts >= row.max_attempts:
        return _failed(draft, found, "POISON", f"This task lost its process {attempts} times and is not tried again.")
    if row.started:
        draft.interrupt(found.open_text)
        if row.on_orphan == RESUME_ON_ORPHAN:
            draft.status(read_status(_requeued(row, RESUMED_ATTEMPT)))
        else:
            draft.restart(_requeued(row, LOST_ATTEMPT, found.lost_messages))
    draft.new["attempt"] = attempts
    draft.enqueue(now + _backoff(row.uid, attempts))
    new = draft.finished()
    return draft.write(new, commands.Done(row=new))


def time_out(found: Found, op: commands.TimeOut, now: int) -> Write | None:
    """Fail a task that waited too long, for an executor or for its user."""
    row = found.row
    if row is None or row.limit_at is None or row.limit_at > now:
        return None
    draft = Draft(row, STORE_ACTOR, now, trace=row.trace)
    draft.lose_lease()
    if row.ready_at is not None:
        return _failed(
            draft,
            found,
            "QUEUE_TIMEOUT",
            f"This task did not start within {_seconds(row.queue_limit)}, the limit of its time in the queue.",
        )
    return _failed(
        draft,
        found,
        "PAUSE_TIMEOUT",
        f"This task had no answer within {_seconds(row.pause_limit)}, the limit of its wait for the user.",
    )


def _with_final_message(draft: Draft, said: a2a.TaskStatusUpdateEvent | None) -> Write | None:
    """End or pause the task by the last message of its run, unless the run has not read a newer message of the user."""
    row = draft.row
    if said is None or row.partial_id is not None or final_message.STATE not in said.metadata.fields:
        return None
    name, consumed = said.metadata.fields[final_message.STATE].string_value, said.metadata.fields[final_message.READ]
    state = _ENDS.get(name)
    if state is None or consumed.number_value < row.input_generation:
        return None
    update = a2a.TaskStatusUpdateEvent()
    update.status.state = state  # type: ignore[assignment]
    update.status.message.CopyFrom(said.status.message)
    draft.status(read_status(update))
    draft.new["consumed_generation"] = row.input_generation
    if state in PAUSED:
        draft.new["attempt"] = 0
    new = draft.finished()
    return draft.write(new, commands.Done(row=new), refold=state in TERMINAL)


def _seconds(limit: int | None) -> str:
    seconds = (limit or 0) / _SECOND
    return "a second" if seconds == 1 else f"{seconds:,.10g} seconds"


def _failed(draft: Draft, found: Found, reason: str, text: str) -> Write:
    row = draft.row
    draft.interrupt(found.open_text)
    update = a2a.TaskStatusUpdateEvent()
    update.status.state = FAILED  # type: ignore[assignment]
    message = update.status.message
    message.message_id = hashlib.sha256(f"{row.uid}:{draft.fence}:{reason}".encode()).hexdigest()[:32]
    message.role = a2a.ROLE_AGENT
    message.parts.add().text = text
    message.metadata.fields["reason"].string_value = reason
    turn = found.turn or row.invocation_id
    if turn:
        message.metadata.fields[INVOCATION].string_value = turn
    update.metadata.fields["reason"].string_value = reason
    update.metadata.fields["attempt"].number_value = row.attempt
    draft.status(read_status(update))
    new = draft.finished()
    return draft.write(new, commands.Done(row=new), refold=True)


def _requeued(row: Row, key: str, lost_messages: Sequence[str] = ()) -> a2a.TaskStatusUpdateEvent:
    update = a2a.TaskStatusUpdateEvent()
    update.status.state = SUBMITTED  # type: ignore[assignment]
    update.metadata.fields[key].number_value = row.attempt
    if key != LOST_ATTEMPT:
        return update
    lost = update.metadata.fields[LOST_MESSAGES].list_value
    for message_id in lost_messages:
        lost.values.add().string_value = message_id
    return update


def _backoff(uid: str, attempts: int) -> int:
    """Return the microseconds until the next attempt: 0 after the first loss, then 1 s, 2 s, 4 s, each changed at
    random by up to a quarter."""
    if attempts <= 1:
        return 0
    spread = hashlib.sha256(f"{uid}:{attempts}".encode()).digest()[0] / 255
    return int(growing(attempts - 1, _SECOND, math.inf) * (0.75 + 0.5 * spread))
