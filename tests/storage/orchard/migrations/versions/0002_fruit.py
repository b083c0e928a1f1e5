"""Fruit."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "fruit",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("tree_id", sa.Integer, sa.ForeignKey("tree.id", deferrable=True, initially="DEFERRED")),
    )


def downgrade() -> None:
    op.drop_table("fruit")
