"""A document may be shown without what was said in the turns that a rewind cut."""

import sqlalchemy as sa

from taskplane.storage.rebuild import add_column_before, drop_column_before

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_DEFINED = "cut_turns TEXT"
_SNAPSHOT = "snapshot BLOB NOT NULL"


def upgrade() -> None:
    add_column_before("task", sa.Column("cut_turns", sa.Text), _DEFINED, _SNAPSHOT)


def downgrade() -> None:
    drop_column_before("task", "cut_turns", _DEFINED, _SNAPSHOT)
