"""Traces: the event of a call or a run names its trace, and a task the trace that its next run continues.

SQLite gets a new table `task`: a column behind the snapshot would be read across all of it.
"""

import sqlalchemy as sa
from alembic import op

from taskplane.storage.dialects import dialect_of

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_NAME = "trace"
_DEFINED = "trace BLOB, \n\t"
_SNAPSHOT = "snapshot BLOB NOT NULL"
_OF_TASK = "FROM sqlite_master WHERE tbl_name = 'task' AND sql IS NOT NULL"


def upgrade() -> None:
    conn = op.get_bind()
    op.add_column("event", sa.Column(_NAME, sa.LargeBinary))
    if dialect_of(conn).name == "sqlite":
        _rebuild_task(conn, _SNAPSHOT, _DEFINED + _SNAPSHOT)
    else:
        op.add_column("task", sa.Column(_NAME, sa.LargeBinary))


def downgrade() -> None:
    conn = op.get_bind()
    if dialect_of(conn).name == "sqlite":
        _rebuild_task(conn, _DEFINED + _SNAPSHOT, _SNAPSHOT)
    else:
        op.drop_column("task", _NAME)
    op.drop_column("event", _NAME)


def _rebuild_task(conn: sa.Connection, before: str, after: str) -> None:
    """Make the table anew with `after` for `before` in its definition, and copy every task into it."""
    made = _definitions(conn, "table")[0]
    if before not in made:
        raise ValueError("the table of tasks is not as the version before made it")
    indexes = _definitions(conn, "index")
    kept = ", ".join(str(row[1]) for row in conn.exec_driver_sql("PRAGMA table_info(task)") if row[1] != _NAME)
    for (name,) in conn.exec_driver_sql(f"SELECT name {_OF_TASK} AND type = 'index'").all():
        op.drop_index(name, "task")
    conn.exec_driver_sql("ALTER TABLE task RENAME TO task_before")
    conn.exec_driver_sql(made.replace(before, after))
    conn.exec_driver_sql(f"INSERT INTO task ({kept}) SELECT {kept} FROM task_before")
    conn.exec_driver_sql("DROP TABLE task_before")
    for index in indexes:
        conn.exec_driver_sql(index)


def _definitions(conn: sa.Connection, kind: str) -> list[str]:
    return [str(sql) for (sql,) in conn.exec_driver_sql(f"SELECT sql {_OF_TASK} AND type = '{kind}' ORDER BY name")]
