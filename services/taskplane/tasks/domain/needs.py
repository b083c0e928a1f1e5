"""What deciding an operation takes beside the rows: what the store then reads of the log. As a rule nothing."""

from taskplane.tasks.domain import commands
from taskplane.tasks.domain.changes import ArtifactUpdate
from taskplane.tasks.domain.commands import Operation
from taskplane.tasks.domain.task import ACTIVE, AT_REST, Row


def needs_open_text(row: Row, op: Operation) -> bool:
    """Whether deciding `op` on `row` takes the text that is open on it (`Found.open_text`)."""
    if row.partial_generation is None:
        return False
    if isinstance(op, commands.Append):
        return op.state in AT_REST
    if isinstance(op, commands.MarkSuperseded):
        return row.state in ACTIVE
    if isinstance(op, commands.Create):
        return row.state in ACTIVE and row.id != op.task_id
    return isinstance(op, (commands.Cancel, commands.Delete, commands.Orphan))


def needs_artifacts(row: Row, op: Operation) -> list[str]:
    """Ids of the artifacts of which deciding `op` on `row` takes whether the task has them (`Found.artifacts`).

    As a rule there are none: an item goes on with the artifact that was written to last, or begins its own.
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
    """Whether deciding `op` on `row` takes the ids of what was said under its fence (`Found.lost_messages`)."""
    return isinstance(op, commands.Orphan) and row.started and row.on_orphan == 2


def needs_order(row: Row, op: Operation) -> bool:
    """Whether deciding `op` on `row` takes whether it has to wait for others of its session (`Found.waits`)."""
    return row.in_turn and isinstance(op, commands.Claim)


def needs_turn(row: Row, op: Operation) -> bool:
    """Whether deciding `op` on `row` takes the invocation of its newest user message (`Found.turn`)."""
    return isinstance(op, commands.Orphan) and row.input_generation > 1
