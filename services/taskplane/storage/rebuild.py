"""Rebuilds a table of SQLite, for a new column that must not be the last one."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from taskplane.storage.dialects import dialect_of


def add_column_before(table: str, column: sa.Column[Any], defined: str, before: str) -> None:
    """Add a column in front of another one of SQLite's table; elsewhere it comes last. For a version of a schema.

    `defined` and `before`: the columns as SQLite defines them, such as "trace BLOB".
    """
    conn = op.get_bind()
    if dialect_of(conn).name == "sqlite":
        rebuild_table(conn, table, before, f"{defined}, \n\t{before}")
    else:
        op.add_column(table, column)


def drop_column_before(table: str, name: str, defined: str, before: str) -> None:
    """Drop a column that `add_column_before` has added."""
    conn = op.get_bind()
    if dialect_of(conn).name == "sqlite":
        rebuild_table(conn, table, f"{defined}, \n\t{before}", before)
    else:
        op.drop_column(table, name)


def rebuild_table(conn: sa.Connection, table: str, before: str, after: str) -> None:
    """Make a table anew with `after` in place of `before` in its definition, and copy every row into it.

    Its indexes are kept; columns that only one of the two tables has are not copied. Raise ValueError if the definition
    has no such text. SQLite only.
    """
    made = _definitions(conn, table, "table")[0]
    if before not in made:
        raise ValueError(f"the table {table} differs from the one of the previous version")
    indexes = _definitions(conn, table, "index")
    was = _columns(conn, table)
    for (name,) in conn.exec_driver_sql(f"SELECT name {_of(table)} AND type = 'index'").all():
        conn.exec_driver_sql(f"DROP INDEX {name}")
    conn.exec_driver_sql(f"ALTER TABLE {table} RENAME TO {table}_before")
    conn.exec_driver_sql(made.replace(before, after, 1))
    kept = ", ".join(name for name in _columns(conn, table) if name in was)
    conn.exec_driver_sql(f"INSERT INTO {table} ({kept}) SELECT {kept} FROM {table}_before")
    conn.exec_driver_sql(f"DROP TABLE {table}_before")
    for index in indexes:
        conn.exec_driver_sql(index)


def _of(table: str) -> str:
    return f"FROM sqlite_master WHERE tbl_name = '{table}' AND sql IS NOT NULL"


def _definitions(conn: sa.Connection, table: str, kind: str) -> list[str]:
    found = conn.exec_driver_sql(f"SELECT sql {_of(table)} AND type = '{kind}' ORDER BY name")
    return [str(sql) for (sql,) in found]


def _columns(conn: sa.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in conn.exec_driver_sql(f"PRAGMA table_info({table})")]
