"""The agent's turn: options of a turn, status texts, checkpoints, and limits on how long a task waits.

SQLite gets a new table `task`: columns behind the snapshot would be read across all of it.
"""

import sqlalchemy as sa
from alembic import op

from taskplane.storage.dialects import dialect_of
from taskplane.storage.rebuild import rebuild_table

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_NEW = ("checkpoint_generation", "queue_limit", "pause_limit", "limit_at")
_SNAPSHOT = "snapshot BLOB NOT NULL"
_DEFINED = "".join(f"{name} BIGINT, \n\t" for name in _NEW) + _SNAPSHOT
_INDEXES = (
    ("event_status_text", "event", ["task_uid", "generation"], "kind = 8"),
    ("task_limited", "task", ["limit_at"], "limit_at IS NOT NULL"),
)


def upgrade() -> None:
    conn = op.get_bind()
    op.add_column("event", sa.Column("options", sa.LargeBinary))
    if dialect_of(conn).name == "sqlite":
        rebuild_table(conn, "task", _SNAPSHOT, _DEFINED)
    else:
        for name in _NEW:
            op.add_column("task", sa.Column(name, sa.BigInteger))
    for name, table, columns, where in _INDEXES:
        op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def downgrade() -> None:
    """Refuse where the version before would not know what an event is."""
    conn = op.get_bind()
    if conn.exec_driver_sql("SELECT 1 FROM event WHERE kind > 7 LIMIT 1").first() is not None:
        raise ValueError("some tasks have status texts or checkpoints, which version 0010 does not know of")
    for name, table, _, _ in _INDEXES:
        op.drop_index(name, table)
    if dialect_of(conn).name == "sqlite":
        rebuild_table(conn, "task", _DEFINED, _SNAPSHOT)
    else:
        for name in _NEW:
            op.drop_column("task", name)
    op.drop_column("event", "options")
