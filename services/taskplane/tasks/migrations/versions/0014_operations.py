"""The tasks of a tenant, whoever owns them, by state and time."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_OF_ANY_OWNER = sa.text("status_at >= 0")


def upgrade() -> None:
    columns = ["tenant", "state", "status_at", "id"]
    op.create_index("task_of_tenant", "task", columns, sqlite_where=_OF_ANY_OWNER, postgresql_where=_OF_ANY_OWNER)


def downgrade() -> None:
    op.drop_index("task_of_tenant", "task")
