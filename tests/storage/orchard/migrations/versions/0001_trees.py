"""Trees."""

import sqlalchemy as sa
from alembic import op

from taskplane.storage.dialects import dialect_of

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table("tree", sa.Column("id", sa.Integer, primary_key=True), sa.Column("height", sa.Integer))
    for statement in dialect_of(op.get_bind()).guard_trigger(
        "tree_grows", "tree", "BEFORE UPDATE", ["height"], "NEW.height < OLD.height", "a tree: it's never smaller"
    ):
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    for statement in dialect_of(op.get_bind()).drop_guard_trigger("tree_grows", "tree"):
        op.get_bind().exec_driver_sql(statement)
    op.drop_table("tree")
