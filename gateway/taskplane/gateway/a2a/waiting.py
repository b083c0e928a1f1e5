"""Tells of a queued task that nothing will take it."""

from typing import Final

from taskplane.api.message_metadata import WAITING
from taskplane.api.tasks.v1 import tasks_pb2 as pb

_SUGGESTION: Final = (
    "It begins as soon as one does. The operator of this server can start one: a worker (taskplane worker --agent "
    "{name}=MODULE:ATTRIBUTE) or an executor with this agent."
)


def waiting_of(record: pb.TaskRecord) -> dict[str, str]:
    """Return why a queued task will not begin, with a code and a suggestion; empty if it will, or is not queued."""
    if not record.unserved:
        return {}
    named = f"the agent {record.agent}" if record.agent else "its agent"
    return {
        "code": "AGENT_UNSERVED",
        "agent": record.agent,
        "message": f"No living process runs {named}, so this task waits in the queue.",
        "suggestion": _SUGGESTION.format(name=record.agent or "NAME"),
    }


def tell_waiting(record: pb.TaskRecord) -> None:
    """Add the same to the metadata of the record's task, where there is something to tell."""
    if record.unserved:
        record.task.metadata.update({WAITING: waiting_of(record)})
