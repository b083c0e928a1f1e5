"""The guards as version 0005 of the schema made them. They stand here for migrations and are never changed."""

from collections.abc import Iterable
from typing import Final

from taskplane.storage.dialects import Dialect
from taskplane.tasks.sql.guards import Guard, creating, dropping

_FIXED: Final = (
    "created_at",
    "id",
    "in_turn",
    "max_attempts",
    "on_orphan",
    "origin",
    "owner",
    "request_hash",
    "salt",
    "tenant",
    "uid",
)
_GROWING: Final = (
    "copied_generation",
    "fence",
    "generation",
    "input_generation",
    "message_generation",
    "restart_generation",
    "snapshot_generation",
    "superseded_seq",
    "trimmed_generation",
)
_FROZEN: Final = (
    "agent",
    "artifact_id",
    "attempt",
    "consumed_generation",
    "context_id",
    "event_bytes",
    "fence",
    "input_generation",
    "invocation_id",
    "item_fence",
    "item_first",
    "item_last",
    "item_number",
    "lease_owner",
    "lease_until",
    "message_generation",
    "message_id",
    "partial_generation",
    "partial_id",
    "ready_at",
    "restart_generation",
    "started",
    "state",
    "status_at",
    "terminal_generation",
)
_ACTIVE: Final = " OR ".join(f"NEW.state = {state}" for state in range(2, 9))
_NEXT: Final = (
    f"(OLD.state = 1 AND ({_ACTIVE})) OR (OLD.state = 2 AND ({_ACTIVE}))"
    " OR (OLD.state = 6 AND (NEW.state = 1 OR NEW.state = 4 OR NEW.state = 5))"
    " OR (OLD.state = 8 AND (NEW.state = 1 OR NEW.state = 4 OR NEW.state = 5))"
    " OR (OLD.state = 2 AND NEW.state = 1 AND NEW.ready_at IS NOT NULL)"
)
_LASTING: Final = "(OLD.changed_to IS NOT NULL OR (OLD.kind = 1 OR OLD.kind = 2 OR OLD.kind = 6 OR OLD.kind = 7))"


def create_guards(dialect: Dialect) -> list[str]:
    """The statements that make every guard, to be executed one by one on a database that has none."""
    return creating(dialect, _guards(dialect))


def drop_guards(dialect: Dialect) -> list[str]:
    """The statements that remove what `create_guards` made."""
    return dropping(dialect, _guards(dialect))


def _guards(dialect: Dialect) -> list[Guard]:
    another_turn = _any_differs(dialect, ("invocation_id",))
    return [
        # One guard, so that the task is looked up once: events are what is written most.
        Guard(
            "event_is_in_its_place",
            "event",
            "BEFORE INSERT",
            "NOT EXISTS (SELECT 1 FROM task t WHERE t.uid = NEW.task_uid AND NEW.generation <= t.generation"
            " AND (NEW.fence = t.fence OR NEW.fence = t.item_fence)"
            " AND (NEW.tenant IS NULL OR (NEW.tenant = t.tenant AND NEW.owner = t.owner))"
            " AND (t.terminal_generation IS NULL OR NEW.generation <= t.terminal_generation"
            " OR (NEW.kind = 6 OR NEW.kind = 7))"
            " AND (NOT (NEW.kind = 6 OR NEW.kind = 7)"
            " OR (NEW.state = 0 AND length(NEW.payload) = 0"
            " AND NEW.changed_to IS NULL AND NEW.invocation_id IS NULL AND NEW.artifact_id IS NULL"
            " AND (NEW.generation <> t.generation OR (NEW.kind = 6) = t.superseded))))"
            " OR (NEW.generation <> 1 AND NOT EXISTS (SELECT 1 FROM event e WHERE e.task_uid = NEW.task_uid"
            " AND e.generation = NEW.generation - 1))",
            "an event directly follows its predecessor, lies beyond neither the head nor the end of its task, carries"
            " the fence of its writer, and records a turn for the owner of its task only; a mark, which may follow the"
            " end, says nothing about the task and agrees with it",
        ),
        Guard("event_is_never_rewritten", "event", "BEFORE UPDATE", "1 = 1", "events are never rewritten"),
        Guard(
            "event_is_kept",
            "event",
            "BEFORE DELETE",
            "EXISTS (SELECT 1 FROM task t WHERE t.uid = OLD.task_uid AND (OLD.generation = t.generation"
            " OR OLD.generation > t.snapshot_generation OR OLD.generation > t.trimmed_generation"
            f" OR (t.origin = 'managed' AND t.terminal_generation IS NULL) OR {_LASTING}))",
            "no event of a live task, no head event and none beyond the snapshot is deleted, and of others none that"
            " makes a turn idempotent, changed the state or is a mark, nor any where the log is not trimmed",
        ),
        Guard(
            "task_is_trimmed_after_its_end",
            "task",
            "BEFORE UPDATE",
            "NEW.trimmed_generation <> OLD.trimmed_generation AND (NEW.trimmed_generation >= NEW.generation"
            " OR NEW.trimmed_generation > NEW.snapshot_generation"
            " OR (OLD.origin = 'managed' AND (OLD.terminal_generation IS NULL"
            " OR NEW.trimmed_generation >= OLD.terminal_generation"
            " OR NEW.copied_generation < NEW.message_generation)))",
            "a log is trimmed up to before its end, after that, and only when its session has what was said",
            ["trimmed_generation"],
        ),
        Guard(
            "task_live_is_kept",
            "task",
            "BEFORE DELETE",
            "OLD.origin = 'managed' AND OLD.terminal_generation IS NULL",
            "no live task is deleted",
        ),
        Guard(
            "task_identity_is_fixed",
            "task",
            "BEFORE UPDATE",
            f"{_any_differs(dialect, _FIXED)} OR (OLD.origin = 'managed' AND {another_turn})",
            "the identity of a task and what was declared at its creation never change, but for the turn of a document",
            sorted({*_FIXED, "invocation_id"}),
        ),
        Guard(
            "task_never_goes_back",
            "task",
            "BEFORE UPDATE",
            " OR ".join(f"NEW.{column} < OLD.{column}" for column in _GROWING)
            + " OR (NEW.state <> OLD.state AND NEW.generation = OLD.generation)",
            "generations and fences never shrink, and a state changes with a new generation only",
            sorted({*_GROWING, "state"}),
        ),
        Guard(
            "task_ended_is_frozen",
            "task",
            "BEFORE UPDATE",
            f"OLD.terminal_generation IS NOT NULL AND ({_any_differs(dialect, _FROZEN)}"
            " OR (NEW.superseded = OLD.superseded"
            " AND (NEW.generation <> OLD.generation OR NEW.updated_at <> OLD.updated_at))"
            " OR (NEW.superseded <> OLD.superseded AND NEW.generation <> OLD.generation + 1))",
            "a managed task that has ended does not change, but for a mark",
            sorted({*_FROZEN, "generation", "updated_at", "superseded"}),
        ),
        Guard(
            "task_is_marked_by_an_event",
            "task",
            "BEFORE UPDATE",
            "NEW.superseded <> OLD.superseded AND (NEW.generation = OLD.generation"
            " OR (NEW.superseded AND NEW.invocation_id IS NULL)"
            " OR (NEW.superseded_seq <= OLD.superseded_seq AND NOT (OLD.superseded"
            f" AND OLD.origin <> 'managed' AND ({another_turn} OR NEW.context_id <> OLD.context_id))))",
            "a task of a turn is superseded or restored by an event, for a newer entry of its session, or restored"
            " since it is a document of another turn or session now",
            ["superseded"],
        ),
        Guard(
            "task_item_under_its_fence",
            "task",
            "BEFORE UPDATE",
            _item_condition(dialect),
            "an item is accepted once, in order, and only under the fence that the task had",
            ["item_fence", "item_number"],
        ),
        Guard(
            "task_lost_lease_raises_fence",
            "task",
            "BEFORE UPDATE",
            f"OLD.lease_owner IS NOT NULL AND {dialect.distinct('NEW.lease_owner', 'OLD.lease_owner')}"
            " AND NEW.fence = OLD.fence AND NEW.terminal_generation IS NULL",
            "whoever loses a lease is fenced in the same change",
            ["lease_owner"],
        ),
        Guard(
            "task_state_follows",
            "task",
            "BEFORE UPDATE",
            f"OLD.origin = 'managed' AND NEW.state <> OLD.state AND NOT ({_NEXT})",
            "this state may not follow that one",
            ["state"],
        ),
    ]


def _any_differs(dialect: Dialect, columns: Iterable[str]) -> str:
    return " OR ".join(dialect.distinct(f"NEW.{column}", f"OLD.{column}") for column in sorted(columns))


def _item_condition(dialect: Dialect) -> str:
    changed = _any_differs(dialect, ("item_fence", "item_number"))
    grows = (
        "OLD.item_fence IS NULL OR NEW.item_fence > OLD.item_fence"
        " OR (NEW.item_fence = OLD.item_fence AND NEW.item_number > OLD.item_number)"
    )
    return (
        f"({changed}) AND (NEW.item_fence IS NULL OR NEW.item_number IS NULL"
        f" OR NEW.item_fence <> OLD.fence OR NOT ({grows}))"
    )
