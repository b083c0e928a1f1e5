"""Triggers for rules beyond constraints, for every writer. Each service lists those of its schema."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from taskplane.storage.dialects import Timing, dialect_of


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger that refuses a change where `condition` is true. `columns`: only if one of them is named in SET."""

    name: str
    table: str
    timing: Timing
    condition: str
    message: str
    columns: Sequence[str] | None = None


def install(conn: Connection, triggers: Sequence[Trigger]) -> None:
    """Create these triggers, unless exactly these names exist. Remove all other triggers of their tables."""
    if set(_present(conn, triggers)) == {(trigger.name, trigger.table) for trigger in triggers}:
        return
    remove(conn, triggers)
    dialect = dialect_of(conn)
    for trigger in triggers:
        _execute(
            conn,
            dialect.create_trigger(
                trigger.name, trigger.table, trigger.timing, trigger.columns, trigger.condition, trigger.message
            ),
        )


def remove(conn: Connection, triggers: Sequence[Trigger]) -> None:
    """Remove every trigger from the tables that `triggers` name, also those that an older release made."""
    for name, table in _present(conn, triggers):
        _execute(conn, dialect_of(conn).drop_trigger(name, table))


def _present(conn: Connection, triggers: Sequence[Trigger]) -> list[tuple[str, str]]:
    tables = {trigger.table for trigger in triggers}
    return [(name, table) for name, table in dialect_of(conn).triggers(conn) if table in tables]


def _execute(conn: Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        conn.exec_driver_sql(statement)
