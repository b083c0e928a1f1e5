"""The keys that a commit rings for in the other processes of the store, and their meaning here."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from taskplane.storage.bell import key_of
from taskplane.tasks.committed import Changed, Committed
from taskplane.tasks.domain.kinds import MESSAGE, RINGING
from taskplane.tasks.domain.task import MANAGED
from taskplane.tasks.store import Session

# A task may be claimed now or soon; it waits for its session; one gave up its slot, or its turn is over.
QUEUED: Final = "queued"
IN_TURN: Final = "in-turn"
FREED: Final = "freed"
_TASK: Final = "t"
_SESSION: Final = "s"
_EXECUTOR: Final = "x"


@dataclass(slots=True)
class Rung:
    """The keys that another process rang for: of tasks, of sessions with those of their tasks, and of executors."""

    tasks: set[str] = field(default_factory=set[str])
    sessions: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    executors: set[str] = field(default_factory=set[str])
    queued: bool = False
    in_turn: bool = False
    freed: bool = False


def session_key(session: Session) -> str:
    """Return the key of (tenant, owner, context id)."""
    return key_of(*session)


def is_told(change: Changed) -> bool:
    """Return whether watchers of its session are notified: the task is new, has another state, or was marked; also of
    a document that was written again."""
    return change.imported or any(event.changed_to is not None or event.kind in RINGING for event in change.events)


def is_news_to_its_holder(change: Changed) -> bool:
    """Return whether the process that held the lease before has to hear of it; its own completion is no news."""
    row = change.row
    if change.holder is None:
        return False
    if change.events and change.events[-1].kind == MESSAGE:
        return True
    return row.lease_owner is None and row.item_last != row.generation


def keys_of(commit: Committed) -> Iterator[str]:
    """Yield the keys to ring after a commit."""
    for change in commit.changes:
        row = change.row
        if is_news_to_its_holder(change):
            yield _EXECUTOR + key_of(change.holder or "")
        if row.ready_at is not None:
            yield QUEUED
            if row.in_turn:
                yield IN_TURN
        elif row.lease_owner is None and row.origin == MANAGED and change.events:
            yield FREED
        if change.events or change.imported:
            yield from _of_task(change, told=is_told(change))
    for change in commit.deleted:
        yield from _of_task(change, told=True)
        yield FREED
        if change.holder is not None:
            yield _EXECUTOR + key_of(change.holder)


def _of_task(change: Changed, *, told: bool) -> Iterator[str]:
    row = change.row
    key = key_of(row.uid)
    yield f"{_SESSION}{session_key((row.tenant, row.owner, row.context_id))}{key}" if told else _TASK + key
    if change.moved_from:
        yield f"{_SESSION}{session_key((row.tenant, row.owner, change.moved_from))}{key}"


def read(keys: Iterable[str]) -> Rung:
    """Return the meaning of keys of another process; unknown ones are ignored."""
    rung = Rung()
    for key in keys:
        kind, name = key[:1], key[1:]
        if key in (QUEUED, IN_TURN, FREED):
            rung.queued = rung.queued or key == QUEUED
            rung.in_turn = rung.in_turn or key == IN_TURN
            rung.freed = rung.freed or key == FREED
        elif kind == _TASK:
            rung.tasks.add(name)
        elif kind == _SESSION:
            session, task = name[:-8], name[-8:]
            rung.sessions.setdefault(session, set()).add(task)
            rung.tasks.add(task)
        elif kind == _EXECUTOR:
            rung.executors.add(name)
    return rung
