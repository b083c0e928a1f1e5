"""Document tasks belong to the turn that they name, and a rewind of that turn hides them: the guards allow it.

Those that are stored already name theirs when they are written again.
"""

from alembic import op

from taskplane.storage.dialects import dialect_of
from taskplane.tasks.sql import fourth_guards as guards
from taskplane.tasks.sql import third_guards

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    conn = op.get_bind()
    dialect = dialect_of(conn)
    for statement in (*third_guards.drop_guards(dialect), *guards.create_guards(dialect)):
        conn.exec_driver_sql(statement)


def downgrade() -> None:
    """Refused where a rewind hid a document: the version before could never show it again."""
    conn = op.get_bind()
    dialect = dialect_of(conn)
    hidden = "SELECT 1 FROM task WHERE origin = 'document' AND superseded LIMIT 1"
    if conn.exec_driver_sql(hidden).first() is not None:
        raise ValueError("some document tasks were cut by a rewind, which version 0004 does not know of")
    for statement in guards.drop_guards(dialect):
        conn.exec_driver_sql(statement)
    conn.exec_driver_sql("UPDATE task SET invocation_id = NULL WHERE origin = 'document'")
    for statement in third_guards.create_guards(dialect):
        conn.exec_driver_sql(statement)
