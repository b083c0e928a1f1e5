"""What becomes of one operation on one task: the new row and its events, the answer of a repeat, or why not.

Every rule about tasks stands here and nowhere else; the database triggers are a second wall. Of several refusals the
first is given, in this order: not found, managed / not managed, key reused, terminal, fenced, illegal transition or
append, invalid argument, pending input. A repeat is answered before any refusal.
"""

from collections.abc import Callable
from typing import Any

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.errors import AlreadyExists, Conflict, Invalid, NotFound, PlaneError, Refused
from taskplane.tasks.domain import operations as ops
from taskplane.tasks.domain.append import append
from taskplane.tasks.domain.drafts import Draft, task_not_found
from taskplane.tasks.domain.leases import claim, orphan, renew
from taskplane.tasks.domain.messages import is_partial
from taskplane.tasks.domain.operations import Answer, Found, Operation, Write
from taskplane.tasks.domain.task import (
    CANCELED,
    DOCUMENT,
    MANAGED,
    PAUSED,
    STATES,
    SUBMITTED,
    TERMINAL,
    Row,
    Scope,
    changed,
)

Outcome = Write | Answer | PlaneError


def decide(found: Found, op: Operation, now: int) -> Outcome:
    """What becomes of `op`, given what was `found`, at `now` (microseconds, UTC). Pure."""
    return _RULES[type(op)](found, op, now)


def _visible(row: Row | None, scope: Scope) -> Row | None:
    return row if row is not None and row.tenant == scope.tenant and row.owner == scope.owner else None


def _not_managed(row: Row) -> PlaneError:
    return Refused(
        f"task {row.id} is kept by an external runtime; it cannot be run, continued or canceled here",
        reason="NOT_MANAGED",
    )


def _key_reused() -> PlaneError:
    return Refused(
        "this idempotency key was used with another request",
        reason="KEY_REUSED",
        suggestion="repeat the first request unchanged, or use a new key",
    )


def _terminal(row: Row) -> PlaneError:
    state = a2a.TaskState.Name(row.state).removeprefix("TASK_STATE_").lower()  # type: ignore[arg-type]
    return Refused(f"task {row.id} has ended ({state})", reason="TERMINAL", metadata={"state": state})


def _create(found: Found, op: ops.Create, now: int) -> Outcome:
    known, row = found.known, found.known_row
    if known is not None:
        repeats = row is not None and known.generation == 1 and known.request_hash == op.request_hash
        if not repeats or row is None or row.context_id != op.context_id:
            return _key_reused()
        held = bool(op.claim_for) and row.lease_owner == op.claim_for
        return ops.Created(row=row, created=False, fence=row.fence if held else 0)
    if found.row is not None:
        if _visible(found.row, op.scope) is None:
            return AlreadyExists(f"the task id {op.task_id} is taken", reason="ID_TAKEN")
        return AlreadyExists(f"task {op.task_id} exists already", reason="TASK_EXISTS")
    if op.changes and not op.claim_for:
        return Invalid("first changes need a lease", reason="NO_LEASE", fields={"claim_for": "is required"})
    leased = bool(op.claim_for)
    task = a2a.Task()
    task.CopyFrom(op.task)
    task.id, task.context_id = op.task_id, op.context_id
    task.status.Clear()
    task.status.state = SUBMITTED  # type: ignore[assignment]
    task.status.timestamp.FromMicroseconds(now)
    for message in task.history:
        message.task_id, message.context_id = op.task_id, op.context_id
    draft = Draft(_new_row(op, now), op.scope.actor, now)
    draft.created(task, op.invocation_id, op.request_hash)
    for index, change in enumerate(op.changes):
        refusal = draft.change(change, last=index == len(op.changes) - 1, consumed=0)
        if refusal is not None:
            return refusal
    if draft.row.state in TERMINAL or draft.row.state in PAUSED:
        return Invalid("a task cannot end or pause while it is created", reason="FIRST_CHANGE")
    content = task.SerializeToString()
    row = changed(draft.row, started=leased and bool(op.changes), snapshot_bytes=len(content))
    answer = ops.Created(row=row, created=True, fence=row.fence)
    return Write(row=row, events=draft.events, answer=answer, document=content)


def _new_row(op: ops.Create, now: int) -> Row:
    leased = bool(op.claim_for)
    first = op.task.history[0].message_id if op.task.history else None
    return Row(
        uid=op.uid,
        tenant=op.scope.tenant,
        owner=op.scope.owner,
        id=op.task_id,
        origin=MANAGED,
        agent=op.agent,
        context_id=op.context_id,
        invocation_id=op.invocation_id,
        request_hash=op.request_hash,
        state=SUBMITTED,
        status_at=now,
        generation=0,
        terminal_generation=None,
        input_generation=1,
        consumed_generation=0,
        message_generation=1,
        copied_generation=0,
        message_id=first,
        partial_generation=None,
        partial_id=None,
        artifact_id=None,
        restart_generation=0,
        fence=1 if leased else 0,
        item_fence=None,
        item_number=None,
        item_first=None,
        item_last=None,
        attempt=1 if leased else 0,
        started=False,
        on_orphan=op.on_orphan,
        max_attempts=op.max_attempts,
        ready_at=None if leased else now,
        lease_owner=op.claim_for or None,
        lease_until=op.lease_until if leased else None,
        salt=op.salt,
        created_at=now,
        updated_at=now,
        snapshot_generation=0,
        snapshot_bytes=0,
        event_bytes=0,
        folded_bytes=0,
    )


def _add_message(found: Found, op: ops.AddMessage, now: int) -> Outcome:
    row = _visible(found.row, op.scope)
    if row is None:
        return task_not_found(op.task_id)
    if row.origin == DOCUMENT:
        return _not_managed(row)
    known = found.known
    if known is not None:
        if known.task_uid != row.uid or known.generation == 1 or known.request_hash != op.request_hash:
            return _key_reused()
        return ops.Added(row=row, generation=known.generation, added=False)
    if row.state in TERMINAL:
        return _terminal(row)
    if op.expected_context and op.expected_context != row.context_id:
        return Invalid(
            f"task {row.id} belongs to another context",
            reason="CONTEXT_MISMATCH",
            fields={"message.context_id": "is not the context of the task that message.task_id names"},
        )
    draft = Draft(row, op.scope.actor, now)
    draft.user_message(op.message, op.invocation_id, op.request_hash, reopens=row.state in PAUSED)
    return draft.write(ops.Added(row=draft.row, generation=draft.row.generation, added=True))


def _cancel(found: Found, op: ops.Cancel, now: int) -> Outcome:
    row = _visible(found.row, op.scope)
    if row is None:
        return task_not_found(op.task_id)
    if row.origin == DOCUMENT:
        return _not_managed(row)
    if row.state in TERMINAL:
        return _terminal(row)
    draft = _canceled(row, op.scope.actor, now, found, op.event_metadata)
    return draft.write(ops.Done(row=draft.row), refold=True)


def _canceled(row: Row, actor: str, now: int, found: Found, event: a2a.TaskStatusUpdateEvent | None) -> Draft:
    draft = Draft(row, actor, now)
    draft.lose_lease()
    draft.interrupt(found.open_text)
    update = a2a.TaskStatusUpdateEvent()
    if event is not None and event.HasField("metadata"):
        update.metadata.CopyFrom(event.metadata)
    update.status.state = CANCELED  # type: ignore[assignment]
    draft.status(update)
    return draft


def _put(found: Found, op: ops.Put, now: int) -> Outcome:
    row = found.row
    if row is not None and _visible(row, op.scope) is None:
        return AlreadyExists(f"the task id {op.task.id} is taken", reason="ID_TAKEN")
    if row is not None and row.origin == MANAGED:
        return Refused(
            f"task {row.id} is run by taskplane; it cannot be replaced from outside",
            reason="MANAGED",
            suggestion="send a message to it, or cancel it",
        )
    at = row.generation if row is not None else 0
    if op.expected_generation and op.expected_generation != at:
        return Conflict(
            f"task {op.task.id} is at generation {at}, not {op.expected_generation}",
            reason="GENERATION_MISMATCH",
            metadata={"generation": str(at)},
        )
    if not op.task.context_id:
        return Invalid("a task needs a context", reason="NO_CONTEXT", fields={"context_id": "is required"})
    state = int(op.task.status.state)
    if state not in STATES and state != 0:
        return Invalid(f"there is no task state {state}", fields={"status.state": "is unknown"})
    task = _document(op.task, now)
    content = task.SerializeToString()
    if row is None:
        row = _new_document(op, now)
    draft = Draft(row, op.scope.actor, now)
    draft.replaced(state)
    new = changed(
        draft.row,
        agent=op.agent or row.agent,
        context_id=task.context_id,
        snapshot_generation=draft.row.generation,
        snapshot_bytes=len(content),
    )
    return Write(row=new, events=draft.events, answer=ops.Done(row=new, created=at == 0), document=content)


def _document(task: a2a.Task, now: int) -> a2a.Task:
    """As it is stored: without partial messages (T5), with the time of its status."""
    document = a2a.Task()
    document.CopyFrom(task)
    if any(is_partial(message) for message in document.history):
        kept = [message for message in document.history if not is_partial(message)]
        del document.history[:]
        document.history.extend(kept)
    if not document.status.HasField("timestamp"):
        document.status.timestamp.FromMicroseconds(now)
    return document


def _new_document(op: ops.Put, now: int) -> Row:
    create = ops.Create(
        scope=op.scope,
        uid=op.uid,
        salt=op.salt,
        task_id=op.task.id,
        invocation_id="",
        request_hash=b"",
        agent=op.agent,
        context_id=op.task.context_id,
        task=op.task,
        on_orphan=1,
        max_attempts=1,
    )
    return changed(
        _new_row(create, now),
        origin=DOCUMENT,
        invocation_id=None,
        request_hash=None,
        message_id=None,
        ready_at=None,
        input_generation=0,
        message_generation=0,
    )


def _delete(found: Found, op: ops.Delete, now: int) -> Outcome:
    row = _visible(found.row, op.scope)
    if row is None:
        return task_not_found(op.task_id)
    if row.origin == DOCUMENT or row.state in TERMINAL:
        return Write(row=row, events=(), answer=ops.Done(row=row), delete=True)
    draft = _canceled(row, op.scope.actor, now, found, None)
    return Write(row=draft.row, events=draft.events, answer=ops.Done(row=draft.row), delete=True)


def _mark_copied(found: Found, op: ops.MarkCopied, now: int) -> Outcome:
    row = found.row
    if row is None:
        return NotFound("no such task", reason="TASK_NOT_FOUND")
    if row.origin == DOCUMENT:
        return _not_managed(row)
    if op.generation > row.generation:
        return Invalid(
            f"task {row.id} has no generation {op.generation}",
            reason="BEYOND_HEAD",
            fields={"generation": "is too high"},
        )
    if op.generation <= row.copied_generation:
        return ops.Done(row=row)
    new = changed(row, copied_generation=op.generation)
    return Write(row=new, events=(), answer=ops.Done(row=new))


_RULES: dict[type, Callable[[Found, Any, int], Outcome]] = {
    ops.Create: _create,
    ops.Append: append,
    ops.AddMessage: _add_message,
    ops.Cancel: _cancel,
    ops.Put: _put,
    ops.Delete: _delete,
    ops.Claim: claim,
    ops.Renew: renew,
    ops.Orphan: orphan,
    ops.MarkCopied: _mark_copied,
}
