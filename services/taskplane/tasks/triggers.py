"""Database triggers for the rules that constraints cannot express: one per rule, the same on both engines.

Neither a bug in a service nor a person with a shell can break these rules. The declaration of `Row` gives each column
of `task` one rule. A changed trigger needs another name, or a new version of the schema: otherwise a database that has
it keeps the old one.
"""

from collections.abc import Iterable
from typing import Final

from taskplane.storage.dialects import Dialect
from taskplane.storage.fields import Rule, marked
from taskplane.storage.triggers import Trigger
from taskplane.tasks.domain.kinds import MARKS, SUPERSEDED
from taskplane.tasks.domain.task import MANAGED, NEXT, SUBMITTED, WORKING, Row, Use
from taskplane.tasks.tables import among, lasting

FIXED: Final = marked(Row, Rule.FIXED)
GROWING: Final = marked(Row, Rule.GROWING)
FREE: Final = marked(Row, Rule.FREE)
# The stored fold is a cache of the log.
CACHE: Final = marked(Row, Rule.CACHE) | {"snapshot"}
# Columns that may still change once a managed task has ended.
AFTER_THE_END: Final = CACHE | marked(Row, Use.AFTER_END)
MARKING: Final = marked(Row, Use.BY_MARK)
FROZEN_AT_THE_END: Final = (GROWING | FREE) - AFTER_THE_END - MARKING

_IS_MARK: Final = among("NEW.kind", MARKS)


def triggers(dialect: Dialect) -> list[Trigger]:
    """Return all triggers in the dialect of one engine."""
    another_turn = _any_differs(dialect, ("invocation_id",))
    return [
        # One trigger, so that the task is looked up once: most rows written are events.
        Trigger(
            "event_is_in_its_place",
            "event",
            "BEFORE INSERT",
            "NOT EXISTS (SELECT 1 FROM task t WHERE t.uid = NEW.task_uid AND NEW.generation <= t.generation"
            " AND (NEW.fence = t.fence OR NEW.fence = t.item_fence)"
            " AND (NEW.tenant IS NULL OR (NEW.tenant = t.tenant AND NEW.owner = t.owner))"
            f" AND (t.terminal_generation IS NULL OR NEW.generation <= t.terminal_generation OR {_IS_MARK})"
            f" AND (NOT {_IS_MARK} OR (NEW.state = 0 AND length(NEW.payload) = 0"
            " AND NEW.changed_to IS NULL AND NEW.invocation_id IS NULL AND NEW.artifact_id IS NULL"
            f" AND (NEW.generation <> t.generation OR (NEW.kind = {SUPERSEDED}) = t.superseded))))"
            " OR (NEW.generation <> 1 AND NOT EXISTS (SELECT 1 FROM event e WHERE e.task_uid = NEW.task_uid"
            " AND e.generation = NEW.generation - 1)"
            " AND NOT EXISTS (SELECT 1 FROM task t WHERE t.uid = NEW.task_uid"
            " AND t.trimmed_generation >= NEW.generation - 1))",
            "an event directly follows its predecessor, unless that was trimmed, lies beyond neither the head nor the"
            " end of its task, carries the fence of its writer, and records a turn for the owner of its task only; a"
            " mark, which may follow the end, says nothing about the task and agrees with it",
        ),
        Trigger("event_is_never_rewritten", "event", "BEFORE UPDATE", "1 = 1", "events are never rewritten"),
        Trigger(
            "event_is_kept",
            "event",
            "BEFORE DELETE",
            "EXISTS (SELECT 1 FROM task t WHERE t.uid = OLD.task_uid AND (OLD.generation = t.generation"
            " OR OLD.generation > t.snapshot_generation OR OLD.generation > t.trimmed_generation"
            f" OR (t.origin = '{MANAGED}' AND t.terminal_generation IS NULL) OR {lasting('OLD.')}))",
            "no event of a live task, no head event and none beyond the snapshot is deleted, and of others none that"
            " makes a turn idempotent, changed the state or is a mark, nor any where the log is not trimmed",
        ),
        Trigger(
            "task_is_trimmed_after_its_end",
            "task",
            "BEFORE UPDATE",
            "NEW.trimmed_generation <> OLD.trimmed_generation AND (NEW.trimmed_generation >= NEW.generation"
            " OR NEW.trimmed_generation > NEW.snapshot_generation"
            f" OR (OLD.origin = '{MANAGED}' AND (OLD.terminal_generation IS NULL"
            " OR NEW.trimmed_generation >= OLD.terminal_generation"
            " OR NEW.copied_generation < NEW.message_generation)))",
            "a log is trimmed up to before its end, after that, and only when its session has what was said",
            ["trimmed_generation"],
        ),
        Trigger(
            "task_live_is_kept",
            "task",
            "BEFORE DELETE",
            f"OLD.origin = '{MANAGED}' AND OLD.terminal_generation IS NULL",
            "no live task is deleted",
        ),
        Trigger(
            "task_identity_is_fixed",
            "task",
            "BEFORE UPDATE",
            f"{_any_differs(dialect, FIXED)} OR (OLD.origin = '{MANAGED}' AND {another_turn})",
            "the identity of a task and what was declared at its creation never change, but for the turn of a document",
            sorted(FIXED | {"invocation_id"}),
        ),
        Trigger(
            "task_never_goes_back",
            "task",
            "BEFORE UPDATE",
            " OR ".join(f"NEW.{column} < OLD.{column}" for column in sorted(GROWING))
            + " OR (NEW.state <> OLD.state AND NEW.generation = OLD.generation)",
            "generations and fences never shrink, and a state changes with a new generation only",
            sorted(GROWING | {"state"}),
        ),
        Trigger(
            "task_ended_is_frozen",
            "task",
            "BEFORE UPDATE",
            f"OLD.terminal_generation IS NOT NULL AND ({_any_differs(dialect, FROZEN_AT_THE_END)}"
            " OR (NEW.superseded = OLD.superseded"
            " AND (NEW.generation <> OLD.generation OR NEW.updated_at <> OLD.updated_at))"
            " OR (NEW.superseded <> OLD.superseded AND NEW.generation <> OLD.generation + 1))",
            "a managed task that has ended does not change, but for a mark",
            sorted(FROZEN_AT_THE_END | MARKING),
        ),
        Trigger(
            "task_is_marked_by_an_event",
            "task",
            "BEFORE UPDATE",
            "NEW.superseded <> OLD.superseded AND (NEW.generation = OLD.generation"
            " OR (NEW.superseded AND NEW.invocation_id IS NULL)"
            f" OR (OLD.origin = '{MANAGED}' AND NEW.superseded_seq <= OLD.superseded_seq))",
            "a task of a turn is superseded or restored by an event, and one that is run here for a newer entry of its"
            " session",
            ["superseded"],
        ),
        Trigger(
            "task_item_under_its_fence",
            "task",
            "BEFORE UPDATE",
            _item_condition(dialect),
            "an item is accepted once, in order, and only under the fence that the task had",
            ["item_fence", "item_number"],
        ),
        Trigger(
            "task_lost_lease_raises_fence",
            "task",
            "BEFORE UPDATE",
            f"OLD.lease_owner IS NOT NULL AND {dialect.distinct('NEW.lease_owner', 'OLD.lease_owner')}"
            " AND NEW.fence = OLD.fence AND NEW.terminal_generation IS NULL",
            "whoever loses a lease is fenced in the same change",
            ["lease_owner"],
        ),
        Trigger(
            "lease_belongs_to_its_task",
            "lease",
            "BEFORE INSERT",
            "NOT EXISTS (SELECT 1 FROM task t WHERE t.uid = NEW.task_uid AND t.lease_owner = NEW.owner"
            " AND t.fence = NEW.fence)",
            "a lease is made for the process and the fence that its task names",
        ),
        Trigger(
            "lease_is_extended_only",
            "lease",
            "BEFORE UPDATE",
            "NEW.task_uid <> OLD.task_uid OR NEW.owner <> OLD.owner OR NEW.fence <> OLD.fence"
            # A store that is alone begins all leases anew when it starts, since the clock they were made by is gone.
            + ("" if dialect.alone else " OR NEW.lease_until < OLD.lease_until"),
            "a lease changes neither its process nor its fence, and never ends sooner than it did",
        ),
        Trigger(
            "lease_is_kept_while_it_holds",
            "lease",
            "BEFORE DELETE",
            "EXISTS (SELECT 1 FROM task t WHERE t.uid = OLD.task_uid AND t.lease_owner = OLD.owner"
            " AND t.fence = OLD.fence)",
            "a lease goes when its task has lost it",
        ),
        Trigger(
            "task_state_follows",
            "task",
            "BEFORE UPDATE",
            f"OLD.origin = '{MANAGED}' AND NEW.state <> OLD.state AND NOT ({_next_condition()})",
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


def _next_condition() -> str:
    """Return the table NEXT as SQL, with SUBMITTED after WORKING only if the store queues a lost attempt again."""
    ways = [
        f"(OLD.state = {state} AND {among('NEW.state', following)})"
        for state, following in sorted(NEXT.items())
        if following
    ]
    ways.append(f"(OLD.state = {WORKING} AND NEW.state = {SUBMITTED} AND NEW.ready_at IS NOT NULL)")
    return " OR ".join(ways)
