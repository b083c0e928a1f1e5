"""Database triggers for the rules that constraints cannot express: one per rule, the same on both engines.

Neither a bug in a service nor a person with a shell can break these rules. The declaration of `Session` gives each
column of `session` one rule. A changed trigger needs another name, or a new version of the schema: otherwise a database
that has it keeps the old one.
"""

from typing import Final

from taskplane.sessions.domain.session import Session
from taskplane.storage.dialects import Dialect
from taskplane.storage.fields import Rule, marked
from taskplane.storage.triggers import Trigger

FIXED: Final = marked(Session, Rule.FIXED)
GROWING: Final = marked(Session, Rule.GROWING)

_OF_SESSION: Final = "s.tenant = {row}.tenant AND s.owner = {row}.owner AND s.context_id = {row}.context_id"
_NEW_SESSION: Final = _OF_SESSION.format(row="NEW")


def triggers(dialect: Dialect) -> list[Trigger]:
    """Return all triggers in the dialect of one engine."""
    fixed, growing = sorted(FIXED), sorted(GROWING)
    return [
        *_of_deltas(),
        Trigger(
            "entry_follows_its_predecessor",
            "entry",
            "BEFORE INSERT",
            f"NOT EXISTS (SELECT 1 FROM session s WHERE {_NEW_SESSION} AND NEW.seq <= s.seq)"
            " OR (NEW.seq <> 1 AND NOT EXISTS (SELECT 1 FROM entry e WHERE e.tenant = NEW.tenant"
            " AND e.owner = NEW.owner AND e.context_id = NEW.context_id AND e.seq = NEW.seq - 1))",
            "an entry directly follows its predecessor and never lies beyond the newest entry of its session",
        ),
        # Otherwise INSERT OR REPLACE would rewrite an entry on SQLite, which runs no trigger for replaced rows.
        Trigger(
            "entry_is_never_replaced",
            "entry",
            "BEFORE INSERT",
            "EXISTS (SELECT 1 FROM entry e WHERE e.tenant = NEW.tenant AND e.owner = NEW.owner"
            " AND e.context_id = NEW.context_id AND e.seq = NEW.seq)"
            " OR EXISTS (SELECT 1 FROM entry e WHERE e.tenant = NEW.tenant AND e.owner = NEW.owner AND e.id = NEW.id)",
            "there is an entry with this number or id already",
        ),
        Trigger("entry_is_never_rewritten", "entry", "BEFORE UPDATE", "1 = 1", "entries are never rewritten"),
        Trigger(
            "entry_goes_with_its_session",
            "entry",
            "BEFORE DELETE",
            f"EXISTS (SELECT 1 FROM session s WHERE {_OF_SESSION.format(row='OLD')})",
            "no entry of a session is deleted",
        ),
        Trigger(
            "session_identity_is_fixed",
            "session",
            "BEFORE UPDATE",
            " OR ".join(dialect.distinct(f"NEW.{column}", f"OLD.{column}") for column in fixed),
            "the identity of a session never changes",
            fixed,
        ),
        Trigger(
            "session_never_goes_back",
            "session",
            "BEFORE UPDATE",
            "COALESCE(NEW.seq, 0) < COALESCE(OLD.seq, 0) OR NEW.has_session_task < OLD.has_session_task"
            " OR NEW.version - OLD.version < COALESCE(NEW.seq, 0) - COALESCE(OLD.seq, 0)"
            " OR NEW.steered_seq < OLD.steered_seq OR NEW.applied_seq < OLD.applied_seq",
            "numbers and versions never shrink, and a version rises with every entry",
            growing,
        ),
    ]


def _of_deltas() -> list[Trigger]:
    return [
        Trigger(
            "event_delta_is_of_an_event",
            "event_delta",
            "BEFORE INSERT",
            "NOT EXISTS (SELECT 1 FROM entry e WHERE e.tenant = NEW.tenant AND e.owner = NEW.owner"
            " AND e.context_id = NEW.context_id AND e.seq = NEW.seq AND e.kind = 3)"
            " OR EXISTS (SELECT 1 FROM event_delta d WHERE d.tenant = NEW.tenant AND d.owner = NEW.owner"
            " AND d.context_id = NEW.context_id AND d.place = NEW.place)",
            "what changes the state of a session is one of its events, once",
        ),
        Trigger(
            "event_delta_is_never_rewritten", "event_delta", "BEFORE UPDATE", "1 = 1", "events are never rewritten"
        ),
        Trigger(
            "event_delta_goes_with_its_session",
            "event_delta",
            "BEFORE DELETE",
            f"EXISTS (SELECT 1 FROM session s WHERE {_OF_SESSION.format(row='OLD')})",
            "no event of a session is deleted",
        ),
    ]
