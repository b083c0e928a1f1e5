"""Tasks are listed by state from an index, and paused ones counted from another."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_PAUSED = sa.text("origin = 'managed' AND (state = 6 OR state = 8)")


def upgrade() -> None:
    op.create_index("task_by_state", "task", ["tenant", "owner", "state", "status_at", "id"])
    op.create_index("task_paused", "task", ["state"], sqlite_where=_PAUSED, postgresql_where=_PAUSED)


def downgrade() -> None:
    op.drop_index("task_paused", "task")
    op.drop_index("task_by_state", "task")
