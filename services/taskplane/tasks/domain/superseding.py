"""The rules for the marks of a rewind: tasks that it cut are hidden, and shown again when the rewind is undone."""

from taskplane.tasks.domain import commands
from taskplane.tasks.domain.commands import Found, Write, Writes
from taskplane.tasks.domain.documents import pack_turns, turns_in
from taskplane.tasks.domain.drafts import Draft
from taskplane.tasks.domain.ending import canceled, visible
from taskplane.tasks.domain.task import ACTIVE, DOCUMENT, Row, changed_by


def mark_superseded(found: Found, op: commands.MarkSuperseded, now: int) -> Writes:
    """Hide or show each task of the session that does not agree with the session yet. Answer with the changed tasks."""
    writes = [write for each in found.others if (write := _in_line(each, op, now)) is not None]
    return Writes(writes, commands.Marked([write.row for write in writes if write.events]))


def _in_line(found: Found, op: commands.MarkSuperseded, now: int) -> Write | None:
    row = visible(found.row, op.scope)
    if row is None or row.context_id != op.context_id:
        return None
    if row.origin == DOCUMENT:
        return _document_in_line(row, found, op, now)
    if op.steered_seq <= row.superseded_seq:
        return None
    if found.cut == row.superseded:
        values = {"superseded_seq": op.steered_seq}
        return Write(changed_by(row, values), (), None, values)
    runs = found.cut and row.state in ACTIVE
    by = op.scope
    draft = canceled(row, by, now, found.open_text) if runs else Draft(row, by.actor, now, trace=by.trace)
    draft.mark(superseded=found.cut)
    draft.new["superseded_seq"] = op.steered_seq
    return draft.write(draft.finished(), None, refold=runs)


def _document_in_line(row: Row, found: Found, op: commands.MarkSuperseded, now: int) -> Write | None:
    """Hide a document, show it again, or show it without the turns that are cut. It runs elsewhere, and goes on.

    It is looked at again for the same entry, since it may name other turns by now.
    """
    if op.steered_seq < row.superseded_seq:
        return None
    turns = frozenset(turns_in(found.document, row.invocation_id) if found.document is not None else ())
    cut = turns & op.cut
    hidden, packed = bool(cut) and cut == turns, pack_turns(cut)
    values: dict[str, object] = {"superseded_seq": op.steered_seq, "cut_turns": packed}
    if (hidden, packed) == (row.superseded, row.cut_turns):
        if op.steered_seq == row.superseded_seq:
            return None
        return Write(changed_by(row, values), (), None, values)
    draft = Draft(row, op.scope.actor, now, trace=op.scope.trace)
    if hidden != row.superseded:
        draft.mark(superseded=hidden)
    else:
        draft.replaced(row.state)
    draft.new |= values
    return draft.write(draft.finished(), None)
