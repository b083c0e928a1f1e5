"""The rules for an executor's item: it counts once, only under the current fence, and never past an unread message."""

from taskplane.runtime.errors import Invalid, NotFound, PlaneError, Refused
from taskplane.tasks.domain.commands import Append, Appended, Found, Write
from taskplane.tasks.domain.drafts import Draft
from taskplane.tasks.domain.limits import over_limit
from taskplane.tasks.domain.task import COMPLETED, DOCUMENT, PAUSED, TERMINAL, Row


def append(found: Found, op: Append, now: int) -> Write | Appended:
    """Decide an item: write it, answer a repeat as before, or refuse it; a refusal is an answer."""
    row = found.row
    if row is None:
        return _refused(None, NotFound("the task does not exist", reason="TASK_NOT_FOUND"))
    if row.origin == DOCUMENT:
        return _refused(row, Refused("a task of another runtime has no executor", reason="NOT_MANAGED"))
    if row.item_fence == op.fence and row.item_number == op.number:
        return _answer(row, row.item_first or 0, row.item_last or 0)
    refusal = _refusal(row, op)
    if refusal is not None:
        return _refused(row, refusal)
    draft = Draft(row, op.actor, now, trace=op.trace, artifacts=found.artifacts)
    consumed = max(op.consumed_generation, row.consumed_generation)
    if op.usage is not None:
        draft.count(op.usage)
    if draft.usage is not None and op.tells_usage:
        draft.count(None)
    last = len(op.changes) - 1
    for index, change in enumerate(op.changes):
        refusal = draft.change(change, last=index == last, consumed=consumed, open_text=found.open_text)
        if refusal is not None:
            return _refused(row, refusal)
    state = draft.state
    rests = state in PAUSED or state == COMPLETED
    if rests and consumed < row.input_generation:
        return _refused(
            row,
            Refused(
                f"the run of task {row.id} has an unread message",
                reason="PENDING_INPUT",
                metadata={"input_generation": str(row.input_generation)},
            ),
        )
    if op.changes or op.usage is not None:
        draft.new["started"] = True
    if state in PAUSED:
        draft.lose_lease()
        draft.new["attempt"] = 0
        draft.new["ready_at"] = None
    if rests:
        draft.new["consumed_generation"] = consumed
    if op.copied_generation > row.copied_generation:
        draft.new["copied_generation"] = op.copied_generation
    first, last_generation = (draft.events[0].generation, draft.generation) if draft.events else (0, 0)
    draft.new["item_fence"] = op.fence
    draft.new["item_number"] = op.number
    draft.new["item_first"] = first
    draft.new["item_last"] = last_generation
    new = draft.finished()
    return draft.write(new, _answer(new, first, last_generation), refold=state in TERMINAL)


def _refusal(row: Row, op: Append) -> PlaneError | None:
    if row.state in TERMINAL:
        return Refused(f"task {row.id} has ended", reason="TERMINAL")
    if op.fence != row.fence or row.lease_owner is None:
        return Refused(f"task {row.id} is no longer held under fence {op.fence}", reason="FENCED")
    if op.number < 1 or (row.item_fence == op.fence and op.number < (row.item_number or 0)):
        return Invalid(
            "item numbers must grow by one under each fence",
            reason="ITEM_NUMBER",
            fields={"number": "must be greater than the number of the previous item"},
        )
    if max(op.consumed_generation, op.copied_generation) > row.generation:
        return Invalid(
            "the generation is beyond the newest one of the task",
            reason="BEYOND_HEAD",
            fields={"copied_generation": "beyond"},
        )
    size = sum([len(change.serialized) for change in op.changes if change is not None])
    return over_limit(row, len(op.changes), size, ends=len(op.changes) == 1 and op.state in TERMINAL)


def _answer(row: Row, first: int, last: int) -> Appended:
    # Events after the item moved the time of the row.
    created_at = row.updated_at if last and last == row.generation else 0
    return Appended(first, last, row.input_generation, created_at)


def _refused(row: Row | None, refusal: PlaneError) -> Appended:
    pending = row.input_generation if row is not None else 0
    return Appended(first_generation=0, last_generation=0, input_generation=pending, refusal=refusal)
