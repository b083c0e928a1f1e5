"""Traces: the event of a call or a run names its trace, and a task the trace that its next run continues.

SQLite gets a new table `task`: a column behind the snapshot would be read across all of it.
"""

import sqlalchemy as sa
from alembic import op

from taskplane.storage.rebuild import add_column_before, drop_column_before

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_NAME = "trace"
_DEFINED = "trace BLOB"
_SNAPSHOT = "snapshot BLOB NOT NULL"


def upgrade() -> None:
    op.add_column("event", sa.Column(_NAME, sa.LargeBinary))
    add_column_before("task", sa.Column(_NAME, sa.LargeBinary), _DEFINED, _SNAPSHOT)


def downgrade() -> None:
    drop_column_before("task", _NAME, _DEFINED, _SNAPSHOT)
    op.drop_column("event", _NAME)
