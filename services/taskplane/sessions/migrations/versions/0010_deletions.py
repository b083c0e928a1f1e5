"""An index of the voids of deleted tasks, which every append to such a session looks for."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_DELETES = "kind = 6 AND listed <> ''"


def upgrade() -> None:
    op.create_index(
        "entry_deletes",
        "entry",
        ["context_id", "owner", "tenant", "seq"],
        sqlite_where=sa.text(_DELETES),
        postgresql_where=sa.text(_DELETES),
    )


def downgrade() -> None:
    op.drop_index("entry_deletes", "entry")
