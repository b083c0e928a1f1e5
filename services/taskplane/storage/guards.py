"""Guards: triggers that refuse what constraints cannot, whoever asks. Each room says which its schema has."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from taskplane.storage.dialects import Timing, dialect_of


@dataclass(frozen=True, slots=True)
class Guard:
    """A trigger that refuses a change where `condition` is true. `columns`: only if one of them is named in SET."""

    name: str
    table: str
    timing: Timing
    condition: str
    message: str
    columns: Sequence[str] | None = None


def install(conn: Connection, guards: Sequence[Guard]) -> None:
    """Makes them, unless exactly these are there by name; others of their tables are removed."""
    if set(_present(conn, guards)) == {(guard.name, guard.table) for guard in guards}:
        return
    remove(conn, guards)
    dialect = dialect_of(conn)
    for guard in guards:
        _execute(
            conn,
            dialect.guard_trigger(guard.name, guard.table, guard.timing, guard.columns, guard.condition, guard.message),
        )


def remove(conn: Connection, guards: Sequence[Guard]) -> None:
    """Removes every trigger from the tables of these guards, also those that an older release made."""
    for name, table in _present(conn, guards):
        _execute(conn, dialect_of(conn).drop_guard_trigger(name, table))


def _present(conn: Connection, guards: Sequence[Guard]) -> list[tuple[str, str]]:
    tables = {guard.table for guard in guards}
    return [(name, table) for name, table in dialect_of(conn).triggers(conn) if table in tables]


def _execute(conn: Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        conn.exec_driver_sql(statement)
