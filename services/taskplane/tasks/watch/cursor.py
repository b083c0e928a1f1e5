"""Cursors: positions in the log of a task, written `<incarnation>-<generation>`."""

import re
from typing import Final

from taskplane.runtime.errors import Invalid, OutOfRange
from taskplane.tasks.domain.drafts import trimmed

_CURSOR: Final = re.compile(r"([a-z2-7]{1,64})-([0-9]{1,19})", re.ASCII)


def parse(cursor: str) -> tuple[str, int]:
    """Return the incarnation and the generation of a cursor. Invalid `CURSOR_MALFORMED`: it has another form."""
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise Invalid(
            "the cursor is malformed",
            reason="CURSOR_MALFORMED",
            suggestion="send an unchanged event id of this task",
            fields={"cursor": "must be <incarnation>-<generation>"},
        )
    return match[1], int(match[2])


def check(place: int, incarnation: str, *, own: str, head: int, trimmed_to: int) -> None:
    """Raise OutOfRange unless the log of the incarnation `own` has the events after `place`.

    `CURSOR_FOREIGN`: `incarnation` is another log. `CURSOR_AHEAD`: `place` is beyond `head`. `CURSOR_TRIMMED`: events
    after `place` were removed, which reaches to `trimmed_to`.
    """
    if incarnation != own:
        raise OutOfRange(
            "the cursor belongs to an earlier log of this task",
            reason="CURSOR_FOREIGN",
            suggestion="take a snapshot: call again without a cursor",
        )
    if place > head:
        raise OutOfRange(
            f"the cursor is beyond generation {head}, the newest of this task",
            reason="CURSOR_AHEAD",
            suggestion="take a snapshot: call again without a cursor",
            metadata={"generation": str(head)},
        )
    if place < trimmed_to:
        raise trimmed(trimmed_to)
