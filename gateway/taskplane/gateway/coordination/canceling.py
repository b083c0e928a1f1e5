"""The cancellation of a task, which is the last change of its session as well."""

import logging

from google.protobuf.struct_pb2 import Struct

from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.plane import Plane
from taskplane.runtime.errors import NotFound, PlaneError

_log = logging.getLogger(__name__)


async def cancel_task(plane: Plane, task_id: str, metadata: Struct | None = None) -> pb.TaskRecord:
    """Cancel a task, have its session listed by this change, and return the task.

    Raise Refused `TERMINAL` or `NOT_MANAGED` if it has ended or no executor runs it; NotFound.
    """
    record = (await plane.tasks.CancelTask(pb.CancelTaskRequest(task_id=task_id, metadata=metadata))).record
    await _touch_session(plane, record.context_id)
    return record


async def _touch_session(plane: Plane, context_id: str) -> None:
    """Have a session listed by a change of its tasks. A failure is logged only: the change is stored already."""
    try:
        await plane.sessions.TouchSession(sb.TouchSessionRequest(context_id=context_id))
    except NotFound:
        return
    except PlaneError as error:
        _log.warning("the time of the last change of session %s is out of date in lists: %s", context_id, error)
