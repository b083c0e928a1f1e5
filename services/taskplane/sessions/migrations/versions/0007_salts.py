"""Salts, which tell a session from another one that had its id, or has it later."""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Those that are there keep 0, which no new one gets.
    op.get_bind().exec_driver_sql("ALTER TABLE session ADD COLUMN salt BIGINT DEFAULT 0 NOT NULL")


def downgrade() -> None:
    op.get_bind().exec_driver_sql("ALTER TABLE session DROP COLUMN salt")
