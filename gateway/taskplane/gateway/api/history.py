"""The effective history of a session: read as it is after its rewinds, and replaced by a runtime that keeps its own."""

import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any, Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.gateway import etags
from taskplane.gateway.api.envelope import check_size, found, read_json
from taskplane.gateway.api.shapes import event_json
from taskplane.gateway.auth import Caller
from taskplane.gateway.http import Reply, Request
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate import v0_3
from taskplane.gateway.translate.documents import read_messages
from taskplane.gateway.translate.fields import Fields, Violations
from taskplane.gateway.translate.nesting import check_readable
from taskplane.gateway.translate.steering import read_version
from taskplane.gateway.translate.struct import to_dict
from taskplane.runtime.errors import Invalid, PlaneError
from taskplane.runtime.ids import new_id

_log = logging.getLogger(__name__)

_PAGE: Final = 1_000
_SAID: Final = (sb.ENTRY_KIND_MESSAGE, sb.ENTRY_KIND_OUTCOME, sb.ENTRY_KIND_PUSHED)


async def get(plane: Plane, request: Request, caller: Caller) -> Reply:
    """What a session shows, with its version: its messages and, of a session that a runtime feeds with events, the
    events in effect. NotFound."""
    data = await _effective(plane, request.arguments["session"])
    return found(data, "Successfully retrieved effective history", headers=[(b"etag", etags.numbered(data["version"]))])


async def push(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Replaces what a session shows by the messages given. Invalid: two of them have the same id, among others.
    Conflict `VERSION_MISMATCH`: the session is not at the version expected. NotFound."""
    body = await read_json(plane, request)
    messages, expected = await plane.worker.run(request.size, _read, body)
    expected = expected or etags.named(request.header(b"if-match"), "version")
    context_id = request.arguments["session"]
    for message in messages:
        message.message_id = message.message_id or new_id()
    entry = sb.Entry(id=new_id(), kind=sb.ENTRY_KIND_PUSHED, pushed=sb.Messages(messages=messages))
    asked = sb.AppendEntriesRequest(context_id=context_id, entries=[entry], expected_version=expected)
    check_size(asked)
    await plane.sessions.AppendEntries(asked)
    await apply(plane, context_id)
    return found(await _effective(plane, context_id), "Successfully stored effective history")


async def state(plane: Plane, request: Request, caller: Caller) -> Reply:
    """The state that the events in effect made, with the session's version. NotFound."""
    asked = sb.GetStateRequest(context_id=request.arguments["session"])
    read = await plane.sessions.GetState(asked)
    data = {"version": read.session.version, "state": to_dict(read.state)}
    return found(data, "Successfully retrieved session state")


async def apply(plane: Plane, context_id: str) -> None:
    """Brings the tasks of a session in line with an entry that was stored. What fails here is done by the next turn in
    that session, or by a sweep, so the entry is not refused for it."""
    try:
        await plane.executor.ApplySession(xb.ApplySessionRequest(context_id=context_id))
    except PlaneError as error:
        _log.warning("the tasks of session %s are not in line with it yet: %s", context_id, error)


def said(entries: Iterable[sb.Entry]) -> list[a2a.Message]:
    """The messages of entries in effect, in their order; of those with one id the first one."""
    seen: set[str] = set()
    kept: list[a2a.Message] = []
    for entry in entries:
        for message in entry.pushed.messages if entry.HasField("pushed") else [entry.message]:
            if message.message_id not in seen or not message.message_id:
                seen.add(message.message_id)
                kept.append(message)
    return kept


async def _effective(plane: Plane, context_id: str) -> dict[str, Any]:
    asked = sb.ListEntriesRequest(
        context_id=context_id, effective=True, kinds=[*_SAID, sb.ENTRY_KIND_EVENT], page_size=_PAGE
    )
    entries: list[sb.Entry] = []
    events: list[dict[str, Any]] = []
    size = 0
    session = sb.Session()
    async with aclosing(_pages(plane, asked)) as pages:
        async for page in pages:
            session = page.session
            size += page.ByteSize()
            events += (event_json(session, one, one.data) for one in page.entries if one.kind == sb.ENTRY_KIND_EVENT)
            entries += (one for one in page.entries if one.kind in _SAID)
    messages = said(entries)
    shown = await plane.worker.run(size, lambda: [v0_3.message(message) for message in messages])
    data: dict[str, Any] = {"version": session.version, "messages": shown}
    if events or await _has_events(plane, context_id):
        data["events"] = events
    return data


async def _has_events(plane: Plane, context_id: str) -> bool:
    """A runtime feeds the session, be none of its events in effect."""
    asked = sb.ListEntriesRequest(context_id=context_id, kinds=[sb.ENTRY_KIND_EVENT], page_size=1)
    return bool((await plane.sessions.ListEntries(asked)).entries)


async def _pages(plane: Plane, asked: sb.ListEntriesRequest) -> AsyncGenerator[sb.ListEntriesResponse, None]:
    while True:
        page = await plane.sessions.ListEntries(asked)
        yield page
        if not page.next_page_token:
            return
        asked.page_token = page.next_page_token


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
