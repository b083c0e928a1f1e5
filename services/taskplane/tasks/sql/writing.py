"""The statements that write many rows at once.

They get their parameters by position, straight from the domain's tuples.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, insert, update

from taskplane.storage.dialects import Dialect
from taskplane.storage.prepared import Many
from taskplane.tasks.domain.task import Event, Row
from taskplane.tasks.tables import event, task
from taskplane.tasks.triggers import FIXED

_ROW: Final = {name: place for place, name in enumerate(Row._fields)}
_ROW_AND_SNAPSHOT: Final = {**_ROW, "snapshot": len(_ROW)}

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
    # A renewed lease.
    frozenset({"lease_until"}),
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
_WITH_SNAPSHOT: Final = 6

# A statement that fails takes its transaction with it. So SQLite need not be able to take back the statement alone, for
# which it would make a savepoint each time, as soon as a table has triggers.
_OR_FAIL: Final = "OR FAIL"


def _update(columns: Iterable[str]) -> Many:
    values: dict[str, Any] = {name: bindparam(name) for name in columns}
    places = {**_ROW_AND_SNAPSHOT, "of_uid": _ROW["uid"]}
    statement = update(task).where(task.c.uid == bindparam("of_uid")).values(values)
    return Many(statement.prefix_with(_OR_FAIL, dialect="sqlite"), places)


class Writing:
    """Everything that one transaction writes, in an order that every guard allows."""

    def __init__(self, dialect: Dialect) -> None:
        self._insert_tasks = Many(dialect.insert_ignore(task), _ROW_AND_SNAPSHOT)
        # By the number of their width, and whether they write a snapshot.
        self._updates = {(width, False): _update(columns) for width, columns in enumerate(_WIDTHS)}
        for width in range(_WITH_SNAPSHOT, len(_WIDTHS)):
            self._updates[width, True] = _update([*_WIDTHS[width], "snapshot"])
        # The narrowest width for fields in the order in which they were named.
        self._widths: dict[tuple[int, tuple[str, ...]], int] = {}
        self._insert_events = Many(
            insert(event).prefix_with(_OR_FAIL, dialect="sqlite"),
            {name: place for place, name in enumerate(Event._fields)},
        )
        self._delete_tasks = Many(delete(task).where(task.c.uid == bindparam("of_uid")), {"of_uid": _ROW["uid"]})
        self._delete_events = Many(
            delete(event).where(event.c.task_uid == bindparam("of_uid")), {"of_uid": _ROW["uid"]}
        )

    def insert_tasks(self, conn: Connection, new: Sequence[tuple[Row, bytes]]) -> int:
        """Rows with their snapshots; one whose key is taken is left out. For a single row: how many went in."""
        return self._insert_tasks.execute(conn, ((*row, snapshot) for row, snapshot in new))

    def update_tasks(self, conn: Connection, changes: Iterable[tuple[Row, Collection[str], bytes | None]]) -> None:
        """The row as it will be, the names of the fields that may have changed, and its new snapshot if it has one."""
        groups: dict[tuple[int, bool], list[Sequence[Any]]] = {}
        for row, fields, snapshot in changes:
            if snapshot is None:
                groups.setdefault((self._width(fields, 0), False), []).append(row)
            else:
                groups.setdefault((self._width(fields, _WITH_SNAPSHOT), True), []).append((*row, snapshot))
        for kind, rows in groups.items():
            self._updates[kind].execute(conn, rows)

    def _width(self, fields: Collection[str], least: int) -> int:
        names = least, tuple(fields)
        width = self._widths.get(names)
        if width is None:
            wide = [number for number in range(least, len(_WIDTHS)) if _WIDTHS[number].issuperset(fields)]
            width = self._widths[names] = wide[0]
        return width

    def insert_events(self, conn: Connection, events: Sequence[Event]) -> None:
        """After their tasks; the events of a task in order."""
        self._insert_events.execute(conn, events)

    def delete_tasks(self, conn: Connection, rows: Sequence[Row]) -> None:
        """With their events; a managed one must have ended."""
        self._delete_tasks.execute(conn, rows)
        self._delete_events.execute(conn, rows)
