"""The answer to a rewind that came as a message."""

from collections.abc import Sequence

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.coordination import conversation
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.dialect import Payload


async def rewound_task(plane: Plane, rewound: xb.Rewound) -> a2a.Task:
    """Return the session task after a rewind without a next turn, or the refusal of the rewind as it is."""
    if rewound.task.status.state == a2a.TASK_STATE_FAILED:
        return rewound.task
    return await conversation.with_documents(plane, rewound.task)


def shown(task: a2a.Task) -> Sequence[Payload]:
    """Return the result of a rewind as elements of a stream. A refusal also has a status update: for clients a Task
    without history is the beginning of a turn, and they would show no reason."""
    if task.status.state != a2a.TASK_STATE_FAILED:
        return [task]
    return [task, a2a.TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status)]


async def first_cursor(plane: Plane, reference: xb.TaskReference) -> str:
    """Return the cursor before the first event of a task."""
    incarnation = reference.cursor.rpartition("-")[0]
    if not incarnation:
        asked = pb.ListEventsRequest(task_id=reference.task_id, limit=1)
        incarnation = (await plane.tasks.ListEvents(asked)).record.incarnation
    return f"{incarnation}-0"
