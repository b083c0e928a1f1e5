"""The tables of the session log. The columns of `session` and `entry` are made from the classes of the domain.

Times are microseconds since 1970. The triggers in `triggers.py` hold the rules beyond these constraints.

Keys begin with a rare value, a context or entry id, not with the tenant, and the one index that does begin with it is
partial: so each lookup has one index that can serve it. Given a choice, PostgreSQL takes any of them while a table has
not been analyzed, and one that finds all rows of an owner first makes every append slower than the one before.
"""

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
)

from taskplane.sessions.domain.session import MESSAGE, OUTCOME, VOID, Entry, Session
from taskplane.storage.columns import columns_of
from taskplane.storage.indexes import partial_index
from taskplane.storage.staging import staging_table

metadata: Final = MetaData()

# One row. `page_key` signs page tokens, for every process of the store alike. Turns begun before `settled_until` are
# checked (see OPENS).
session_meta: Final = Table(
    "session_meta",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("page_key", LargeBinary, nullable=False),
    Column("settled_until", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="session_meta_one_row"),
)

session: Final = Table(
    "session",
    metadata,
    *columns_of(
        Session,
        # Null while there are no entries.
        nullable=["seq"],
        # Here and not below, since SQLite adds constraints to a table with a column only.
        applied_seq=CheckConstraint(
            "applied_seq >= 0 AND applied_seq <= steered_seq AND steered_seq <= COALESCE(seq, 0)",
            name="session_applied_up_to_steered",
        ),
    ),
    PrimaryKeyConstraint("context_id", "owner", "tenant", name="session_pkey"),
    # The newest entry exists when the transaction ends. Together with the trigger that an entry follows its predecessor
    # this makes gaps impossible.
    ForeignKeyConstraint(
        ["context_id", "owner", "tenant", "seq"],
        ["entry.context_id", "entry.owner", "entry.tenant", "entry.seq"],
        name="session_newest_entry",
        deferrable=True,
        initially="DEFERRED",
        use_alter=True,
    ),
    CheckConstraint("seq IS NULL OR seq >= 1", name="session_seq_from_one"),
    CheckConstraint("version > COALESCE(seq, 0)", name="session_version_counts_entries"),
    CheckConstraint("updated_at > 0", name="session_updated_some_time"),
    # A small row: SQLite stores it in the index of its key, and writes one page fewer.
    sqlite_with_rowid=False,
)
# Queries repeat these conditions word for word: only then does either engine see that a partial index serves them.
LISTED: Final = "updated_at > 0"
UNAPPLIED: Final = "applied_seq < steered_seq"
# An entry after which a turn may stay without a result: the turn is to be a task (an outcome), or the turn was begun (a
# message) or resumed (a void taken back) and is not decided yet.
OPENS: Final = (
    f"((kind = {OUTCOME} AND task_id <> '')"
    f" OR ((kind = {MESSAGE} OR kind = {VOID}) AND task_id = '' AND request_hash IS NOT NULL))"
)
# The void of a deleted task.
DELETES: Final = f"kind = {VOID} AND listed <> ''"
partial_index(
    "session_by_update", LISTED, session.c.tenant, session.c.owner, session.c.updated_at, session.c.context_id
)
partial_index("session_unapplied", UNAPPLIED, session.c.updated_at)
# The index for old sessions. An append does not write it, as it would write an index of the last changes.
Index("session_by_creation", session.c.created_at, session.c.context_id, session.c.owner, session.c.tenant)

entry: Final = Table(
    "entry",
    metadata,
    *columns_of(Entry),
    PrimaryKeyConstraint("context_id", "owner", "tenant", "seq", name="entry_pkey"),
    UniqueConstraint("id", "owner", "tenant", name="entry_id"),
    # Entries go with their session, and in no other way.
    ForeignKeyConstraint(
        ["context_id", "owner", "tenant"],
        ["session.context_id", "session.owner", "session.tenant"],
        name="entry_session",
        ondelete="CASCADE",
    ),
    CheckConstraint("seq >= 1", name="entry_seq_from_one"),
)
# The changes of the session's state, for events that change it.
event_delta: Final = Table(
    "event_delta",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("context_id", Text, nullable=False),
    # When it was written: its number, as a rule; in a session that was made of another one, where it stood there.
    Column("place", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    # See `domain.state.Delta`.
    Column("own", LargeBinary, nullable=False),
    PrimaryKeyConstraint("context_id", "owner", "tenant", "place", name="event_delta_pkey"),
    ForeignKeyConstraint(
        ["context_id", "owner", "tenant"],
        ["session.context_id", "session.owner", "session.tenant"],
        name="event_delta_session",
        ondelete="CASCADE",
    ),
)

# The state of an owner and that of everybody, each with one agent; a value is a serialized `Value`. Sessions come and
# go, it stays.
user_state: Final = Table(
    "user_state",
    metadata,
    Column("owner", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", LargeBinary, nullable=False),
    PrimaryKeyConstraint("owner", "agent", "tenant", "key", name="user_state_pkey"),
    sqlite_with_rowid=False,
)
app_state: Final = Table(
    "app_state",
    metadata,
    Column("agent", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("value", LargeBinary, nullable=False),
    PrimaryKeyConstraint("agent", "tenant", "key", name="app_state_pkey"),
    sqlite_with_rowid=False,
)
# Sessions that are gone, and whose tasks of the other store that were changed last up to `tasks_until` are to follow.
session_remains: Final = Table(
    "session_remains",
    metadata,
    Column("owner", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("context_id", Text, nullable=False),
    Column("tasks_until", BigInteger, nullable=False),
    PrimaryKeyConstraint("owner", "tenant", "context_id", "tasks_until", name="session_remains_pkey"),
    sqlite_with_rowid=False,
)
partial_index("entry_opens", OPENS, entry.c.created_at)
partial_index("entry_deletes", DELETES, entry.c.context_id, entry.c.owner, entry.c.tenant, entry.c.seq)
# Partial, so that it is taken for nothing but a lookup of a message.
partial_index(
    "entry_message",
    "message_id IS NOT NULL",
    entry.c.context_id,
    entry.c.owner,
    entry.c.tenant,
    entry.c.message_id,
    entry.c.seq,
)
# Sessions that are being brought in.
session_import: Final = staging_table("session_import", metadata)
