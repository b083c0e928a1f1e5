"""The effective history of a session: reads, and replacement by a runtime that keeps its own."""

from collections.abc import Sequence
from typing import Any, Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import INVOCATION_KEYS
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.coordination import conversation, pushing
from taskplane.gateway.coordination.conversation import Unit
from taskplane.gateway.kagent import paging
from taskplane.gateway.kagent.envelope import data_reply, read_json
from taskplane.gateway.kagent.shapes import event_json
from taskplane.gateway.limits import parse_if_match
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.documents import read_messages
from taskplane.gateway.translate.fields import Fields, is_object
from taskplane.gateway.translate.reading import Reading
from taskplane.gateway.translate.rewinds import read_version
from taskplane.gateway.translate.v0_3 import V0_3
from taskplane.gateway.web import etags
from taskplane.gateway.web.http import Reply, Request
from taskplane.runtime.ids import new_id
from taskplane.runtime.json_values import text_in, to_dict
from taskplane.runtime.message_ids import given, settled
from taskplane.runtime.validation import invalid

_PAGE: Final = 100
_SHOWN: Final = (sb.ENTRY_KIND_MESSAGE, sb.ENTRY_KIND_OUTCOME, sb.ENTRY_KIND_PUSHED, sb.ENTRY_KIND_EVENT)


async def get(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return the effective history of a session and its version.

    The history consists of messages and, where a runtime stores events in the session, of the events in effect. With
    `limit` only its newest page is returned; `before` names an older page. Raise NotFound or Invalid.
    """
    if request.query.keys().isdisjoint(("limit", "before")):
        data = await _effective(plane, request.arguments["session"])
    else:
        data = await _page(plane, request)
    return data_reply(
        data, "Successfully retrieved effective history", headers=[(b"etag", etags.from_number(data["version"]))]
    )


async def push(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Replace the effective history of a session by the given messages: the body is a list of them, or an object with
    `messages` and perhaps `expectedVersion`.

    Messages that would be lost under their id get one of their own. Raise Invalid; Conflict `VERSION_MISMATCH` if the
    session does not have the expected version; NotFound.
    """
    messages, expected = await plane.worker.run(request.size, _read, await read_json(plane, request, lenient=True))
    expected = expected or parse_if_match(request.header(b"if-match"), "version")
    context_id = request.arguments["session"]
    for message in messages:
        message.message_id = message.message_id or new_id()
    await pushing.push(plane, context_id, sb.Messages(messages=_kept_apart(messages, context_id)), expected)
    return data_reply(await _effective(plane, context_id), "Successfully stored effective history")


async def state(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return the state that the events in effect result in, with the session's version. Raise NotFound."""
    asked = sb.GetStateRequest(context_id=request.arguments["session"])
    read = await plane.sessions.GetState(asked)
    return await plane.worker.run(read.ByteSize(), _state, read)


def _state(read: sb.GetStateResponse) -> Reply:
    data = {"version": read.session.version, "state": to_dict(read.state)}
    return data_reply(data, "Successfully retrieved session state")


async def _effective(plane: Plane, context_id: str) -> dict[str, Any]:
    """Return the whole effective history."""
    if await conversation.has_documents(plane, context_id):
        page = await conversation.effective_page(plane, context_id, paging.MAX_LIMIT)
        units = [*page.units]
        while page.before:
            page = await conversation.effective_page(plane, context_id, paging.MAX_LIMIT, page.before)
            units[:0] = page.units
        return await _shown(plane, page.session, units, has_events=page.has_events)
    asked = _asked(context_id, paging.MAX_LIMIT)
    pages = [page async for page in paging.pages(plane.sessions.ListEntries, asked)]
    entries = [entry for page in pages for entry in page.entries]
    return await _shown(plane, pages[-1].session, conversation.units_of(entries), has_events=pages[-1].has_events)


async def _page(plane: Plane, request: Request) -> dict[str, Any]:
    """Return one page of the effective history, the newest one first."""
    context_id, limit, before = (
        request.arguments["session"],
        paging.limit(request, _PAGE),
        paging.token(request, "before"),
    )
    if conversation.is_place(before) or (not before and await conversation.has_documents(plane, context_id)):
        page = await conversation.effective_page(plane, context_id, limit, before)
        shown = await _shown(plane, page.session, page.units, has_events=page.has_events)
        return {**shown, "before": page.before or None}
    asked = _asked(context_id, limit)
    asked.newest_first = True
    asked.page_token = before
    listed = await plane.sessions.ListEntries(asked)
    shown = await _shown(
        plane, listed.session, conversation.units_of(listed.entries[::-1]), has_events=listed.has_events
    )
    return {**shown, "before": listed.next_page_token or None}


def _asked(context_id: str, size: int) -> sb.ListEntriesRequest:
    return sb.ListEntriesRequest(context_id=context_id, effective=True, distinct=True, kinds=_SHOWN, page_size=size)


async def _shown(plane: Plane, session: sb.Session, units: Sequence[Unit], *, has_events: bool) -> dict[str, Any]:
    """Return the JSON of messages and events of a session, given in reading order."""
    messages = [one for one in units if isinstance(one, a2a.Message)]
    size = sum(one.ByteSize() for one in units)
    shown = await plane.worker.run(size, lambda: [V0_3.message(message) for message in messages])
    data: dict[str, Any] = {"version": session.version, "messages": shown}
    if has_events:
        data["events"] = [event_json(session, one, one.data) for one in units if isinstance(one, sb.Entry)]
    return data


def _read(body: Any) -> tuple[list[a2a.Message], int]:
    bad = Reading(lenient=True)
    bare: dict[str, Any] = {"messages": body}
    given = bare if isinstance(body, list) else body
    if not is_object(given):
        what = "must be a list of messages or an object"
        raise invalid({"": what})
    source = Fields(given, "", bad)
    if not isinstance(source.get("messages"), list):
        source.wrong("messages", "is required, and must be a list")
    messages = read_messages(source, "messages")
    expected = read_version(source, "expectedVersion")
    bad.check()
    return messages, expected


def _kept_apart(messages: Sequence[a2a.Message], context_id: str) -> list[a2a.Message]:
    """Return messages with an id of its own for each further one under an id, without those that only grew or
    repeat."""
    said = [given(message, _turn_of(message), is_user=message.role == a2a.ROLE_USER) for message in messages]
    kept: list[a2a.Message] = []
    for at, message_id in settled(said, context_id):
        messages[at].message_id = message_id
        kept.append(messages[at])
    return kept


def _turn_of(message: a2a.Message) -> str:
    return text_in(message.metadata, *INVOCATION_KEYS)
