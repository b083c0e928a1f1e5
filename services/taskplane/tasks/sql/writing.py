"""The statements that write many rows at once."""

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, insert, update

from taskplane.storage.dialects import Dialect
from taskplane.storage.fields import marked
from taskplane.storage.prepared import PreparedRows
from taskplane.tasks.domain.kinds import ARTIFACT
from taskplane.tasks.domain.task import Event, Lease, Row, Use
from taskplane.tasks.sql.packing import pack_piece
from taskplane.tasks.tables import event, lease, task
from taskplane.tasks.triggers import FIXED

# The columns that an UPDATE writes: the first of these that has every column which changes. There are few statements,
# so that many rows share one, and narrow ones, since SQLite writes every index anew that has a column which SET names,
# changed or not.
ITEM: Final = marked(Row, Use.BY_ITEM)
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
    # The columns of a managed task that change in its life. Snapshots are written with these columns or the next ones.
    _CHANGING
    - {"agent", "context_id", "cut_turns", "invocation_id", "superseded", "superseded_seq", "trimmed_generation"},
    _CHANGING,
)
_WITH_SNAPSHOT: Final = 5

# A statement that fails takes its transaction with it. So SQLite need not be able to take back the statement alone, for
# which it would make a savepoint each time, as soon as a table has triggers.
_OR_FAIL: Final = "OR FAIL"


_ROW: Final = (*Row._fields, "snapshot")


def _of_uid(columns: Sequence[str]) -> Sequence[str]:
    """Return `columns` with the parameter `of_uid` in the place of the uid."""
    return ["of_uid" if name == "uid" else name for name in columns]


def _update(columns: Iterable[str]) -> PreparedRows:
    values: dict[str, Any] = {name: bindparam(name) for name in columns}
    statement = update(task).where(task.c.uid == bindparam("of_uid")).values(values)
    return PreparedRows(statement.prefix_with(_OR_FAIL, dialect="sqlite"), _of_uid(_ROW))


# By the number of their width, and whether they write a snapshot.
_UPDATES: Final = {
    (number, snapshot): _update([*width, "snapshot"] if snapshot else width)
    for number, width in enumerate(_WIDTHS)
    for snapshot in (False, True)
}
_INSERT_EVENTS: Final = PreparedRows(insert(event).prefix_with(_OR_FAIL, dialect="sqlite"), Event._fields)
_INSERT_LEASES: Final = PreparedRows(insert(lease).prefix_with(_OR_FAIL, dialect="sqlite"), Lease._fields)
_DELETE_LEASES: Final = PreparedRows(delete(lease).where(lease.c.task_uid == bindparam("of_uid")), _of_uid(_ROW))
_DELETE_TASKS: Final = PreparedRows(delete(task).where(task.c.uid == bindparam("of_uid")), _of_uid(_ROW))
_DELETE_EVENTS: Final = PreparedRows(delete(event).where(event.c.task_uid == bindparam("of_uid")), _of_uid(_ROW))


class Writing:
    """The rows that one transaction writes, in an order that every trigger allows."""

    def __init__(self, dialect: Dialect) -> None:
        self._insert_tasks = PreparedRows(dialect.insert_ignore(task), _ROW)
        self._packs = not dialect.compresses

    def insert_tasks(self, conn: Connection, new: Sequence[tuple[Row, bytes]]) -> int:
        """Insert rows with their snapshots. A row with a used key is left out. Return the number of inserted rows,
        which is exact for a single row only."""
        return self._insert_tasks.execute(conn, [(*row, snapshot) for row, snapshot in new])

    def update_tasks(self, conn: Connection, changes: Iterable[tuple[Row, Collection[str], bytes | None]]) -> None:
        """Write the row as it will be, given the names of the fields that may have changed and its new snapshot."""
        groups: dict[tuple[int, bool], list[Sequence[Any]]] = {}
        for row, fields, snapshot in changes:
            width = _width(tuple(fields), 0 if snapshot is None else _WITH_SNAPSHOT)
            groups.setdefault((width, snapshot is not None), []).append((*row, snapshot))
        for kind, rows in groups.items():
            _UPDATES[kind].execute(conn, rows)

    def insert_events(self, conn: Connection, events: Sequence[Event]) -> None:
        """Insert events, after their tasks. The events of a task must be in order."""
        if self._packs:
            events = [one._replace(payload=pack_piece(one.payload)) if one.kind == ARTIFACT else one for one in events]
        _INSERT_EVENTS.execute(conn, events)

    def insert_leases(self, conn: Connection, leases: Sequence[Lease]) -> None:
        """Insert leases after their tasks name them."""
        _INSERT_LEASES.execute(conn, leases)

    def delete_leases(self, conn: Connection, rows: Sequence[Row]) -> None:
        """Delete the leases of tasks that have lost them; they are locked already."""
        _DELETE_LEASES.execute(conn, rows)

    def delete_tasks(self, conn: Connection, rows: Sequence[Row]) -> None:
        """Delete tasks with their events. A managed task must have ended."""
        _DELETE_TASKS.execute(conn, rows)
        _DELETE_EVENTS.execute(conn, rows)


@cache
def _width(fields: tuple[str, ...], least: int) -> int:
    """Return the number of the narrowest width for these fields."""
    return next(number for number in range(least, len(_WIDTHS)) if _WIDTHS[number].issuperset(fields))
