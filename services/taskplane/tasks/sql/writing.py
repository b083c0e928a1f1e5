"""The statements that write many rows at once."""

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, insert, update

from taskplane.storage.dialects import Dialect
from taskplane.tasks.domain.task import Event, Lease, Row
from taskplane.tasks.tables import event, lease, task
from taskplane.tasks.triggers import FIXED

# What an UPDATE writes: the first of these that has every column which changes. Few statements, so that many rows share
# one; and narrow ones, since SQLite writes every index anew that has a column which SET names, changed or not.
ITEM: Final = frozenset(
    {
        "generation",
        "event_bytes",
        "updated_at",
        "item_fence",
        "item_number",
        "item_first",
        "item_last",
        "started",
        "message_id",
        "partial_generation",
        "partial_id",
        "artifact_id",
    }
)
_CHANGING: Final = frozenset(Row._fields) - FIXED
_WIDTHS: Final[Sequence[frozenset[str]]] = (
    # Brought in line with its session, without or with a mark.
    frozenset({"superseded_seq"}),
    frozenset({"superseded_seq", "superseded", "generation", "updated_at", "event_bytes"}),
    # Trimmed.
    frozenset({"trimmed_generation"}),
    # An append, in no index.
    ITEM,
    ITEM | {"message_generation", "copied_generation"},
    # Whatever happens to a managed task. Snapshots are written with these or the next.
    _CHANGING - {"agent", "context_id", "invocation_id", "superseded", "superseded_seq", "trimmed_generation"},
    _CHANGING,
)
_WITH_SNAPSHOT: Final = 5

# A statement that fails takes its transaction with it. So SQLite need not be able to take back the statement alone, for
# which it would make a savepoint each time, as soon as a table has triggers.
_OR_FAIL: Final = "OR FAIL"


_UPDATE: Final = update(task).where(task.c.uid == bindparam("of_uid")).prefix_with(_OR_FAIL, dialect="sqlite")
_INSERT_EVENTS: Final = insert(event).prefix_with(_OR_FAIL, dialect="sqlite")
_INSERT_LEASES: Final = insert(lease).prefix_with(_OR_FAIL, dialect="sqlite")
_DELETE_LEASES: Final = delete(lease).where(lease.c.task_uid == bindparam("of_uid"))
_DELETE_TASKS: Final = delete(task).where(task.c.uid == bindparam("of_uid"))
_DELETE_EVENTS: Final = delete(event).where(event.c.task_uid == bindparam("of_uid"))


class Writing:
    """The rows that one transaction writes, in an order that every trigger allows."""

    def __init__(self, dialect: Dialect) -> None:
        self._insert_tasks = dialect.insert_ignore(task)

    def insert_tasks(self, conn: Connection, new: Sequence[tuple[Row, bytes]]) -> int:
        """Insert rows with their snapshots; one whose key is taken is left out. For a single row: how many went in."""
        rows = [{**row._asdict(), "snapshot": snapshot} for row, snapshot in new]
        return conn.execute(self._insert_tasks, rows).rowcount

    def update_tasks(self, conn: Connection, changes: Iterable[tuple[Row, Collection[str], bytes | None]]) -> None:
        """Write the row as it will be, given the names of the fields that may have changed and its new snapshot."""
        groups: dict[tuple[int, bool], list[dict[str, Any]]] = {}
        for row, fields, snapshot in changes:
            width = _width(tuple(fields), 0 if snapshot is None else _WITH_SNAPSHOT)
            values = {name: getattr(row, name) for name in _WIDTHS[width]}
            values["of_uid"] = row.uid
            if snapshot is not None:
                values["snapshot"] = snapshot
            groups.setdefault((width, snapshot is not None), []).append(values)
        for rows in groups.values():
            conn.execute(_UPDATE, rows)

    def insert_events(self, conn: Connection, events: Sequence[Event]) -> None:
        """Insert events after their tasks; those of a task in order."""
        if events:
            conn.execute(_INSERT_EVENTS, [event._asdict() for event in events])

    def insert_leases(self, conn: Connection, leases: Sequence[Lease]) -> None:
        """Insert leases after their tasks name them."""
        if leases:
            conn.execute(_INSERT_LEASES, [lease._asdict() for lease in leases])

    def delete_leases(self, conn: Connection, rows: Sequence[Row]) -> None:
        """Delete the leases of tasks that have lost them; they are locked already."""
        if rows:
            conn.execute(_DELETE_LEASES, [{"of_uid": row.uid} for row in rows])

    def delete_tasks(self, conn: Connection, rows: Sequence[Row]) -> None:
        """Delete tasks with their events; a managed one must have ended."""
        if rows:
            uids = [{"of_uid": row.uid} for row in rows]
            conn.execute(_DELETE_TASKS, uids)
            conn.execute(_DELETE_EVENTS, uids)


@cache
def _width(fields: tuple[str, ...], least: int) -> int:
    """Return the number of the narrowest width for these fields."""
    return next(number for number in range(least, len(_WIDTHS)) if _WIDTHS[number].issuperset(fields))
