"""The session that another one was made of."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.get_bind().exec_driver_sql("ALTER TABLE session ADD COLUMN forked_from TEXT DEFAULT '' NOT NULL")


def downgrade() -> None:
    op.get_bind().exec_driver_sql("ALTER TABLE session DROP COLUMN forked_from")
