"""Reads and deletions of retention."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, bindparam, delete, func, select, text, tuple_

from taskplane.tasks.domain.task import Row
from taskplane.tasks.domain.trimming import COUNTERS
from taskplane.tasks.sql.statements import ROW_COLUMNS, to_row
from taskplane.tasks.tables import DOCUMENTS, TRIMMABLE, event, lasting, task

_TRIMMABLE: Final = (
    select(*ROW_COLUMNS)
    .where(
        text(TRIMMABLE),
        task.c.status_at < bindparam("ended_before"),
        tuple_(task.c.status_at, task.c.uid) > tuple_(bindparam("after_at"), bindparam("after_uid")),
        task.c.copied_generation >= task.c.message_generation,
    )
    .order_by(task.c.status_at, task.c.uid)
    .limit(bindparam("limit"))
)
_DOCUMENTS: Final = (
    select(*ROW_COLUMNS)
    .where(
        text(DOCUMENTS),
        task.c.uid > bindparam("after"),
        task.c.generation - task.c.trimmed_generation > COUNTERS,
    )
    .order_by(task.c.uid)
    .limit(bindparam("limit"))
)
_in_range: Final = (
    event.c.task_uid == bindparam("uid"),
    event.c.generation > bindparam("after"),
    event.c.generation <= bindparam("up_to"),
    text(f"NOT {lasting()}"),
)
# Both engines know the size of a payload without reading it.
_REMOVABLE: Final = select(
    func.count().label("events"), func.coalesce(func.sum(func.length(event.c.payload)), 0).label("bytes")
).where(*_in_range)
_TRIM: Final = delete(event).where(*_in_range)


def trimmable(conn: Connection, ended_before: int, after: tuple[int, str], limit: int) -> Sequence[Row]:
    """Implement `TaskLog.trimmable`."""
    parameters = {"ended_before": ended_before, "after_at": after[0], "after_uid": after[1], "limit": limit}
    return [to_row(values) for values in conn.execute(_TRIMMABLE, parameters)]


def untrimmed_documents(conn: Connection, after: str, limit: int) -> Sequence[Row]:
    """Implement `TaskLog.untrimmed_documents`."""
    return [to_row(values) for values in conn.execute(_DOCUMENTS, {"after": after, "limit": limit})]


def removable(conn: Connection, trims: Sequence[tuple[str, int, int]]) -> tuple[int, int]:
    """Implement `TaskLog.removable`."""
    events = size = 0
    for uid, after, up_to in trims:
        found = conn.execute(_REMOVABLE, {"uid": uid, "after": after, "up_to": up_to}).one()
        events, size = events + found.events, size + int(found.bytes)
    return events, size


def trim(conn: Connection, uid: str, after: int, up_to: int) -> tuple[int, int]:
    """Delete the events of a range that do not last; return how many there were, and their bytes.

    The row of the task must say already that its log is trimmed that far.
    """
    events, size = removable(conn, [(uid, after, up_to)])
    if events:
        conn.execute(_TRIM, {"uid": uid, "after": after, "up_to": up_to})
    return events, size
