"""A document may be shown without what was said in the turns that a rewind cut."""

import sqlalchemy as sa
from alembic import op

from taskplane.storage.dialects import dialect_of
from taskplane.storage.rebuild import rebuild_table

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_NAME = "cut_turns"
_DEFINED = "cut_turns TEXT, \n\t"
_SNAPSHOT = "snapshot BLOB NOT NULL"


def upgrade() -> None:
    conn = op.get_bind()
    if dialect_of(conn).name == "sqlite":
        rebuild_table(conn, "task", _SNAPSHOT, _DEFINED + _SNAPSHOT)
    else:
        op.add_column("task", sa.Column(_NAME, sa.Text))


def downgrade() -> None:
    conn = op.get_bind()
    if dialect_of(conn).name == "sqlite":
        rebuild_table(conn, "task", _DEFINED + _SNAPSHOT, _SNAPSHOT)
    else:
        op.drop_column("task", _NAME)
