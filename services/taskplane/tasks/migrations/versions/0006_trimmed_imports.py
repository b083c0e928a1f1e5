"""Tasks come in whose log was trimmed elsewhere: what is left of it may have gaps up to there."""

from alembic import op

from taskplane.storage.dialects import dialect_of
from taskplane.tasks.sql import fourth_guards, guards

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    conn = op.get_bind()
    dialect = dialect_of(conn)
    for statement in (*fourth_guards.drop_guards(dialect), *guards.create_guards(dialect)):
        conn.exec_driver_sql(statement)


def downgrade() -> None:
    conn = op.get_bind()
    dialect = dialect_of(conn)
    for statement in (*guards.drop_guards(dialect), *fourth_guards.create_guards(dialect)):
        conn.exec_driver_sql(statement)
