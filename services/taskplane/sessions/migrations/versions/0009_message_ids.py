"""The ids of messages, so that another message under an id of its session is found."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_SAID = "message_id IS NOT NULL"


def upgrade() -> None:
    # Entries are never rewritten, so those that are there keep null and are not found.
    op.get_bind().exec_driver_sql("ALTER TABLE entry ADD COLUMN message_id TEXT")
    op.create_index(
        "entry_message",
        "entry",
        ["context_id", "owner", "tenant", "message_id", "seq"],
        sqlite_where=sa.text(_SAID),
        postgresql_where=sa.text(_SAID),
    )


def downgrade() -> None:
    op.drop_index("entry_message", "entry")
    op.get_bind().exec_driver_sql("ALTER TABLE entry DROP COLUMN message_id")
