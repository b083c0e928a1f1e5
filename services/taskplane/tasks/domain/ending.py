"""The rules for a cancel, and the refusals that several rules share."""

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.errors import PlaneError, Refused
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.changes import read_status
from taskplane.tasks.domain.commands import Found, Write
from taskplane.tasks.domain.drafts import Draft, task_not_found
from taskplane.tasks.domain.task import CANCELED, DOCUMENT, TERMINAL, Row, Scope


def visible(row: Row | None, scope: Scope) -> Row | None:
    """Return the row if it belongs to this scope, otherwise None."""
    return row if row is not None and row.tenant == scope.tenant and row.owner == scope.owner else None


def not_managed(row: Row) -> PlaneError:
    """Return the refusal to run, continue or cancel a document task."""
    return Refused(
        f"task {row.id} belongs to another runtime and cannot be run, continued or canceled here",
        reason="NOT_MANAGED",
    )


def terminal(row: Row) -> PlaneError:
    """Return the refusal to change a task that has ended."""
    state = a2a.TaskState.Name(row.state).removeprefix("TASK_STATE_").lower()  # type: ignore[arg-type]
    return Refused(f"task {row.id} has ended ({state})", reason="TERMINAL", metadata={"state": state})


def cancel(found: Found, op: commands.Cancel, now: int) -> Write | PlaneError:
    """Cancel a task that has not ended. A lease does not prevent the cancel."""
    row = visible(found.row, op.scope)
    if row is None:
        return task_not_found(op.task_id)
    if row.origin == DOCUMENT:
        return not_managed(row)
    if row.state in TERMINAL:
        return terminal(row)
    draft = canceled(row, op.scope, now, found.open_text, op.event_metadata)
    new = draft.finished()
    return draft.write(new, commands.Done(row=new), refold=True)


def canceled(
    row: Row,
    by: Scope,
    now: int,
    open_text: a2a.Message | None = None,
    event: a2a.TaskStatusUpdateEvent | None = None,
) -> Draft:
    """Return the draft of a cancel of a live task, with the metadata of `event`.

    The executor loses the lease, and `open_text` is closed. The events have the actor and the trace of `by`.
    """
    draft = Draft(row, by.actor, now, trace=by.trace)
    draft.lose_lease()
    draft.interrupt(open_text)
    update = a2a.TaskStatusUpdateEvent()
    if event is not None and event.HasField("metadata"):
        update.metadata.CopyFrom(event.metadata)
    update.status.state = CANCELED  # type: ignore[assignment]
    draft.status(read_status(update))
    return draft
