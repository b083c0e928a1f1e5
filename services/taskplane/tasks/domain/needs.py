"""The data that `decide` needs besides the rows, for the store to read before. Most operations need no such data."""

from taskplane.tasks.domain import commands
from taskplane.tasks.domain.changes import ArtifactUpdate
from taskplane.tasks.domain.commands import Operation
from taskplane.tasks.domain.task import ACTIVE, AT_REST, DOCUMENT, QUEUE, RERUN_ON_ORPHAN, Row


def needs_open_text(row: Row, op: Operation) -> bool:
    """Return whether deciding `op` on `row` needs the text that is open on it (`Found.open_text`)."""
    if row.partial_generation is None:
        return False
    if isinstance(op, commands.Append):
        return op.state in AT_REST
    if isinstance(op, commands.MarkSuperseded):
        return row.state in ACTIVE
    if isinstance(op, commands.Create):
        return row.state in ACTIVE and row.id != op.task_id
    return isinstance(op, (commands.Cancel, commands.Delete, commands.Orphan))


def needs_document(row: Row, op: Operation, *, cut: bool = False) -> bool:
    """Return whether deciding `op` on `row` needs the content of the task (`Found.document`).

    `cut`: see `Found`.
    """
    if row.origin != DOCUMENT:
        return False
    if isinstance(op, commands.MarkSuperseded):
        return cut or row.superseded or row.cut_turns is not None
    return isinstance(op, commands.Put)


def needs_artifacts(row: Row, op: Operation) -> list[str]:
    """Return the ids of artifacts for which `decide` needs to know whether the task has them (`Found.artifacts`).

    Most operations return none: an item continues the artifact that was written last, or begins a new one.
    """
    asked: list[str] = []
    if isinstance(op, commands.Append):
        known = {row.artifact_id}
        for change in op.changes:
            if isinstance(change, ArtifactUpdate) and change.artifact_id not in known:
                known.add(change.artifact_id)
                if change.append:
                    asked.append(change.artifact_id)
    return asked


def needs_lost_messages(row: Row, op: Operation) -> bool:
    """Return whether deciding `op` on `row` needs the ids of the messages under its fence (`Found.lost_messages`)."""
    return isinstance(op, commands.Orphan) and row.started and row.on_orphan == RERUN_ON_ORPHAN


def needs_final_message(row: Row, op: Operation) -> bool:
    """Return whether deciding `op` on `row` needs the newest message of its executor (`Found.final_message`)."""
    return isinstance(op, commands.Orphan) and row.started and row.message_generation > row.input_generation


def needs_lease(row: Row, op: Operation) -> bool:
    """Return whether `op` may end the lease of `row`, so that it has to be locked (`Found.lease_until`)."""
    if row.lease_owner is None:
        return False
    if isinstance(op, commands.Append):
        return op.state in AT_REST
    if isinstance(op, commands.Create):
        return row.id != op.task_id
    return isinstance(op, (commands.Cancel, commands.Delete, commands.Orphan, commands.MarkSuperseded))


def needs_order(row: Row, op: Operation) -> bool:
    """Return whether `decide` needs to know if the task waits for other tasks of its session (`Found.waits`)."""
    return row.in_turn and isinstance(op, commands.Claim)


def needs_queue(op: Operation) -> bool:
    """Return whether deciding `op` needs the number of queued tasks (`Found.queued`)."""
    return isinstance(op, commands.Create) and any(op.queue_limits) and (not op.claim_for or op.strategy == QUEUE)


def needs_turn(row: Row, op: Operation) -> bool:
    """Return whether deciding `op` on `row` needs the invocation of its newest user message (`Found.turn`)."""
    return isinstance(op, (commands.Orphan, commands.TimeOut)) and row.input_generation > 1
