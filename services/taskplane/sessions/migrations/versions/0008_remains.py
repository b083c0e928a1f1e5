"""Sessions that are gone and whose tasks are to follow."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "session_remains",
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("context_id", sa.Text, nullable=False),
        sa.Column("tasks_until", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("owner", "tenant", "context_id", "tasks_until", name="session_remains_pkey"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("session_remains")
