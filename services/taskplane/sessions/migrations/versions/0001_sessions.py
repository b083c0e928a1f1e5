"""The log of sessions: session_meta, session, entry.

The tables stand here as they were in this version; a test holds them against `tables.py`.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_OPENS = "((kind = 2 AND task_id <> '') OR ((kind = 1 OR kind = 6) AND task_id = '' AND request_hash IS NOT NULL))"


def upgrade() -> None:
    # Not one by one: the two tables refer to each other, which one engine wants said inside and the other afterwards.
    _tables().create_all(op.get_bind(), checkfirst=False)


def downgrade() -> None:
    _tables().drop_all(op.get_bind(), checkfirst=False)


def _tables() -> sa.MetaData:
    metadata = sa.MetaData()
    sa.Table(
        "session_meta",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("page_key", sa.LargeBinary, nullable=False),
        sa.Column("settled_until", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.CheckConstraint("id = 1", name="session_meta_one_row"),
    )
    sa.Table(
        "session",
        metadata,
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("context_id", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("has_session_task", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("context_id", "owner", "tenant", name="session_pkey"),
        sa.ForeignKeyConstraint(
            ["context_id", "owner", "tenant", "seq"],
            ["entry.context_id", "entry.owner", "entry.tenant", "entry.seq"],
            name="session_newest_entry",
            deferrable=True,
            initially="DEFERRED",
            use_alter=True,
        ),
        sa.CheckConstraint("seq IS NULL OR seq >= 1", name="session_seq_from_one"),
        sa.CheckConstraint("version > COALESCE(seq, 0)", name="session_version_counts_entries"),
        sa.CheckConstraint("updated_at > 0", name="session_updated_some_time"),
        sa.Index(
            "session_by_update",
            "tenant",
            "owner",
            "updated_at",
            "context_id",
            sqlite_where=sa.text("updated_at > 0"),
            postgresql_where=sa.text("updated_at > 0"),
        ),
        sqlite_with_rowid=False,
    )
    _entry(metadata)
    return metadata


def _entry(metadata: sa.MetaData) -> None:
    sa.Table(
        "entry",
        metadata,
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("context_id", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("kind", sa.Integer, nullable=False),
        sa.Column("invocation_id", sa.Text, nullable=False),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("task_invocation_id", sa.Text, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("request_hash", sa.LargeBinary),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("off", sa.Boolean, nullable=False),
        sa.Column("speaks", sa.Boolean, nullable=False),
        sa.Column("listed", sa.Text, nullable=False),
        sa.Column("payload", sa.LargeBinary),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("context_id", "owner", "tenant", "seq", name="entry_pkey"),
        sa.UniqueConstraint("id", "owner", "tenant", name="entry_id"),
        sa.ForeignKeyConstraint(
            ["context_id", "owner", "tenant"],
            ["session.context_id", "session.owner", "session.tenant"],
            name="entry_session",
            ondelete="CASCADE",
        ),
        sa.CheckConstraint("seq >= 1", name="entry_seq_from_one"),
        sa.Index("entry_opens", "created_at", sqlite_where=sa.text(_OPENS), postgresql_where=sa.text(_OPENS)),
    )
