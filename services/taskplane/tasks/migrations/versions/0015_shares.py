"""The queue of a principal is read in its order, however many tasks are in it."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_QUEUED = sa.text("ready_at IS NOT NULL")
_BEFORE = ["tenant", "owner", "agent", "ready_at"]
_AFTER = ["tenant", "owner", "ready_at", "agent", "in_turn"]


def upgrade() -> None:
    _replace(_AFTER)


def downgrade() -> None:
    _replace(_BEFORE)


def _replace(columns: list[str]) -> None:
    op.drop_index("task_queued", "task")
    op.create_index("task_queued", "task", columns, sqlite_where=_QUEUED, postgresql_where=_QUEUED)
