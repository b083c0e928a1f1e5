"""What the database refuses whoever asks, beyond what constraints can say: one trigger per rule, on both engines.

A service with a bug, or a person with a shell, can break none of them. Every column of `session` stands in exactly one
of the three sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from taskplane.storage.dialects import Dialect, Timing

# Set when the row is made.
FIXED: Final = frozenset({"tenant", "owner", "context_id", "created_at", "forked_from"})
# Never become less.
GROWING: Final = frozenset({"seq", "version", "has_session_task", "steered_seq", "applied_seq"})
# Change in any direction.
FREE: Final = frozenset({"agent", "title", "source", "updated_at"})

_OF_SESSION: Final = "s.tenant = {row}.tenant AND s.owner = {row}.owner AND s.context_id = {row}.context_id"
_NEW_SESSION: Final = _OF_SESSION.format(row="NEW")


@dataclass(frozen=True, slots=True)
class Guard:
    """A trigger that refuses a change where `condition` is true. `columns`: only if one of them is named in SET."""

    name: str
    table: str
    timing: Timing
    condition: str
    message: str
    columns: Sequence[str] | None = None


# Versions of the schema; those between changed guards as well.
FIRST: Final = "0001"
NEWEST: Final = "0004"
# Columns that a later version than the first added.
_ADDED: Final = {"steered_seq": "0002", "applied_seq": "0002", "forked_from": "0004"}


def guards(dialect: Dialect, version: str = NEWEST) -> list[Guard]:
    """All of them as they are in a version of the schema, in the words of one engine."""
    growing, fixed = (
        sorted(column for column in columns if _ADDED.get(column, FIRST) <= version) for columns in (GROWING, FIXED)
    )
    shrinks = "".join(
        f" OR NEW.{column} < OLD.{column}" for column in ("steered_seq", "applied_seq") if column in growing
    )
    return [
        *(_of_deltas() if version >= "0003" else ()),
        Guard(
            "entry_follows_its_predecessor",
            "entry",
            "BEFORE INSERT",
            f"NOT EXISTS (SELECT 1 FROM session s WHERE {_NEW_SESSION} AND NEW.seq <= s.seq)"
            " OR (NEW.seq <> 1 AND NOT EXISTS (SELECT 1 FROM entry e WHERE e.tenant = NEW.tenant"
            " AND e.owner = NEW.owner AND e.context_id = NEW.context_id AND e.seq = NEW.seq - 1))",
            "an entry directly follows its predecessor and never lies beyond the newest entry of its session",
        ),
        # Otherwise INSERT OR REPLACE would rewrite an entry on SQLite, which runs no trigger for what it replaces.
        Guard(
            "entry_is_never_replaced",
            "entry",
            "BEFORE INSERT",
            "EXISTS (SELECT 1 FROM entry e WHERE e.tenant = NEW.tenant AND e.owner = NEW.owner"
            " AND e.context_id = NEW.context_id AND e.seq = NEW.seq)"
            " OR EXISTS (SELECT 1 FROM entry e WHERE e.tenant = NEW.tenant AND e.owner = NEW.owner AND e.id = NEW.id)",
            "there is an entry with this number or id already",
        ),
        Guard("entry_is_never_rewritten", "entry", "BEFORE UPDATE", "1 = 1", "entries are never rewritten"),
        Guard(
            "entry_goes_with_its_session",
            "entry",
            "BEFORE DELETE",
            f"EXISTS (SELECT 1 FROM session s WHERE {_OF_SESSION.format(row='OLD')})",
            "no entry of a session is deleted",
        ),
        Guard(
            "session_identity_is_fixed",
            "session",
            "BEFORE UPDATE",
            " OR ".join(dialect.distinct(f"NEW.{column}", f"OLD.{column}") for column in fixed),
            "the identity of a session never changes",
            fixed,
        ),
        Guard(
            "session_never_goes_back",
            "session",
            "BEFORE UPDATE",
            "COALESCE(NEW.seq, 0) < COALESCE(OLD.seq, 0) OR NEW.has_session_task < OLD.has_session_task"
            f" OR NEW.version - OLD.version < COALESCE(NEW.seq, 0) - COALESCE(OLD.seq, 0){shrinks}",
            "numbers and versions never shrink, and a version rises with every entry",
            growing,
        ),
    ]


def _of_deltas() -> list[Guard]:
    return [
        Guard(
            "event_delta_is_of_an_event",
            "event_delta",
            "BEFORE INSERT",
            "NOT EXISTS (SELECT 1 FROM entry e WHERE e.tenant = NEW.tenant AND e.owner = NEW.owner"
            " AND e.context_id = NEW.context_id AND e.seq = NEW.seq AND e.kind = 3)"
            " OR EXISTS (SELECT 1 FROM event_delta d WHERE d.tenant = NEW.tenant AND d.owner = NEW.owner"
            " AND d.context_id = NEW.context_id AND d.place = NEW.place)",
            "what changes the state of a session is one of its events, once",
        ),
        Guard("event_delta_is_never_rewritten", "event_delta", "BEFORE UPDATE", "1 = 1", "events are never rewritten"),
        Guard(
            "event_delta_goes_with_its_session",
            "event_delta",
            "BEFORE DELETE",
            f"EXISTS (SELECT 1 FROM session s WHERE {_OF_SESSION.format(row='OLD')})",
            "no event of a session is deleted",
        ),
    ]


def create_guards(dialect: Dialect, version: str = FIRST) -> list[str]:
    """The statements that make every guard of a version, to be executed one by one on a database that has none."""
    return [
        statement
        for guard in guards(dialect, version)
        for statement in dialect.guard_trigger(
            guard.name, guard.table, guard.timing, guard.columns, guard.condition, guard.message
        )
    ]


def drop_guards(dialect: Dialect, version: str = FIRST) -> list[str]:
    """The statements that remove what `create_guards` made."""
    return [
        statement
        for guard in guards(dialect, version)
        for statement in dialect.drop_guard_trigger(guard.name, guard.table)
    ]
