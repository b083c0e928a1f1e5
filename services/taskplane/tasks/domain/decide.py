"""The decision about one operation on one task: the new row and its events, the answer of a repeat, or a refusal.

All rules about tasks are here; the database triggers only repeat them. Of several refusals the first is given, in this
order: not found, managed / not managed, key reused, another context, superseded, terminal, fenced, illegal transition
or append, invalid argument, pending input. A repeat is answered before any refusal.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from taskplane.runtime.errors import AlreadyExists, Conflict, Exhausted, Invalid, NotFound, PlaneError, Refused
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.append import append
from taskplane.tasks.domain.changes import UserMessage
from taskplane.tasks.domain.commands import Answer, Found, Operation, Write, Writes
from taskplane.tasks.domain.documents import (
    goes_on_in,
    pack_turns,
    shown_document,
    stored_document,
    turns_in,
    turns_of,
    unpack_turns,
)
from taskplane.tasks.domain.drafts import Draft, task_not_found
from taskplane.tasks.domain.ending import cancel, canceled, not_managed, terminal, visible
from taskplane.tasks.domain.leases import claim, orphan, time_out
from taskplane.tasks.domain.limits import over_limit
from taskplane.tasks.domain.messages import turn_of
from taskplane.tasks.domain.strategy import interrupted, session_busy
from taskplane.tasks.domain.superseding import mark_superseded
from taskplane.tasks.domain.task import (
    DOCUMENT,
    MANAGED,
    PAUSED,
    QUEUE,
    REJECT,
    STATES,
    SUBMITTED,
    TERMINAL,
    Row,
    changed,
    changed_by,
)
from taskplane.tasks.domain.trimming import trim

Outcome = Write | Writes | Answer | PlaneError

# Seconds after which a task may find room in a queue that was full.
_QUEUE_RETRY: Final = 1.0


def decide(found: Found, op: Operation, now: int) -> Outcome:
    """Decide `op`, given the data `found` for it, at `now` (microseconds, UTC). No I/O."""
    return _RULES[type(op)](found, op, now)


def _key_reused() -> PlaneError:
    return Refused(
        "this idempotency key was used with another request",
        reason="KEY_REUSED",
        suggestion="repeat the first request unchanged or use a new key",
    )


def _create(found: Found, op: commands.Create, now: int) -> Outcome:
    known, row = found.known, found.known_row
    if known is not None:
        repeats = row is not None and known.generation == 1 and known.request_hash == op.request_hash
        if not repeats or row is None or row.context_id != op.context_id:
            return _key_reused()
        held = bool(op.claim_for) and row.lease_owner == op.claim_for
        return commands.Created(row=row, created=False, fence=row.fence if held else 0)
    if found.row is not None:
        if visible(found.row, op.scope) is None:
            return AlreadyExists(f"the task id {op.task_id} is in use", reason="ID_TAKEN")
        return AlreadyExists(f"task {op.task_id} exists already", reason="TASK_EXISTS")
    if op.changes and not op.claim_for:
        return Invalid("first_changes requires claim_for", reason="NO_LEASE", fields={"claim_for": "is required"})
    if op.strategy == REJECT and found.busy:
        return session_busy(op)
    if op.strategy == QUEUE and found.busy:
        op = replace(op, claim_for="", changes=())
        # After all tasks that it waits for, whichever clock they were created by.
        now = max(now, found.busy + 1)
    leased = bool(op.claim_for)
    if not leased and (full := _queue_full(op, found.queued)) is not None:
        return full
    draft = Draft(_new_row(op, now), op.scope.actor, now, trace=op.scope.trace)
    first = draft.created(op)
    last = len(op.changes) - 1
    for index, change in enumerate(op.changes):
        refusal = draft.change(change, last=index == last, consumed=0)
        if refusal is not None:
            return refusal
    if draft.state in TERMINAL or draft.state in PAUSED:
        return Invalid("a new task must not end or pause in first_changes", reason="FIRST_CHANGE")
    draft.new["started"] = leased and bool(op.changes)
    row = draft.finished()
    write = Write(row, draft.events, commands.Created(row, True, row.fence, first), said=draft.said, document=first)
    write.lease_until = op.lease_until if leased else None
    if found.others:
        write.others = interrupted(found, op, now)
    return write


def _queue_full(op: commands.Create, queued: commands.QueueLimits) -> Exhausted | None:
    for count, limit, whose in zip(queued, op.queue_limits, ("you have", "your tenant has"), strict=True):
        if count >= limit > 0:
            return Exhausted(
                f"{whose} {limit:,} tasks waiting in the queue already",
                reason="QUEUE_LIMIT",
                suggestion="wait until some of them have begun",
                metadata={"limit": str(limit)},
                retry_after=_QUEUE_RETRY,
            )
    return None


def _new_row(op: commands.Create, now: int) -> Row:
    leased = bool(op.claim_for)
    # By position: forty keyword arguments would take three times as long. Other fields have defaults.
    return Row(
        op.uid,
        op.scope.tenant,
        op.scope.owner,
        op.task_id,
        MANAGED,
        op.agent,
        op.context_id,
        op.invocation_id,
        op.request_hash,
        SUBMITTED,
        now,  # status_at
        0,  # generation
        None,  # terminal_generation
        1,  # input_generation
        0,  # consumed_generation
        1,  # message_generation
        0,  # copied_generation
        op.message.message_id,
        None,  # partial_generation
        None,  # partial_id
        None,  # artifact_id
        0,  # restart_generation
        1 if leased else 0,  # fence
        None,  # item_fence
        None,  # item_number
        None,  # item_first
        None,  # item_last
        1 if leased else 0,  # attempt
        False,  # started
        op.on_orphan,
        op.max_attempts,
        None if leased else now,  # ready_at
        op.claim_for or None,
        op.salt,
        now,  # created_at
        now,  # updated_at
        0,  # snapshot_generation
        0,  # snapshot_bytes
        0,  # event_bytes
        0,  # folded_bytes
        False,  # superseded
        0,  # superseded_seq
        op.strategy == QUEUE,  # in_turn
        0,  # trimmed_generation
        op.scope.trace,
        None,  # cut_turns
        None,  # checkpoint_generation
        op.queue_limit,
        op.pause_limit,
        None if leased or op.queue_limit is None else now + op.queue_limit,  # limit_at
    )


def _add_message(found: Found, op: commands.AddMessage, now: int) -> Outcome:
    row = visible(found.row, op.scope)
    if row is None:
        return task_not_found(op.task_id)
    if row.origin == DOCUMENT:
        return not_managed(row)
    known = found.known
    if known is not None:
        if known.task_uid != row.uid or known.generation == 1 or known.request_hash != op.request_hash:
            return _key_reused()
        return commands.Added(row=row, generation=known.generation, added=False)
    if op.expected_context and op.expected_context != row.context_id:
        return Invalid(
            f"task {row.id} belongs to another context",
            reason="CONTEXT_MISMATCH",
            fields={"message.context_id": "must be the context of the task in message.task_id"},
        )
    if row.superseded:
        return Refused(
            f"task {row.id} was removed by a rewind of its session",
            reason="SUPERSEDED",
            suggestion="send the message without a task id, or undo the rewind",
        )
    if row.state in TERMINAL:
        return terminal(row)
    if op.expected_generation and op.expected_generation != row.generation:
        return _generation_mismatch(op.task_id, op.expected_generation, row.generation)
    refusal = over_limit(row, 1, len(op.message.serialized) + len(op.options or b""))
    if refusal is not None:
        return refusal
    draft = Draft(row, op.scope.actor, now, trace=op.scope.trace)
    draft.user_message(op, reopens=row.state in PAUSED)
    new = draft.finished()
    return draft.write(new, commands.Added(row=new, generation=new.generation, added=True))


def _put(found: Found, op: commands.Put, now: int) -> Outcome:
    row = found.row
    if row is not None and visible(row, op.scope) is None:
        return AlreadyExists(f"the task id {op.task.id} is in use", reason="ID_TAKEN")
    if row is not None and row.origin == MANAGED:
        return Refused(
            f"task {row.id} is run by taskplane and cannot be replaced",
            reason="MANAGED",
            suggestion="send a message to the task or cancel it",
        )
    at = row.generation if row is not None else 0
    if op.expected_generation and op.expected_generation != at:
        return _generation_mismatch(op.task.id, op.expected_generation, at)
    if not op.task.context_id:
        return Invalid("task.context_id is required", reason="NO_CONTEXT", fields={"context_id": "is required"})
    state = int(op.task.status.state)
    if state not in STATES and state != 0:
        return Invalid(f"the task state {state} is unknown", fields={"status.state": "is unknown"})
    given = shown_document(op.task, op.without) if op.without else op.task
    if op.without.issuperset(turns_in(op.task, row.invocation_id if row is not None else None) or [""]):
        return _task_deleted(op.task.id)
    task = stored_document(given, found.document, now, op.known)
    content = task.SerializeToString()
    if row is None:
        row = _new_document(op, now)
    turn = turn_of(task) or op.own_turn or goes_on_in(row, found.document, task) or op.uid
    draft = Draft(row, op.scope.actor, now, trace=op.scope.trace)
    if row.superseded and (turn, task.context_id) != (row.invocation_id, row.context_id):
        # It continues in a turn that the rewind did not cut.
        draft.mark(superseded=False)
    turns = turns_in(task, turn)
    cut = unpack_turns(row.cut_turns).intersection(turns) if task.context_id == row.context_id else ()
    draft.new["cut_turns"] = pack_turns(cut)
    draft.replaced(state)
    draft.new["invocation_id"] = turn
    draft.new["agent"] = op.agent or row.agent
    draft.new["context_id"] = task.context_id
    draft.new["snapshot_generation"] = draft.generation
    draft.new["snapshot_bytes"] = len(content)
    new = draft.finished()
    if op.validate_only:
        return commands.Checked(new, task, at == 0, turns, turns_of(task))
    return Write(new, draft.events, commands.Done(new, at == 0, turns), draft.new, document=content)


def _new_document(op: commands.Put, now: int) -> Row:
    create = commands.Create(
        scope=op.scope,
        uid=op.uid,
        salt=op.salt,
        task_id=op.task.id,
        invocation_id="",
        request_hash=b"",
        agent=op.agent,
        context_id=op.task.context_id,
        message=UserMessage(b"", ""),
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


def _task_deleted(task_id: str) -> PlaneError:
    return Refused(
        f"the messages of task {task_id} were deleted and cannot be stored again",
        reason="TASK_DELETED",
        suggestion="leave its messages out, and store the following ones under another task id",
    )


def _generation_mismatch(task_id: str, expected: int, at: int) -> Conflict:
    return Conflict(
        f"task {task_id} is at generation {at}, not {expected}",
        reason="GENERATION_MISMATCH",
        metadata={"generation": str(at)},
    )


def _delete(found: Found, op: commands.Delete, now: int) -> Outcome:
    row = visible(found.row, op.scope)
    if row is None:
        return task_not_found(op.task_id)
    if op.expected_generation and op.expected_generation != row.generation:
        return _generation_mismatch(op.task_id, op.expected_generation, row.generation)
    if row.origin == DOCUMENT or row.state in TERMINAL:
        return Write(row=row, events=(), answer=commands.Done(row=row), delete=True)
    draft = canceled(row, op.scope, now, found.open_text)
    last = draft.finished()
    return Write(last, draft.events, commands.Done(last), draft.new, delete=True)


def _mark_copied(found: Found, op: commands.MarkCopied, now: int) -> Outcome:
    row = found.row
    if row is None:
        return NotFound("the task does not exist", reason="TASK_NOT_FOUND")
    if row.origin == DOCUMENT:
        return not_managed(row)
    if op.generation > row.generation:
        return Invalid(
            f"task {row.id} has no generation {op.generation}",
            reason="BEYOND_HEAD",
            fields={"generation": "must be at most the newest generation"},
        )
    if op.generation <= row.copied_generation:
        return commands.Done(row=row)
    values = {"copied_generation": op.generation}
    new = changed_by(row, values)
    return Write(new, (), commands.Done(new), values)


_RULES: dict[type, Callable[[Found, Any, int], Outcome]] = {
    commands.Create: _create,
    commands.Append: append,
    commands.AddMessage: _add_message,
    commands.Cancel: cancel,
    commands.Put: _put,
    commands.Delete: _delete,
    commands.Claim: claim,
    commands.Orphan: orphan,
    commands.TimeOut: time_out,
    commands.MarkCopied: _mark_copied,
    commands.MarkSuperseded: mark_superseded,
    commands.Trim: trim,
}
