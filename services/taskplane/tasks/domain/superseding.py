"""The rules for the marks of a rewind: tasks that it cut are hidden, and shown again when the rewind is undone."""

from taskplane.tasks.domain import commands
from taskplane.tasks.domain.commands import Found, Write, Writes
from taskplane.tasks.domain.drafts import Draft
from taskplane.tasks.domain.ending import canceled, visible
from taskplane.tasks.domain.task import ACTIVE, MANAGED, changed_by


def mark_superseded(found: Found, op: commands.MarkSuperseded, now: int) -> Writes:
    """Hide or show each task of the session that is not in line with it yet; answer with those that changed."""
    writes = [write for each in found.others if (write := _in_line(each, op, now)) is not None]
    return Writes(writes, commands.Marked([write.row for write in writes if write.events]))


def _in_line(found: Found, op: commands.MarkSuperseded, now: int) -> Write | None:
    row = visible(found.row, op.scope)
    if row is None or row.context_id != op.context_id:
        return None
    if op.steered_seq <= row.superseded_seq:
        return None
    if found.cut == row.superseded:
        values = {"superseded_seq": op.steered_seq}
        return Write(changed_by(row, values), (), None, values)
    # Document tasks run elsewhere and are not canceled from here.
    runs = found.cut and row.origin == MANAGED and row.state in ACTIVE
    by = op.scope
    draft = canceled(row, by, now, found.open_text) if runs else Draft(row, by.actor, now, trace=by.trace)
    draft.mark(superseded=found.cut)
    draft.new["superseded_seq"] = op.steered_seq
    return draft.write(draft.finished(), None, refold=runs)
