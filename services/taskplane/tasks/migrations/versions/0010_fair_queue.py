"""The queue is read by principal, so that none waits for the tasks of another one."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_QUEUED = sa.text("ready_at IS NOT NULL")


def upgrade() -> None:
    op.drop_index("task_ready", "task")
    columns = ["tenant", "owner", "agent", "ready_at"]
    op.create_index("task_queued", "task", columns, sqlite_where=_QUEUED, postgresql_where=_QUEUED)


def downgrade() -> None:
    op.drop_index("task_queued", "task")
    columns = ["agent", "ready_at"]
    op.create_index("task_ready", "task", columns, sqlite_where=_QUEUED, postgresql_where=_QUEUED)
