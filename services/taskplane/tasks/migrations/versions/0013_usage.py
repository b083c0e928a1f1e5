"""The figures of a run, kept until it ends: SQLite gets a new table `task`, as in version 0011."""

import sqlalchemy as sa
from alembic import op

from taskplane.storage.dialects import dialect_of
from taskplane.storage.rebuild import rebuild_table

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_SNAPSHOT = "snapshot BLOB NOT NULL"
_DEFINED = "usage BLOB, \n\t" + _SNAPSHOT


def upgrade() -> None:
    conn = op.get_bind()
    if dialect_of(conn).name == "sqlite":
        rebuild_table(conn, "task", _SNAPSHOT, _DEFINED)
    else:
        op.add_column("task", sa.Column("usage", sa.LargeBinary))


def downgrade() -> None:
    conn = op.get_bind()
    if dialect_of(conn).name == "sqlite":
        rebuild_table(conn, "task", _DEFINED, _SNAPSHOT)
    else:
        op.drop_column("task", "usage")
