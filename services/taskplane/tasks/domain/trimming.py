"""The rules of retention: which events of a log may be deleted, and when. The task that clients see never changes."""

from typing import Final

from taskplane.tasks.domain import commands
from taskplane.tasks.domain.commands import Found, Trimmed, Write
from taskplane.tasks.domain.task import DOCUMENT, Row, changed_by

# The number of newest events of a document that are kept, so that it is not trimmed after each new event.
COUNTERS: Final = 64


def trim(found: Found, op: commands.Trim, now: int) -> Write | Trimmed:
    """Delete the oldest events in the log of a document task or of a task that ended long ago."""
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
    """Return the newest generation that may be deleted; 0 if no event may be deleted."""
    if row.origin == DOCUMENT:
        return row.generation - COUNTERS
    if row.terminal_generation is None or row.status_at >= ended_before:
        return 0
    return row.terminal_generation - 1 if row.copied_generation >= row.message_generation else 0
