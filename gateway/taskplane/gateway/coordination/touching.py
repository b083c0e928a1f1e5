"""The time of the last change of a session, after a change of its tasks that no entry of the session tells."""

import logging

from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.gateway.plane import Plane
from taskplane.runtime.errors import NotFound, PlaneError

_log = logging.getLogger(__name__)


async def touch_session(plane: Plane, context_id: str) -> None:
    """Have a session listed by a change of its tasks that was made just now. A failure is logged only: the change is
    stored already."""
    try:
        await plane.sessions.TouchSession(sb.TouchSessionRequest(context_id=context_id))
    except NotFound:
        return
    except PlaneError as error:
        _log.warning("the time of the last change of session %s is out of date in lists: %s", context_id, error)
