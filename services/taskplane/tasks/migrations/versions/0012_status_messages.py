"""Lines of progress are read from an index, those that agents yield among them."""

import sqlalchemy as sa
from alembic import op

from taskplane.storage.dialects import dialect_of

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

# The entry `kind`: `status-message` of the metadata of a message, as it is stored.
_ENTRY = b"\n\x04kind\x12\x10\x1a\x0estatus-message"


def upgrade() -> None:
    where = sa.text(
        f"(kind = 3 OR kind = 8) AND NOT speaks AND {dialect_of(op.get_bind()).contains('payload', _ENTRY)}"
    )
    op.create_index(
        "event_status_message", "event", ["task_uid", "generation"], sqlite_where=where, postgresql_where=where
    )


def downgrade() -> None:
    op.drop_index("event_status_message", "event")
