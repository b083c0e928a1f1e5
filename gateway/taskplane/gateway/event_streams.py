"""Streams of events to the callers of the plane."""

from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.plane import Plane
from taskplane.gateway.web.http import Headers
from taskplane.gateway.web.slots import Slot
from taskplane.gateway.web.sse import Events, EventStream


def event_stream(
    plane: Plane,
    caller: Caller,
    events: Events,
    *,
    slot: Slot | None = None,
    headers: Headers | None = None,
) -> EventStream:
    """Return a response made of events for a caller, in a slot that was taken before or in a new one. Raise Exhausted
    `TOO_MANY_STREAMS`."""
    return EventStream(
        events,
        streams=plane.streams,
        slot=slot or plane.streams.take(caller.principal),
        keep_alive=plane.settings.keep_alive,
        write_timeout=plane.settings.write_timeout,
        alive=lambda: plane.authenticator.alive(caller),
        headers=headers,
    )
