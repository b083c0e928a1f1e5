"""Traces: the event of a call or a run names its trace, and a task the trace that its next run continues.

SQLite gets a new table `task`: a column behind the snapshot would be read across all of it.
"""

import sqlalchemy as sa
from alembic import op

from taskplane.storage.dialects import dialect_of
from taskplane.storage.rebuild import rebuild_table

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_NAME = "trace"
_DEFINED = "trace BLOB, \n\t"
_SNAPSHOT = "snapshot BLOB NOT NULL"


def upgrade() -> None:
    conn = op.get_bind()
    op.add_column("event", sa.Column(_NAME, sa.LargeBinary))
    if dialect_of(conn).name == "sqlite":
        rebuild_table(conn, "task", _SNAPSHOT, _DEFINED + _SNAPSHOT)
    else:
        op.add_column("task", sa.Column(_NAME, sa.LargeBinary))


def downgrade() -> None:
    conn = op.get_bind()
    if dialect_of(conn).name == "sqlite":
        rebuild_table(conn, "task", _DEFINED + _SNAPSHOT, _SNAPSHOT)
    else:
        op.drop_column("task", _NAME)
    op.drop_column("event", _NAME)
