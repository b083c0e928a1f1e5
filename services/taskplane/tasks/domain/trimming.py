"""The rules of retention: what may go of a log, and when. What a client sees as the task is never touched."""

from typing import Final

from taskplane.tasks.domain import commands
from taskplane.tasks.domain.commands import Found, Trimmed, Write
from taskplane.tasks.domain.task import DOCUMENT, Row, changed_by

# So many of a document's newest counters stay, so that it is not trimmed for each that it gets.
COUNTERS: Final = 64


def trim(found: Found, op: commands.Trim, now: int) -> Write | Trimmed:
    """Forgets events of the log, those of a document task or of one that ended long ago, from its oldest on."""
    row = found.row
    if row is None or (last := trimmable_to(row, op.ended_before)) <= row.trimmed_generation:
        return Trimmed()
    first = row.trimmed_generation
    up_to = min(last, first + op.at_most)
    values = {"trimmed_generation": up_to}
    answer = Trimmed(more=up_to < last)
    refold = row.snapshot_generation < row.generation
    return Write(changed_by(row, values), (), answer, values, refold=refold, trims=(first, up_to))


def trimmable_to(row: Row, ended_before: int) -> int:
    """The newest generation that may go; 0: none may."""
    if row.origin == DOCUMENT:
        return row.generation - COUNTERS
    if row.terminal_generation is None or row.status_at >= ended_before:
        return 0
    return row.terminal_generation - 1 if row.copied_generation >= row.message_generation else 0
