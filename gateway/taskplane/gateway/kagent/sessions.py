"""Sessions under /api, and the events that agent runtimes store in them, in kagent's shapes."""

from typing import Any, Final

from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.coordination import events
from taskplane.gateway.kagent.envelope import data_reply, read_object
from taskplane.gateway.kagent.shapes import agent_id, event_json, session_json
from taskplane.gateway.limits import check_size, parse_if_match
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.fields import Fields
from taskplane.gateway.translate.reading import Reading
from taskplane.gateway.translate.timestamps import from_text
from taskplane.gateway.web.etags import from_number, if_changed
from taskplane.gateway.web.http import Reply, Request
from taskplane.runtime import json_lines
from taskplane.runtime.errors import PermissionDenied
from taskplane.runtime.storable import storable
from taskplane.runtime.validation import invalid

_PAGE: Final = 1_000


async def create(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Create a session, or update the one with this id. Raise Invalid without `agent_ref`."""
    bad = Reading()
    body = Fields(await read_object(plane, request), "", bad)
    asked = sb.CreateSessionRequest(
        context_id=body.text("id"),
        agent=body.text("agent_ref", required=True),
        title=body.text("name"),
        source=body.text("source"),
    )
    bad.check()
    check_size(asked)
    session = (await plane.sessions.CreateSession(asked)).session
    return data_reply(session_json(session), "Successfully created session", status=201)


async def get(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return a session with its runtime's events, newest first unless `order=asc`, with its version as the entity tag,
    and whether its newest rewind can be undone.

    `after` selects events stored after that time, `limit` bounds their number (0: all). Raise NotFound or Invalid.
    """
    order = request.query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise invalid({"order": "must be asc or desc"})
    limit = max(0, request.number("limit", 0))
    after = _time(request.query.get("after", ""))
    asked = sb.ListEntriesRequest(
        context_id=request.arguments["session"],
        kinds=[sb.ENTRY_KIND_EVENT],
        newest_first=order == "desc",
        page_size=min(limit, _PAGE) or _PAGE,
    )
    found_events: list[dict[str, Any]] = []
    while True:
        page = await plane.sessions.ListEntries(asked)
        found_events += (
            event_json(page.session, entry, entry.data)
            for entry in page.entries
            if not entry.withheld and (after is None or entry.created_at.ToNanoseconds() > after)
        )
        if not page.next_page_token or 0 < limit <= len(found_events):
            break
        asked.page_token = page.next_page_token
    found = page.session
    undoable = False
    if found.steered_seq:
        undoable = (await plane.sessions.ListCut(sb.ListCutRequest(context_id=found.context_id))).undoable
    more = {"title": found.title, "agent": found.agent, "version": found.version, "canUndo": undoable}
    data = {"session": session_json(found) | more, "events": found_events[:limit] if limit else found_events}
    reply = data_reply(data, "Successfully retrieved session")
    return if_changed(request, reply, from_number(page.session.version))


def _time(text: str) -> int | None:
    """Return the parameter `after` in nanoseconds since 1970; None if it is empty."""
    if not text:
        return None
    try:
        return from_text(text).ToNanoseconds()
    except (ValueError, OverflowError):
        what = "must be an RFC 3339 time"
        raise invalid({"after": what}) from None


async def update(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Rename a session or change its agent. Raise Invalid if neither is given; NotFound; Conflict `VERSION_MISMATCH` if
    the session does not have the version in If-Match."""
    bad = Reading()
    body = Fields(await read_object(plane, request), "", bad)
    expected = parse_if_match(request.header(b"if-match"), "version")
    asked = sb.UpdateSessionRequest(context_id=request.arguments["session"], expected_version=expected)
    if body.get("name") is not None:
        asked.title = body.text("name")
    if body.get("agent_ref") is not None:
        asked.agent = body.text("agent_ref", required=True)
    bad.check()
    if not asked.HasField("title") and not asked.HasField("agent"):
        raise invalid({"name": "or agent_ref is required"})
    check_size(asked)
    session = (await plane.sessions.UpdateSession(asked)).session
    reply = data_reply(session_json(session), "Successfully updated session")
    reply.raw_headers.append((b"etag", from_number(session.version)))
    return reply


async def delete(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Delete a session with its tasks, canceling those that run. Raise NotFound."""
    await plane.executor.DeleteSession(xb.DeleteSessionRequest(context_id=request.arguments["session"]))
    return data_reply({}, "Session deleted successfully")


async def add_event(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Store an event of an agent runtime: opaque JSON text under the runtime's id. An event that rewinds hides the
    tasks that it cuts.

    Raise PermissionDenied `WRONG_AGENT` if the session belongs to another agent; AlreadyExists if the id is stored
    already, without changing it; NotFound; Invalid.
    """
    bad = Reading()
    body = Fields(await read_object(plane, request, lenient=True), "", bad)
    data = body.get("data")
    text = storable(data) if isinstance(data, str) else "" if data is None else json_lines.encode(data).decode()
    if not text:
        body.wrong("data", "is required")
    # The event's own JSON names its turn; the session history reads it.
    entry = sb.Entry(id=body.text("id", required=True), kind=sb.ENTRY_KIND_EVENT, data=text)
    bad.check()
    context_id = request.arguments["session"]
    session = (await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))).session
    agent = request.header(b"x-agent-name")
    if agent and session.agent and agent_id(agent) != agent_id(session.agent):
        raise PermissionDenied("the session belongs to another agent", reason="WRONG_AGENT")
    await events.add(plane, context_id, entry)
    return data_reply(event_json(session, entry, text), "Event added to session successfully", status=201)
