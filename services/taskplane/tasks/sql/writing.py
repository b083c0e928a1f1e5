"""The statements that write many rows at once.

They get their parameters by position, straight from the domain's tuples.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, insert, update

from taskplane.storage.dialects import Dialect
from taskplane.storage.prepared import Many
from taskplane.tasks.domain.task import Event, Row
from taskplane.tasks.sql.guards import FIXED
from taskplane.tasks.tables import INDEXED, event, task

_ROW: Final = {name: place for place, name in enumerate(Row._fields)}
_ROW_AND_SNAPSHOT: Final = {**_ROW, "snapshot": len(_ROW)}
_CHANGING: Final = [name for name in Row._fields if name not in FIXED]
_UNINDEXED: Final = [name for name in _CHANGING if name not in INDEXED]
_indexed_values: Final[Callable[[Row], Any]] = itemgetter(*(_ROW[name] for name in sorted(INDEXED)))


def _update(columns: Iterable[str]) -> Many:
    values: dict[str, Any] = {name: bindparam(name) for name in columns}
    places = {**_ROW_AND_SNAPSHOT, "of_uid": _ROW["uid"]}
    return Many(update(task).where(task.c.uid == bindparam("of_uid")).values(values), places)


class Writing:
    """Everything that one transaction writes, in an order that every guard allows."""

    def __init__(self, dialect: Dialect) -> None:
        self._insert_tasks = Many(dialect.insert_ignore(task), _ROW_AND_SNAPSHOT)
        # SQLite writes every index anew that has a column which SET names, changed or not; so an append, which changes
        # none of those as a rule, has statements of its own.
        self._updates = {
            (False, False): _update(_UNINDEXED),
            (False, True): _update([*_UNINDEXED, "snapshot"]),
            (True, False): _update(_CHANGING),
            (True, True): _update([*_CHANGING, "snapshot"]),
        }
        self._insert_events = Many(insert(event), {name: place for place, name in enumerate(Event._fields)})
        self._delete_tasks = Many(delete(task).where(task.c.uid == bindparam("of_uid")), {"of_uid": _ROW["uid"]})
        self._delete_events = Many(
            delete(event).where(event.c.task_uid == bindparam("of_uid")), {"of_uid": _ROW["uid"]}
        )

    def insert_tasks(self, conn: Connection, new: Sequence[tuple[Row, bytes]]) -> int:
        """Rows with their snapshots; one whose key is taken is left out. For a single row: how many went in."""
        return self._insert_tasks.execute(conn, ((*row, snapshot) for row, snapshot in new))

    def update_tasks(self, conn: Connection, changes: Iterable[tuple[Row, Row, bytes | None]]) -> None:
        """The row as it was, as it will be, and its new snapshot if it has one."""
        groups: dict[tuple[bool, bool], list[Sequence[Any]]] = {}
        for old, new, snapshot in changes:
            kind = _indexed_values(old) != _indexed_values(new), snapshot is not None
            groups.setdefault(kind, []).append(new if snapshot is None else (*new, snapshot))
        for kind, rows in groups.items():
            self._updates[kind].execute(conn, rows)

    def insert_events(self, conn: Connection, events: Sequence[Event]) -> None:
        """After their tasks; the events of a task in order."""
        self._insert_events.execute(conn, events)

    def delete_tasks(self, conn: Connection, rows: Sequence[Row]) -> None:
        """With their events; a managed one must have ended."""
        self._delete_tasks.execute(conn, rows)
        self._delete_events.execute(conn, rows)
