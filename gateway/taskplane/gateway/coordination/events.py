"""Events that a runtime stores in its session. No executor is needed for that, even if an event rewinds."""

from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.gateway.coordination.applying import apply_session
from taskplane.gateway.limits import check_size
from taskplane.gateway.plane import Plane
from taskplane.runtime.errors import AlreadyExists


async def add(plane: Plane, context_id: str, event: sb.Entry) -> None:
    """Store an event, set the time of its commit, and hide the tasks that it cuts.

    Raise AlreadyExists `EVENT_EXISTS` if its id is stored already, without changing that event; NotFound; Invalid.
    """
    asked = sb.AppendEntriesRequest(context_id=context_id, entries=[event])
    check_size(asked)
    stored = await plane.sessions.AppendEntries(asked)
    if not stored.appended:
        raise AlreadyExists(f"event {event.id} is stored already", reason="EVENT_EXISTS")
    if stored.unapplied:
        await apply_session(plane, context_id)
    event.created_at.CopyFrom(stored.updated_at)
