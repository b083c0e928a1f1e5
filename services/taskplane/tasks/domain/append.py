"""The rules of an executor's item: it counts once, only under the current fence, and never past an unread message."""

from taskplane.runtime.errors import Exhausted, Invalid, NotFound, PlaneError, Refused
from taskplane.tasks.domain.drafts import Draft
from taskplane.tasks.domain.operations import Append, Appended, Found, Write
from taskplane.tasks.domain.task import COMPLETED, DOCUMENT, PAUSED, TERMINAL, Row, changed

MAX_EVENTS = 50_000
MAX_BYTES = 64 * 1024 * 1024


def append(found: Found, op: Append, now: int) -> Write | Appended:
    """What becomes of an item: written, answered as before, or refused; a refusal is an answer."""
    row = found.row
    if row is None:
        return _refused(None, NotFound("no such task", reason="TASK_NOT_FOUND"))
    if row.origin == DOCUMENT:
        return _refused(row, Refused("a document task has no executor", reason="NOT_MANAGED"))
    if row.item_fence == op.fence and row.item_number == op.number:
        return _answer(row, row.item_first or 0, row.item_last or 0)
    refusal = _refusal(row, op)
    if refusal is not None:
        return _refused(row, refusal)
    draft = Draft(row, op.actor, now, artifacts=found.artifacts)
    consumed = max(op.consumed_generation, row.consumed_generation)
    for index, change in enumerate(op.changes):
        last = index == len(op.changes) - 1
        refusal = draft.change(change, last=last, consumed=consumed, open_text=found.open_text)
        if refusal is not None:
            return _refused(row, refusal)
    state = draft.row.state
    rests = state in PAUSED or state == COMPLETED
    if rests and consumed < row.input_generation:
        return _refused(
            row,
            Refused(
                f"task {row.id} has a message that its run has not read",
                reason="PENDING_INPUT",
                metadata={"input_generation": str(row.input_generation)},
            ),
        )
    if op.changes:
        draft.row = changed(draft.row, started=True)
    if state in PAUSED:
        draft.lose_lease()
        draft.row = changed(draft.row, attempt=0, ready_at=None)
    first, last_generation = (draft.events[0].generation, draft.events[-1].generation) if draft.events else (0, 0)
    draft.row = changed(
        draft.row,
        item_fence=op.fence,
        item_number=op.number,
        item_first=first,
        item_last=last_generation,
        copied_generation=max(row.copied_generation, op.copied_generation),
        consumed_generation=consumed if rests else row.consumed_generation,
    )
    return draft.write(_answer(draft.row, first, last_generation), refold=state in TERMINAL)


def _refusal(row: Row, op: Append) -> PlaneError | None:
    if row.state in TERMINAL:
        return Refused(f"task {row.id} has ended", reason="TERMINAL")
    if op.fence != row.fence or row.lease_owner is None:
        return Refused(f"task {row.id} is no longer held under fence {op.fence}", reason="FENCED")
    if op.number < 1 or (row.item_fence == op.fence and op.number < (row.item_number or 0)):
        return Invalid(
            "item numbers grow by one under each fence", reason="ITEM_NUMBER", fields={"number": "is too low"}
        )
    if max(op.consumed_generation, op.copied_generation) > row.generation:
        return Invalid(
            "the task has no such generation yet", reason="BEYOND_HEAD", fields={"copied_generation": "beyond"}
        )
    ends = (
        len(op.changes) == 1 and op.changes[0].HasField("status") and int(op.changes[0].status.status.state) in TERMINAL
    )
    if not ends and (row.generation + len(op.changes) > MAX_EVENTS or row.event_bytes > MAX_BYTES):
        return Exhausted(
            f"task {row.id} has reached its limit of {MAX_EVENTS} events or {MAX_BYTES} bytes",
            reason="TASK_TOO_LARGE",
            suggestion="end this task and go on in a new one",
        )
    return None


def _answer(row: Row, first: int, last: int) -> Appended:
    return Appended(first_generation=first, last_generation=last, input_generation=row.input_generation)


def _refused(row: Row | None, refusal: PlaneError) -> Appended:
    pending = row.input_generation if row is not None else 0
    return Appended(first_generation=0, last_generation=0, input_generation=pending, refusal=refusal)
