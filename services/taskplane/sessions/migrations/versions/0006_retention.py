"""Old sessions are found by when they were created."""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("session_by_creation", "session", ["created_at", "context_id", "owner", "tenant"])


def downgrade() -> None:
    op.drop_index("session_by_creation", "session")
