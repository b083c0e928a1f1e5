"""Sessions of several tasks: which a rewind superseded, which wait for others, and which events changed a state.

SQLite gets a new table `task`: a column behind the snapshot would be read across all of it.
"""

import sqlalchemy as sa
from alembic import op

from taskplane.storage.dialects import dialect_of

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_NEW = ("superseded", "superseded_seq", "in_turn")
_DEFINED = "superseded BOOLEAN NOT NULL, \n\tsuperseded_seq BIGINT NOT NULL, \n\tin_turn BOOLEAN NOT NULL, \n\t"
_SNAPSHOT = "snapshot BLOB NOT NULL"
_OF_TASK = "FROM sqlite_master WHERE tbl_name = 'task' AND sql IS NOT NULL"
_STATE_CHANGES = (
    "changed_to IS NOT NULL AND kind <> 1"
    " AND (kind = 5 OR NOT (changed_to = 3 OR changed_to = 4 OR changed_to = 5 OR changed_to = 7))"
)


def upgrade() -> None:
    conn = op.get_bind()
    dialect = dialect_of(conn)
    op.add_column("event", sa.Column("changed_to", sa.Integer))
    condition = sa.text(_STATE_CHANGES)
    columns = ["task_uid", "generation", "kind", "changed_to", "created_at"]
    op.create_index("event_state_change", "event", columns, sqlite_where=condition, postgresql_where=condition)
    if dialect.name == "sqlite":
        _rebuild_task(conn, _SNAPSHOT, _DEFINED + _SNAPSHOT, ", 0, 0, 0")
    else:
        for name, kind in zip(_NEW, (sa.Boolean, sa.BigInteger, sa.Boolean), strict=True):
            none = "0" if kind is sa.BigInteger else sa.false()
            op.add_column("task", sa.Column(name, kind, nullable=False, server_default=none))
            op.alter_column("task", name, server_default=None)


def downgrade() -> None:
    conn = op.get_bind()
    dialect = dialect_of(conn)
    if dialect.name == "sqlite":
        _rebuild_task(conn, _DEFINED + _SNAPSHOT, _SNAPSHOT, "")
    else:
        for name in _NEW:
            op.drop_column("task", name)
    op.drop_index("event_state_change", "event")
    op.drop_column("event", "changed_to")


def _rebuild_task(conn: sa.Connection, before: str, after: str, values: str) -> None:
    """Make the table anew with `after` for `before` in its definition, and copy every task into it."""
    made = _definitions(conn, "table")[0]
    if before not in made:
        raise ValueError("the table of tasks is not as version 0001 made it")
    indexes = _definitions(conn, "index")
    kept = [str(row[1]) for row in conn.exec_driver_sql("PRAGMA table_info(task)") if row[1] not in _NEW]
    for (name,) in conn.exec_driver_sql(f"SELECT name {_OF_TASK} AND type = 'index'").all():
        op.drop_index(name, "task")
    conn.exec_driver_sql("ALTER TABLE task RENAME TO task_before")
    conn.exec_driver_sql(made.replace(before, after))
    added = ", " + ", ".join(_NEW) if values else ""
    names = ", ".join(kept)
    conn.exec_driver_sql(f"INSERT INTO task ({names}{added}) SELECT {names}{values} FROM task_before")
    conn.exec_driver_sql("DROP TABLE task_before")
    for index in indexes:
        conn.exec_driver_sql(index)


def _definitions(conn: sa.Connection, kind: str) -> list[str]:
    return [str(sql) for (sql,) in conn.exec_driver_sql(f"SELECT sql {_OF_TASK} AND type = '{kind}' ORDER BY name")]
