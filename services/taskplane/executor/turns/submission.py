"""A message of a user on its way, and the reply that names its task."""

from dataclasses import dataclass

from taskplane.agents.agent import Router
from taskplane.agents.hosted import Hosted
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.principal import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A request in progress. `message`: a copy of the message in `request`, as it will be stored."""

    hosted: Hosted
    caller: Principal
    invocation_id: str
    request_hash: bytes
    has_key: bool
    has_explicit_key: bool
    create_unknown_task: bool
    expected_version: int
    # That of the task, for a message to one; 0: any.
    expected_generation: int
    request: a2a.SendMessageRequest
    message: a2a.Message
    # The data for the agent besides the message.
    options: tasks.TurnOptions
    task_id: str
    context_id: str
    # Monotonic time at which it came.
    since: float
    # It must not be answered directly.
    as_task: bool = False
    # The client waits for the end of the turn, and is shown nothing before.
    waits: bool = False

    @property
    def router(self) -> Router | None:
        """Return the router that may answer it."""
        return None if self.as_task else self.hosted.router


def reference(record: tasks.TaskRecord, *, created: bool = False) -> pb.SubmitResponse:
    """Return the reply for a task, with its first state if this call created it."""
    named = pb.TaskReference(task_id=record.id, context_id=record.context_id)
    if created:
        named.cursor = f"{record.incarnation}-1"
        named.task.CopyFrom(record.task)
    return pb.SubmitResponse(task=named)
