"""The queue of a principal is read in its order, however many tasks are in it; processes say how much they run."""

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
    op.add_column("executor", sa.Column("capacity", sa.Integer, nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("executor", "capacity")
    _replace(_BEFORE)


def _replace(columns: list[str]) -> None:
    op.drop_index("task_queued", "task")
    op.create_index("task_queued", "task", columns, sqlite_where=_QUEUED, postgresql_where=_QUEUED)
