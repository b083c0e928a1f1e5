"""Trees."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table("tree", sa.Column("id", sa.Integer, primary_key=True), sa.Column("height", sa.Integer))


def downgrade() -> None:
    op.drop_table("tree")
