"""The effect of a commit, as reported to watchers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.tasks.domain.fold import Said
from taskplane.tasks.domain.task import Event, Row


@dataclass(slots=True)
class Changed:
    """The effect of one commit on one task: its present row and its new events, in order.

    Without events only its lease or its `copied_generation` has changed. `task`: the present task, if the commit folded
    it; it folds each task that ends. `snapshot`: the serialized task or document, if it was stored. `said`: see `fold`.
    `holder`: the process that held its lease before. `imported`: the task is new and came with its whole log.
    `moved_from`: the context in which it was before, of a document that is in another one now; empty otherwise.
    """

    row: Row
    events: Sequence[Event] = ()
    task: a2a.Task | None = None
    snapshot: bytes | None = None
    said: Mapping[int, Said] | None = None
    holder: str | None = None
    imported: bool = False
    moved_from: str = ""


@dataclass(slots=True)
class Committed:
    """The effect of one commit, each task once.

    A deleted task is in `deleted` only, in its last state, with its last events if the deletion canceled it.
    """

    changes: Sequence[Changed] = ()
    deleted: Sequence[Changed] = ()

    @property
    def rows(self) -> list[Row]:
        """Return the rows of the tasks that are still there."""
        return [change.row for change in self.changes]

    @property
    def events(self) -> list[Event]:
        """Return all new events; those of one task are in order."""
        return [event for change in (*self.changes, *self.deleted) for event in change.events]
