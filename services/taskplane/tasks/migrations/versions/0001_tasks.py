"""The log of tasks: store_meta, event, task.

The tables stand here as they were in this version; a test holds them against `tables.py`.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_AT_REST = "(state = 3 OR state = 4 OR state = 5 OR state = 6 OR state = 7 OR state = 8)"
_UNCOPIED = f"origin = 'managed' AND {_AT_REST} AND copied_generation < message_generation"


def upgrade() -> None:
    _create_store_meta()
    _create_event()
    _create_task()


def downgrade() -> None:
    op.drop_table("task")
    op.drop_table("event")
    op.drop_table("store_meta")


def _create_store_meta() -> None:
    op.create_table(
        "store_meta",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("page_key", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.CheckConstraint("id = 1", name="store_meta_one_row"),
    )


def _create_event() -> None:
    op.create_table(
        "event",
        sa.Column("task_uid", sa.Text, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("tenant", sa.Text),
        sa.Column("owner", sa.Text),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("kind", sa.Integer, nullable=False),
        sa.Column("state", sa.Integer, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("invocation_id", sa.Text),
        sa.Column("request_hash", sa.LargeBinary),
        sa.Column("artifact_id", sa.Text),
        sa.Column("speaks", sa.Boolean, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("task_uid", "generation", name="event_pkey"),
        sa.CheckConstraint("generation >= 1", name="event_generation_from_one"),
        sa.CheckConstraint(
            "(invocation_id IS NULL) = (tenant IS NULL) AND (invocation_id IS NULL) = (owner IS NULL)"
            " AND (invocation_id IS NULL) = (request_hash IS NULL)",
            name="event_record_of_a_turn_is_whole",
        ),
    )
    _index("event_invocation", "event", ["invocation_id", "tenant", "owner"], "invocation_id IS NOT NULL", unique=True)
    _index("event_artifact", "event", ["task_uid", "artifact_id", "generation"], "artifact_id IS NOT NULL")


def _create_task() -> None:
    op.create_table(
        "task",
        sa.Column("uid", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("context_id", sa.Text, nullable=False),
        sa.Column("invocation_id", sa.Text),
        sa.Column("request_hash", sa.LargeBinary),
        sa.Column("state", sa.Integer, nullable=False),
        sa.Column("status_at", sa.BigInteger, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("terminal_generation", sa.BigInteger),
        sa.Column("input_generation", sa.BigInteger, nullable=False),
        sa.Column("consumed_generation", sa.BigInteger, nullable=False),
        sa.Column("message_generation", sa.BigInteger, nullable=False),
        sa.Column("copied_generation", sa.BigInteger, nullable=False),
        sa.Column("message_id", sa.Text),
        sa.Column("partial_generation", sa.BigInteger),
        sa.Column("partial_id", sa.Text),
        sa.Column("artifact_id", sa.Text),
        sa.Column("restart_generation", sa.BigInteger, nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("item_fence", sa.BigInteger),
        sa.Column("item_number", sa.BigInteger),
        sa.Column("item_first", sa.BigInteger),
        sa.Column("item_last", sa.BigInteger),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("started", sa.Boolean, nullable=False),
        sa.Column("on_orphan", sa.Integer, nullable=False),
        sa.Column("max_attempts", sa.Integer, nullable=False),
        sa.Column("ready_at", sa.BigInteger),
        sa.Column("lease_owner", sa.Text),
        sa.Column("lease_until", sa.BigInteger),
        sa.Column("salt", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("snapshot_generation", sa.BigInteger, nullable=False),
        sa.Column("snapshot_bytes", sa.BigInteger, nullable=False),
        sa.Column("event_bytes", sa.BigInteger, nullable=False),
        sa.Column("folded_bytes", sa.BigInteger, nullable=False),
        sa.Column("snapshot", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("uid", name="task_pkey"),
        sa.UniqueConstraint("id", "tenant", name="task_public_id"),
        sa.ForeignKeyConstraint(
            ["uid", "generation"],
            ["event.task_uid", "event.generation"],
            name="task_head_event",
            deferrable=True,
            initially="DEFERRED",
        ),
        *_task_checks(),
        postgresql_with={"fillfactor": 60, "autovacuum_vacuum_scale_factor": 0.02},
    )
    _index("task_by_status", "task", ["tenant", "owner", "status_at", "id"])
    _index("task_by_context", "task", ["tenant", "owner", "context_id", "created_at", "id"])
    _index("task_ready", "task", ["agent", "ready_at"], "ready_at IS NOT NULL")
    _index("task_lease_until", "task", ["lease_until"], "lease_until IS NOT NULL")
    _index("task_lease_owner", "task", ["lease_owner"], "lease_owner IS NOT NULL")
    _index("task_uncopied", "task", ["status_at"], _UNCOPIED)
    _index("task_uncopied_in_context", "task", ["tenant", "owner", "context_id"], _UNCOPIED)


def _task_checks() -> list[sa.CheckConstraint]:
    return [
        sa.CheckConstraint("origin IN ('managed', 'document')", name="task_origin_known"),
        sa.CheckConstraint(
            "origin = 'document' OR (state = 1 OR state = 2 OR state = 3 OR state = 4 OR state = 5 OR state = 6"
            " OR state = 7 OR state = 8)",
            name="task_state_known",
        ),
        sa.CheckConstraint(
            "CASE WHEN origin = 'managed'"
            " THEN (state = 3 OR state = 4 OR state = 5 OR state = 7) = (terminal_generation IS NOT NULL)"
            " ELSE terminal_generation IS NULL END",
            name="task_ended_exactly_when_terminal",
        ),
        sa.CheckConstraint(
            "origin = 'document' OR NOT (state = 3 OR state = 6 OR state = 8)"
            " OR consumed_generation >= input_generation",
            name="task_rests_only_with_its_input_consumed",
        ),
        sa.CheckConstraint(
            "input_generation <= generation AND consumed_generation <= generation AND message_generation <= generation"
            " AND copied_generation <= generation AND restart_generation <= generation"
            " AND snapshot_generation <= generation"
            " AND (terminal_generation IS NULL OR terminal_generation <= generation)"
            " AND (partial_generation IS NULL OR partial_generation <= generation)",
            name="task_nothing_beyond_its_head",
        ),
        sa.CheckConstraint(
            "(lease_owner IS NULL) = (lease_until IS NULL) AND (ready_at IS NULL OR lease_owner IS NULL)",
            name="task_queued_or_leased",
        ),
        sa.CheckConstraint(
            f"(origin = 'managed' AND NOT {_AT_REST}) OR (ready_at IS NULL AND lease_owner IS NULL)",
            name="task_at_rest_is_not_run",
        ),
        sa.CheckConstraint("origin = 'managed' OR fence = 0", name="task_document_has_no_fence"),
    ]


def _index(name: str, table: str, columns: list[str], where: str = "", *, unique: bool = False) -> None:
    condition = sa.text(where) if where else None
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)
