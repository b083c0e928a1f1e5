"""The call that brings the tasks of a session in line with its history."""

import logging

from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.gateway.plane import Plane
from taskplane.runtime.errors import PlaneError

_log = logging.getLogger(__name__)


async def apply_session(plane: Plane, context_id: str) -> None:
    """Bring the tasks of a session in line with an entry that was stored.

    A failure is logged only: the next turn in the session or a sweep does the same work, and the entry is stored
    already.
    """
    try:
        await plane.executor.ApplySession(xb.ApplySessionRequest(context_id=context_id))
    except PlaneError as error:
        _log.warning("the changes of session %s are not applied to its tasks yet: %s", context_id, error)
