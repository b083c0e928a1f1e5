"""The keys by which a commit notifies other processes of the store, and their meaning there."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from taskplane.storage.bell import key_of
from taskplane.tasks.committed import Changed, Committed
from taskplane.tasks.domain.kinds import MESSAGE, RINGING
from taskplane.tasks.domain.task import MANAGED
from taskplane.tasks.store import Session

QUEUED: Final = "queued"
"""A task may be claimed now or soon."""
IN_TURN: Final = "in-turn"
"""A queued task waits for earlier tasks of its session."""
FREED: Final = "freed"
"""A task gave up its slot, or is at rest."""
_TASK: Final = "t"
_SESSION: Final = "s"
_EXECUTOR: Final = "x"


@dataclass(slots=True)
class Notified:
    """The parsed keys of a notification by another process.

    `tasks`: keys of changed tasks. `sessions`: keys of changed tasks by key of their session. `executors`: keys of
    executors with a changed lease. `queued`, `in_turn`, `freed`: whether the key of that name was among them.
    """

    tasks: set[str] = field(default_factory=set[str])
    sessions: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    executors: set[str] = field(default_factory=set[str])
    queued: bool = False
    in_turn: bool = False
    freed: bool = False


def session_key(session: Session) -> str:
    """Return the key of (tenant, owner, context id)."""
    return key_of(*session)


def concerns_session(change: Changed) -> bool:
    """Return whether watchers of the session are notified of a change.

    The task is new, has another state, or was hidden or restored; or the task is a document and was replaced.
    """
    return change.imported or any(event.changed_to is not None or event.kind in RINGING for event in change.events)


def concerns_holder(change: Changed) -> bool:
    """Return whether the process that held the lease must be notified of a change: a message of the user, or the loss
    of the lease by another cause than an append of the process."""
    row = change.row
    if change.holder is None:
        return False
    if change.events and change.events[-1].kind == MESSAGE:
        return True
    return row.lease_owner is None and row.item_last != row.generation


def keys_of(commit: Committed) -> Iterator[str]:
    """Yield the keys to notify after a commit."""
    for change in commit.changes:
        row = change.row
        if concerns_holder(change):
            yield _EXECUTOR + key_of(change.holder or "")
        if row.ready_at is not None:
            yield QUEUED
            if row.in_turn:
                yield IN_TURN
        elif row.lease_owner is None and row.origin == MANAGED and change.events:
            yield FREED
        if change.events or change.imported:
            yield from _of_task(change, in_session=concerns_session(change))
    for change in commit.deleted:
        yield from _of_task(change, in_session=True)
        yield FREED
        if change.holder is not None:
            yield _EXECUTOR + key_of(change.holder)


def _of_task(change: Changed, *, in_session: bool) -> Iterator[str]:
    row = change.row
    key = key_of(row.uid)
    yield f"{_SESSION}{session_key((row.tenant, row.owner, row.context_id))}{key}" if in_session else _TASK + key
    if change.moved_from:
        yield f"{_SESSION}{session_key((row.tenant, row.owner, change.moved_from))}{key}"


def read(keys: Iterable[str]) -> Notified:
    """Parse the keys of a notification. Unknown keys are ignored."""
    changed = Notified()
    for key in keys:
        kind, name = key[:1], key[1:]
        if key in (QUEUED, IN_TURN, FREED):
            changed.queued = changed.queued or key == QUEUED
            changed.in_turn = changed.in_turn or key == IN_TURN
            changed.freed = changed.freed or key == FREED
        elif kind == _TASK:
            changed.tasks.add(name)
        elif kind == _SESSION:
            session, task = name[:-8], name[-8:]
            changed.sessions.setdefault(session, set()).add(task)
            changed.tasks.add(task)
        elif kind == _EXECUTOR:
            changed.executors.add(name)
    return changed
