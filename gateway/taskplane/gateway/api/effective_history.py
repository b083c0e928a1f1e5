"""The effective history of a session: read as it is after its rewinds, and replaced by a runtime that keeps its own."""

import logging
from collections.abc import Sequence
from typing import Any, Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.gateway import etags
from taskplane.gateway.api import paging
from taskplane.gateway.api.envelope import check_size, data_reply, read_json
from taskplane.gateway.api.shapes import event_json
from taskplane.gateway.auth import Caller
from taskplane.gateway.http import Reply, Request
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate import v0_3
from taskplane.gateway.translate.documents import read_messages
from taskplane.gateway.translate.fields import Fields, Violations
from taskplane.gateway.translate.nesting import check_readable
from taskplane.gateway.translate.rewinds import read_version
from taskplane.gateway.translate.struct import to_dict
from taskplane.runtime.errors import Invalid, PlaneError
from taskplane.runtime.ids import new_id

_log = logging.getLogger(__name__)

_PAGE: Final = 100
_SHOWN: Final = (sb.ENTRY_KIND_MESSAGE, sb.ENTRY_KIND_OUTCOME, sb.ENTRY_KIND_PUSHED, sb.ENTRY_KIND_EVENT)


async def get(plane: Plane, request: Request, caller: Caller) -> Reply:
    """What a session shows, with its version: its messages and, of a session that a runtime feeds with events, the
    events in effect. All of it, or with `limit` its newest page; `before` names an older one. NotFound; Invalid."""
    if request.query.keys().isdisjoint(("limit", "before")):
        data = await _effective(plane, request.arguments["session"])
    else:
        data = await _page(plane, request)
    return data_reply(
        data, "Successfully retrieved effective history", headers=[(b"etag", etags.from_number(data["version"]))]
    )


async def push(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Replaces what a session shows by the messages given. Invalid: two of them have the same id, among others.
    Conflict `VERSION_MISMATCH`: the session is not at the version expected. NotFound."""
    body = await read_json(plane, request)
    messages, expected = await plane.worker.run(request.size, _read, body)
    expected = expected or etags.parse_if_match(request.header(b"if-match"), "version")
    context_id = request.arguments["session"]
    for message in messages:
        message.message_id = message.message_id or new_id()
    entry = sb.Entry(id=new_id(), kind=sb.ENTRY_KIND_PUSHED, pushed=sb.Messages(messages=messages))
    asked = sb.AppendEntriesRequest(context_id=context_id, entries=[entry], expected_version=expected)
    check_size(asked)
    await plane.sessions.AppendEntries(asked)
    await apply_session(plane, context_id)
    return data_reply(await _effective(plane, context_id), "Successfully stored effective history")


async def state(plane: Plane, request: Request, caller: Caller) -> Reply:
    """The state that the events in effect made, with the session's version. NotFound."""
    asked = sb.GetStateRequest(context_id=request.arguments["session"])
    read = await plane.sessions.GetState(asked)
    data = {"version": read.session.version, "state": to_dict(read.state)}
    return data_reply(data, "Successfully retrieved session state")


async def apply_session(plane: Plane, context_id: str) -> None:
    """Brings the tasks of a session in line with an entry that was stored. What fails here is done by the next turn in
    that session, or by a sweep, so the entry is not refused for it."""
    try:
        await plane.executor.ApplySession(xb.ApplySessionRequest(context_id=context_id))
    except PlaneError as error:
        _log.warning("the tasks of session %s are not in line with it yet: %s", context_id, error)


async def _effective(plane: Plane, context_id: str) -> dict[str, Any]:
    """All that the session shows."""
    pages: list[sb.ListEntriesResponse] = []
    asked = _asked(context_id, paging.MAX_LIMIT)
    while not pages or asked.page_token:
        page = await plane.sessions.ListEntries(asked)
        pages.append(page)
        asked.page_token = page.next_page_token
    return await _shown(plane, pages[-1], [entry for page in pages for entry in page.entries])


async def _page(plane: Plane, request: Request) -> dict[str, Any]:
    """A page of it, from the newest one on."""
    asked = _asked(request.arguments["session"], paging.limit(request, _PAGE))
    asked.newest_first = True
    asked.page_token = paging.token(request, "before")
    page = await plane.sessions.ListEntries(asked)
    return {**await _shown(plane, page, page.entries[::-1]), "before": page.next_page_token or None}


def _asked(context_id: str, size: int) -> sb.ListEntriesRequest:
    return sb.ListEntriesRequest(context_id=context_id, effective=True, distinct=True, kinds=_SHOWN, page_size=size)


async def _shown(plane: Plane, page: sb.ListEntriesResponse, entries: Sequence[sb.Entry]) -> dict[str, Any]:
    """Entries in reading order, of the session as it was on this page."""
    messages: list[a2a.Message] = []
    events: list[dict[str, Any]] = []
    for entry in entries:
        if entry.kind == sb.ENTRY_KIND_EVENT:
            events.append(event_json(page.session, entry, entry.data))
        elif entry.HasField("pushed"):
            messages += entry.pushed.messages
        else:
            messages.append(entry.message)
    size = sum(entry.ByteSize() for entry in entries)
    shown = await plane.worker.run(size, lambda: [v0_3.message(message) for message in messages])
    data: dict[str, Any] = {"version": page.session.version, "messages": shown}
    if page.has_events:
        data["events"] = events
    return data


def _read(body: Any) -> tuple[list[a2a.Message], int]:
    if not isinstance(body, dict):
        raise Invalid("the body must be a JSON object", fields={"": "must be an object"})
    bad = Violations()
    source = Fields(body, "", bad)  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(source.get("messages"), list):
        source.wrong("messages", "is required, and must be a list")
    messages = read_messages(source, "messages")
    expected = read_version(source, "expectedVersion")
    bad.check()
    check_readable(sb.Messages(messages=messages), bad)
    seen: set[str] = set()
    for index, message in enumerate(messages):
        if message.message_id and message.message_id in seen:
            what = "is the id of an earlier message, too"
            path = f"messages[{index}].messageId"
            raise Invalid(f"{path} {what}", reason="DUPLICATE_ID", fields={path: what})
        seen.add(message.message_id)
    return messages, expected
