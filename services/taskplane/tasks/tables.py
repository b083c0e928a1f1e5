"""The tables of the task log. The columns of `task`, `event` and `lease` are made of the domain's Row, Event and Lease.

Times are microseconds since 1970. The triggers in `triggers.py` hold the rules beyond these constraints.
"""

from collections.abc import Iterable
from typing import Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from taskplane.storage.columns import columns_of
from taskplane.storage.dialects import POSTGRESQL, SQLITE
from taskplane.storage.indexes import partial_index
from taskplane.storage.staging import staging_table
from taskplane.tasks.domain.kinds import CREATED, LASTING, REPLACED, STATUS_TEXT, STATUSES
from taskplane.tasks.domain.messages import STATUS_TEXT_ENTRY
from taskplane.tasks.domain.task import (
    AT_REST,
    COMPLETED,
    DOCUMENT,
    MANAGED,
    PAUSED,
    STATES,
    TERMINAL,
    Event,
    Lease,
    Row,
)

metadata: Final = MetaData()


def among(column: str, states: Iterable[int]) -> str:
    """Return SQL text, true where `column` is one of `states`.

    Spelled out, since SQLite builds a temporary table for a list of more than two values, once per row that it checks.
    """
    return "(" + " OR ".join(f"{column} = {state}" for state in sorted(states)) + ")"


# A managed task at rest with messages that are missing in its session. Queries repeat this text word for word, since
# only then does either engine see that the partial index serves them.
UNCOPIED: Final = f"origin = '{MANAGED}' AND {among('state', AT_REST)} AND copied_generation < message_generation"

# The changes of state that cannot be read from their task's row, as the creation and the end of a managed task can: so
# most tasks have one entry in the index, which holds all that is asked about a change.
STATE_CHANGES: Final = (
    f"changed_to IS NOT NULL AND kind <> {CREATED} AND (kind = {REPLACED} OR NOT {among('changed_to', TERMINAL)})"
)

# A managed task that has ended, with a log that may still be trimmed. The column stands on the left, since SQLite
# turns a comparison around that has it on the right, and then does not find the index.
TRIMMABLE: Final = (
    f"origin = '{MANAGED}' AND terminal_generation IS NOT NULL AND terminal_generation > trimmed_generation + 1"
)
# A managed task that waits for an answer.
WAITING: Final = f"origin = '{MANAGED}' AND {among('state', PAUSED)}"
DOCUMENTS: Final = f"origin = '{DOCUMENT}'"
# True of every task: the index that has it is taken by the queries that repeat it, and by no other one.
OF_ANY_OWNER: Final = "status_at >= 0"
# The newest few of these are read while others are written.
STATUS_TEXTS: Final = f"kind = {STATUS_TEXT}"
# Events that show a line of progress, of any writer; by the name of the engine. The search is for the mark itself,
# which no column has.
STATUS_MESSAGES: Final = {
    dialect.name: f"{among('kind', STATUSES)} AND NOT speaks AND {dialect.contains('payload', STATUS_TEXT_ENTRY)}"
    for dialect in (SQLITE, POSTGRESQL)
}


def lasting(row: str = "") -> str:
    """Return SQL text, true for an event that stays as long as its task; `row`: the name before columns, with a dot."""
    return f"({row}changed_to IS NOT NULL OR {among(f'{row}kind', LASTING)})"


_NOT_BEYOND_THE_HEAD: Final = (
    "input_generation",
    "consumed_generation",
    "message_generation",
    "copied_generation",
    "restart_generation",
    "snapshot_generation",
)

# Rows that are rewritten often and indexes that seldom are: room on the page keeps the new version beside the old one.
_REWRITTEN: Final = {"fillfactor": 60, "autovacuum_vacuum_scale_factor": 0.02}

# One row. `epoch` names this history of the log, and is drawn anew when a backup was restored; `page_key` signs page
# tokens, for every process of the store alike.
store_meta: Final = Table(
    "store_meta",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("epoch", Text, nullable=False),
    Column("page_key", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="store_meta_one_row"),
)

event: Final = Table(
    "event",
    metadata,
    *columns_of(Event),
    PrimaryKeyConstraint("task_uid", "generation", name="event_pkey"),
    CheckConstraint("generation >= 1", name="event_generation_from_one"),
    CheckConstraint(
        "(invocation_id IS NULL) = (tenant IS NULL) AND (invocation_id IS NULL) = (owner IS NULL)"
        " AND (invocation_id IS NULL) = (request_hash IS NULL)",
        name="event_record_of_a_turn_is_whole",
    ),
)
# The most telling column comes first, here and in `task_public_id`: a batch looks up by it alone.
partial_index(
    "event_invocation", "invocation_id IS NOT NULL", event.c.invocation_id, event.c.tenant, event.c.owner, unique=True
)
# The lookup of an artifact is for updates of another one than the last; see `Row.artifact_id`.
partial_index("event_artifact", "artifact_id IS NOT NULL", event.c.task_uid, event.c.artifact_id, event.c.generation)
partial_index("event_status_text", STATUS_TEXTS, event.c.task_uid, event.c.generation)
Index(
    "event_status_message",
    event.c.task_uid,
    event.c.generation,
    sqlite_where=text(STATUS_MESSAGES["sqlite"]),
    postgresql_where=text(STATUS_MESSAGES["postgresql"]),
)
partial_index(
    "event_state_change",
    STATE_CHANGES,
    event.c.task_uid,
    event.c.generation,
    event.c.kind,
    event.c.changed_to,
    event.c.created_at,
)

task: Final = Table(
    "task",
    metadata,
    *columns_of(Row),
    # The folded task at `snapshot_generation`; of a document task the document itself.
    Column("snapshot", LargeBinary, nullable=False),
    PrimaryKeyConstraint("uid", name="task_pkey"),
    UniqueConstraint("id", "tenant", name="task_public_id"),
    # The head event exists when the transaction ends. Together with the trigger that an event follows its predecessor
    # this makes gaps impossible.
    ForeignKeyConstraint(
        ["uid", "generation"],
        ["event.task_uid", "event.generation"],
        name="task_head_event",
        deferrable=True,
        initially="DEFERRED",
    ),
    CheckConstraint(f"origin IN ('{MANAGED}', '{DOCUMENT}')", name="task_origin_known"),
    CheckConstraint(f"origin = '{DOCUMENT}' OR {among('state', STATES)}", name="task_state_known"),
    CheckConstraint(
        f"CASE WHEN origin = '{MANAGED}' THEN {among('state', TERMINAL)} = (terminal_generation IS NOT NULL)"
        " ELSE terminal_generation IS NULL END",
        name="task_ended_exactly_when_terminal",
    ),
    CheckConstraint(
        f"origin = '{DOCUMENT}' OR NOT {among('state', PAUSED | {COMPLETED})}"
        " OR consumed_generation >= input_generation",
        name="task_rests_only_with_its_input_consumed",
    ),
    CheckConstraint(
        " AND ".join(f"{column} <= generation" for column in _NOT_BEYOND_THE_HEAD)
        + " AND (terminal_generation IS NULL OR terminal_generation <= generation)"
        + " AND (partial_generation IS NULL OR partial_generation <= generation)",
        name="task_nothing_beyond_its_head",
    ),
    CheckConstraint("ready_at IS NULL OR lease_owner IS NULL", name="task_queued_or_leased"),
    CheckConstraint(
        f"(origin = '{MANAGED}' AND NOT {among('state', AT_REST)}) OR (ready_at IS NULL AND lease_owner IS NULL)",
        name="task_at_rest_is_not_run",
    ),
    CheckConstraint(f"origin = '{MANAGED}' OR fence = 0", name="task_document_has_no_fence"),
    postgresql_with=_REWRITTEN,
)
Index("task_by_status", task.c.tenant, task.c.owner, task.c.status_at, task.c.id)
Index("task_by_state", task.c.tenant, task.c.owner, task.c.state, task.c.status_at, task.c.id)
Index("task_by_context", task.c.tenant, task.c.owner, task.c.context_id, task.c.created_at, task.c.id)

partial_index("task_of_tenant", OF_ANY_OWNER, task.c.tenant, task.c.state, task.c.status_at, task.c.id)
# In the order in which the tasks of a principal are given out, with all that decides whether one of them is.
partial_index(
    "task_queued", "ready_at IS NOT NULL", task.c.tenant, task.c.owner, task.c.ready_at, task.c.agent, task.c.in_turn
)
partial_index("task_limited", "limit_at IS NOT NULL", task.c.limit_at)
partial_index("task_uncopied", UNCOPIED, task.c.status_at)
partial_index("task_paused", WAITING, task.c.state)
partial_index("task_uncopied_in_context", UNCOPIED, task.c.tenant, task.c.owner, task.c.context_id)

# One row per task that runs. A renewal rewrites these narrow rows only. The fence, and columns that change with it,
# stand in the row of the task, which decides about the holder of the lease.
lease: Final = Table(
    "lease",
    metadata,
    *columns_of(Lease),
    PrimaryKeyConstraint("task_uid", name="lease_pkey"),
    postgresql_with=_REWRITTEN,
)
Index("lease_by_end", lease.c.lease_until)
Index("lease_by_owner", lease.c.owner)

# The processes that take tasks from the queue, and until when each is taken to be alive: its renewals move it on,
# whichever store they come to.
executor: Final = Table(
    "executor",
    metadata,
    Column("process_id", Text, nullable=False),
    Column("alive_until", BigInteger, nullable=False),
    # The number of its slots; 0: it was announced before this was asked.
    Column("capacity", Integer, nullable=False, server_default="0"),
    # The agents that it runs, as `domain.serving` packs them; null: not known.
    Column("agents", Text),
    PrimaryKeyConstraint("process_id", name="executor_pkey"),
    postgresql_with=_REWRITTEN,
)

# Tasks of sessions that are being brought in. Page 0 has the uids of those that are in, while their session is not yet.
task_import: Final = staging_table("task_import", metadata)

partial_index("task_trimmable", TRIMMABLE, task.c.status_at, task.c.uid)
partial_index("task_documents", DOCUMENTS, task.c.uid)
