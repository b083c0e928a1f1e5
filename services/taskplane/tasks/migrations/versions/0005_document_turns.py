"""Document tasks belong to the turn that they name, and logs come in that were trimmed elsewhere: new triggers only.

Documents that are stored already name their turn when they are written again.
"""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    """Refuse where a rewind hid a document: the version before could never show it again."""
    conn = op.get_bind()
    hidden = "SELECT 1 FROM task WHERE origin = 'document' AND superseded LIMIT 1"
    if conn.exec_driver_sql(hidden).first() is not None:
        raise ValueError("some document tasks were cut by a rewind, which version 0004 does not know of")
    conn.exec_driver_sql("UPDATE task SET invocation_id = NULL WHERE origin = 'document'")
