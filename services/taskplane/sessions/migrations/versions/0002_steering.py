"""Rewinds and undos of a session, and how far its tasks are in line with them.

Rewinds and pushed histories of before are taken for such whose effects on tasks are still to be carried out.
"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_COLUMNS = (
    "ALTER TABLE session ADD COLUMN steered_seq BIGINT DEFAULT 0 NOT NULL",
    "ALTER TABLE session ADD COLUMN applied_seq BIGINT DEFAULT 0 NOT NULL CONSTRAINT session_applied_up_to_steered"
    " CHECK (applied_seq >= 0 AND applied_seq <= steered_seq AND steered_seq <= COALESCE(seq, 0))",
)
_KNOWN = (
    "UPDATE session SET steered_seq = COALESCE((SELECT MAX(e.seq) FROM entry e"
    " WHERE e.context_id = session.context_id AND e.owner = session.owner AND e.tenant = session.tenant"
    " AND (e.kind IN (4, 5, 7) OR (e.kind = 3 AND e.target <> ''))), 0) WHERE has_session_task"
)
_INDEX = "CREATE INDEX session_unapplied ON session (updated_at) WHERE applied_seq < steered_seq"


def upgrade() -> None:
    conn = op.get_bind()
    for statement in (*_COLUMNS, _KNOWN, _INDEX):
        conn.exec_driver_sql(statement)


def downgrade() -> None:
    conn = op.get_bind()
    for statement in (
        "DROP INDEX session_unapplied",
        "ALTER TABLE session DROP COLUMN applied_seq",
        "ALTER TABLE session DROP COLUMN steered_seq",
    ):
        conn.exec_driver_sql(statement)
