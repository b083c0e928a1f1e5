"""Retention: up to where the log of a task was trimmed.

SQLite gets a new table `task`: a column behind the snapshot would be read across all of it.
"""

import sqlalchemy as sa
from alembic import op

from taskplane.storage.dialects import dialect_of

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_NAME = "trimmed_generation"
_DEFINED = "trimmed_generation BIGINT NOT NULL, \n\t"
_SNAPSHOT = "snapshot BLOB NOT NULL"
_OF_TASK = "FROM sqlite_master WHERE tbl_name = 'task' AND sql IS NOT NULL"
_INDEXES = (
    (
        "task_trimmable",
        ["status_at", "uid"],
        "origin = 'managed' AND terminal_generation IS NOT NULL AND terminal_generation > trimmed_generation + 1",
    ),
    ("task_documents", ["uid"], "origin = 'document'"),
)


def upgrade() -> None:
    conn = op.get_bind()
    dialect = dialect_of(conn)
    if dialect.name == "sqlite":
        _rebuild_task(conn, _SNAPSHOT, _DEFINED + _SNAPSHOT, ", 0")
    else:
        op.add_column("task", sa.Column(_NAME, sa.BigInteger, nullable=False, server_default="0"))
        op.alter_column("task", _NAME, server_default=None)
    for name, columns, where in _INDEXES:
        op.create_index(name, "task", columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def downgrade() -> None:
    """Refuse where a log was trimmed: the version before takes every log for whole."""
    conn = op.get_bind()
    dialect = dialect_of(conn)
    if conn.exec_driver_sql(f"SELECT 1 FROM task WHERE {_NAME} > 0 LIMIT 1").first() is not None:
        raise ValueError("some logs were trimmed, which version 0002 does not know of")
    for name, _, _ in _INDEXES:
        op.drop_index(name, "task")
    if dialect.name == "sqlite":
        _rebuild_task(conn, _DEFINED + _SNAPSHOT, _SNAPSHOT, "")
    else:
        op.drop_column("task", _NAME)


def _rebuild_task(conn: sa.Connection, before: str, after: str, value: str) -> None:
    """Make the table anew with `after` for `before` in its definition, and copy every task into it."""
    made = _definitions(conn, "table")[0]
    if before not in made:
        raise ValueError("the table of tasks is not as the version before made it")
    indexes = _definitions(conn, "index")
    kept = [str(row[1]) for row in conn.exec_driver_sql("PRAGMA table_info(task)") if row[1] != _NAME]
    for (name,) in conn.exec_driver_sql(f"SELECT name {_OF_TASK} AND type = 'index'").all():
        op.drop_index(name, "task")
    conn.exec_driver_sql("ALTER TABLE task RENAME TO task_before")
    conn.exec_driver_sql(made.replace(before, after))
    names = ", ".join(kept)
    added = f", {_NAME}" if value else ""
    conn.exec_driver_sql(f"INSERT INTO task ({names}{added}) SELECT {names}{value} FROM task_before")
    conn.exec_driver_sql("DROP TABLE task_before")
    for index in indexes:
        conn.exec_driver_sql(index)


def _definitions(conn: sa.Connection, kind: str) -> list[str]:
    return [str(sql) for (sql,) in conn.exec_driver_sql(f"SELECT sql {_OF_TASK} AND type = '{kind}' ORDER BY name")]
