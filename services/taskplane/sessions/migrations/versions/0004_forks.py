"""What a session was made of."""

from alembic import op

from taskplane.sessions.sql.guards import create_guards, drop_guards
from taskplane.storage.dialects import dialect_of

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    conn = op.get_bind()
    dialect = dialect_of(conn)
    for statement in (
        *drop_guards(dialect, "0003"),
        "ALTER TABLE session ADD COLUMN forked_from TEXT DEFAULT '' NOT NULL",
        *create_guards(dialect, "0004"),
    ):
        conn.exec_driver_sql(statement)


def downgrade() -> None:
    conn = op.get_bind()
    dialect = dialect_of(conn)
    for statement in (
        *drop_guards(dialect, "0004"),
        "ALTER TABLE session DROP COLUMN forked_from",
        *create_guards(dialect, "0003"),
    ):
        conn.exec_driver_sql(statement)
