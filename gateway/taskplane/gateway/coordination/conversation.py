"""The conversation of a session, combined from both stores: in pages, newest first, and as the session task."""

import base64
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.metadata import STEERED
from taskplane.runtime.errors import NotFound
from taskplane.runtime.validation import invalid

_SAID: Final = (sb.ENTRY_KIND_MESSAGE, sb.ENTRY_KIND_OUTCOME, sb.ENTRY_KIND_PUSHED)
_MOST: Final = 1_000
# No page token of a store begins like this.
_PLACE: Final = "."


class MessagePage(NamedTuple):
    """Messages, oldest first. `more`: older ones exist."""

    messages: Sequence[a2a.Message]
    more: bool


# A message of an effective history, or the entry of an event.
Unit = a2a.Message | sb.Entry


class EffectivePage(NamedTuple):
    """A page of an effective history, oldest first. `before`: the name of the page before it; "" if there is none."""

    session: sb.Session
    has_events: bool
    units: Sequence[Unit]
    before: str


class _Page(NamedTuple):
    """Units, oldest first, and the id of the first one. `more`: older ones exist."""

    units: Sequence[Unit]
    more: bool
    first: str


class Conversation:
    """The messages that a session shows, to be read in pages. They are those of the time when it was opened, and what
    tasks and documents have said since."""

    def __init__(self, plane: Plane, asked: pb.ListMessagesRequest, token: str) -> None:
        self._plane = plane
        self._asked = asked
        self._token = token

    async def page(self, limit: int, before: str = "") -> MessagePage:
        """Return the newest messages, or the newest before the message with the id `before`, as `newest_page` does."""
        self._asked.before = before
        return await _messages(self._plane, self._asked, self._token, limit)


async def open_conversation(plane: Plane, context_id: str) -> Conversation:
    """Return the conversation of a session. Raise NotFound."""
    asked = pb.ListMessagesRequest(context_id=context_id)
    token = ""
    session = (await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))).session
    if session.has_session_task:
        token = await _show_log(plane, asked)
    return Conversation(plane, asked, token)


async def newest_page(plane: Plane, context_id: str, limit: int, before: str) -> MessagePage:
    """Return the newest messages of a session, or the newest before the message with the id `before`.

    They are those that its tasks flatten to. Where the session has a session task they are read in its order, and what
    a task says that is not in there yet follows what is, so that a message keeps its place when it is copied. At most
    `limit`, or a few more where the first one would have no id. NotFound; Invalid `NO_SUCH_MESSAGE`.
    """
    return await (await open_conversation(plane, context_id)).page(limit, before)


async def session_task(plane: Plane, context_id: str) -> a2a.Task:
    """Return the session task of a session, with the messages of its documents. Raise NotFound."""
    found = await plane.sessions.GetSessionTask(sb.GetSessionTaskRequest(context_id=context_id))
    return await with_documents(plane, found.task)


async def with_documents(plane: Plane, session: a2a.Task) -> a2a.Task:
    """Return a session task with the messages of documents too, which the log of the session does not have, each where
    its turn is."""
    if not await has_documents(plane, session.context_id):
        return session
    asked = pb.ListMessagesRequest(context_id=session.context_id, documents_only=True)
    token = await _show_log(plane, asked)
    said: list[a2a.Message] = []
    while True:
        page = await _messages(plane, asked, token, _MOST)
        said[:0] = page.messages
        if not page.more:
            break
        asked.before = said[0].message_id
    # Turns may have begun since the session task was read.
    later = set(asked.shown) - {message.message_id for message in session.history} - {""}
    task = a2a.Task()
    task.CopyFrom(session)
    del task.history[:]
    task.history.extend([message for message in said if message.message_id not in later])
    return task


async def shown_record(plane: Plane, record: pb.TaskRecord) -> pb.TaskRecord:
    """Return a task that is stored under the id of its session, as the session task that it is in place of.

    It has the messages of the whole session then, once the session has a session task. A document is in place of it
    only until the session is rewound, or its history pushed, after it was stored.
    """
    try:
        asked = sb.GetSessionRequest(context_id=record.context_id)
        session = (await plane.sessions.GetSession(asked)).session
    except NotFound:
        return record
    if not session.has_session_task:
        return record
    task = await session_task(plane, record.context_id)
    if not _is_newest(record, session):
        return pb.TaskRecord(id=task.id, context_id=task.context_id, task=task)
    shown = pb.TaskRecord()
    shown.CopyFrom(record)
    del shown.task.history[:]
    shown.task.history.extend(task.history)
    return shown


async def first_record(plane: Plane, session: sb.Session) -> pb.TaskRecord | None:
    """Return the session task of a session as a record, of which only a stored one has a log; None if it has none."""
    if not session.has_session_task:
        return None
    context_id = session.context_id
    try:
        found = (await plane.tasks.GetTask(pb.GetTaskRequest(task_id=context_id))).record
    except NotFound:
        found = pb.TaskRecord()
    if found.context_id == context_id:
        return await shown_record(plane, found)
    task = await session_task(plane, context_id)
    return pb.TaskRecord(id=task.id, context_id=task.context_id, task=task)


def _is_newest(record: pb.TaskRecord, session: sb.Session) -> bool:
    """Return whether a task under the id of its session is newer than the last change of the session's history."""
    if record.origin != pb.ORIGIN_DOCUMENT:
        return True
    fields = record.task.metadata.fields
    after = int(fields[STEERED].number_value) if STEERED in fields else 0
    return not record.superseded and after == session.steered_seq


def units_of(entries: Iterable[sb.Entry]) -> list[Unit]:
    """Return the messages of entries in effect, in the same order."""
    units: list[Unit] = []
    for entry in entries:
        if entry.HasField("pushed"):
            units += entry.pushed.messages
        else:
            units.append(entry if entry.kind == sb.ENTRY_KIND_EVENT else entry.message)
    return units


async def has_documents(plane: Plane, context_id: str) -> bool:
    """Return whether documents of a session say anything that is shown."""
    asked = pb.ListMessagesRequest(context_id=context_id, documents_only=True, page_size=1)
    return bool((await plane.tasks.ListMessages(asked)).messages)


async def effective_page(plane: Plane, context_id: str, limit: int, before: str = "") -> EffectivePage:
    """Return the newest messages and events in effect of a session, or the newest before an earlier page.

    The messages are those of the session task, in its order. All pages show the session as of the first one, but what
    its documents say as of now. NotFound; Invalid.
    """
    then, first = _read_place(before)
    asked = pb.ListMessagesRequest(context_id=context_id, documents_only=True, before=first)
    ids = sb.ListMessageIdsRequest(context_id=context_id, events=True, page_token=then)
    shown = await _show(plane, asked, ids)
    page = await _page(plane, asked, shown.page_token, limit, (*_SAID, sb.ENTRY_KIND_EVENT))
    place = _write_place(shown.page_token, page.first) if page.more else ""
    return EffectivePage(shown.session, shown.has_events, page.units, place)


def is_place(before: str) -> bool:
    """Return whether a name of a page looks like one of `effective_page`."""
    return before.startswith(_PLACE)


def _write_place(token: str, first: str) -> str:
    return _PLACE + base64.urlsafe_b64encode(f"{token} {first}".encode()).decode()


def _read_place(place: str) -> tuple[str, str]:
    if not place:
        return "", ""
    try:
        token, first = (
            base64.b64decode(place.removeprefix(_PLACE), altchars=b"-_", validate=True).decode().split(" ", 1)
        )
    except ValueError:
        what = "is not a valid page token: use one from an earlier page, or none"
        raise invalid({"before": what}) from None
    return token, first


async def _show(
    plane: Plane, asked: pb.ListMessagesRequest, ids: sb.ListMessageIdsRequest
) -> sb.ListMessageIdsResponse:
    """Add the entries of the session to a request for the messages of its tasks."""
    shown = await plane.sessions.ListMessageIds(ids)
    asked.shown.extend(shown.message_ids)
    asked.ends.update(shown.ends)
    return shown


async def _show_log(plane: Plane, asked: pb.ListMessagesRequest) -> str:
    """Add the messages that the session has to a request for those of its tasks; return the token of their list."""
    return (await _show(plane, asked, sb.ListMessageIdsRequest(context_id=asked.context_id))).page_token


async def _messages(plane: Plane, asked: pb.ListMessagesRequest, token: str, limit: int) -> MessagePage:
    page = await _page(plane, asked, token, limit, _SAID)
    return MessagePage([one for one in page.units if isinstance(one, a2a.Message)], page.more)


async def _page(
    plane: Plane, asked: pb.ListMessagesRequest, token: str, limit: int, kinds: Sequence[sb.EntryKind.ValueType]
) -> _Page:
    """Return the newest units before `asked.before`. `token` lists those that the session has, of these kinds."""
    units: list[Unit] = []
    while True:
        asked.page_size = limit - len(units)
        page = await plane.tasks.ListMessages(asked)
        units[:0] = _together(page, await _shown(plane, asked.context_id, token, kinds, page))
        own_first = page.shown_before[:1] == [0]
        first = page.messages[0].message_id if own_first else "".join(asked.shown[page.first_shown :][:1])
        if not page.more or len(units) >= limit:
            return _Page(_without_withheld(units, page.more), page.more, first)
        asked.before = first


def _without_withheld(units: Sequence[Unit], more: bool) -> Sequence[Unit]:
    """Return units without those of tasks that were deleted since their list was read: these are there without words.

    The first one stays if `more` come before it, since it names their page.
    """
    return [
        one
        for at, one in enumerate(units)
        if (one.parts if isinstance(one, a2a.Message) else not one.withheld) or (more and at == 0)
    ]


def _together(page: pb.ListMessagesResponse, shown: Sequence[Unit]) -> list[Unit]:
    units: list[Unit] = []
    at = 0
    for message, end in zip(page.messages, page.shown_before, strict=True):
        units += [*shown[at:end], message]
        at = end
    return [*units, *shown[at:]]


async def _shown(
    plane: Plane, context_id: str, token: str, kinds: Sequence[sb.EntryKind.ValueType], page: pb.ListMessagesResponse
) -> Sequence[Unit]:
    """Return the units of the session's log that belong on a page."""
    units: list[Unit] = []
    asked = sb.ListEntriesRequest(
        context_id=context_id, effective=True, distinct=True, kinds=kinds, page_token=token, skip=page.first_shown
    )
    while len(units) < page.shown_count:
        asked.page_size = page.shown_count - len(units)
        found = await plane.sessions.ListEntries(asked)
        units += units_of(found.entries)
        asked.page_token, asked.skip = found.next_page_token, 0
    return units
