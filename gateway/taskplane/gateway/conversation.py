"""The conversation of a session, combined from both stores: in pages, newest first, and as the session task."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.plane import Plane
from taskplane.runtime.errors import NotFound

_SAID: Final = (sb.ENTRY_KIND_MESSAGE, sb.ENTRY_KIND_OUTCOME, sb.ENTRY_KIND_PUSHED)
_MOST: Final = 1_000


class MessagePage(NamedTuple):
    """Messages, oldest first. `more`: older ones exist."""

    messages: Sequence[a2a.Message]
    more: bool


async def newest_page(plane: Plane, context_id: str, limit: int, before: str) -> MessagePage:
    """Return the newest messages of a session, or the newest before the message with the id `before`.

    They are those that its tasks flatten to. Where the session has a session task they are read in its order, and what
    a task says that is not in there yet follows what is, so that a message keeps its place when it is copied. At most
    `limit`, or a few more where the first one would have no id. NotFound; Invalid `NO_SUCH_MESSAGE`.
    """
    asked = pb.ListMessagesRequest(context_id=context_id, before=before)
    token = ""
    session = (await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))).session
    if session.has_session_task and not await has_own_task(plane, context_id):
        token = await _show_log(plane, asked)
    return await _page(plane, asked, token, limit)


async def session_task(plane: Plane, context_id: str) -> a2a.Task:
    """Return the session task of a session, with the messages of its documents. Raise NotFound."""
    found = await plane.sessions.GetSessionTask(sb.GetSessionTaskRequest(context_id=context_id))
    return await with_documents(plane, found.task)


async def with_documents(plane: Plane, session: a2a.Task) -> a2a.Task:
    """Return a session task with the messages of documents too, which the log of the session does not have, each where
    its turn is."""
    asked = pb.ListMessagesRequest(context_id=session.context_id, documents_only=True, page_size=1)
    if not (await plane.tasks.ListMessages(asked)).messages:
        return session
    token = await _show_log(plane, asked)
    said: list[a2a.Message] = []
    while True:
        page = await _page(plane, asked, token, _MOST)
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


async def has_own_task(plane: Plane, context_id: str) -> bool:
    """Return whether a runtime stored a task under the session's id, which is shown instead of the session task."""
    try:
        found = await plane.tasks.GetTask(pb.GetTaskRequest(task_id=context_id, history_length=0))
    except NotFound:
        return False
    return found.record.context_id == context_id


async def _show_log(plane: Plane, asked: pb.ListMessagesRequest) -> str:
    """Add the messages that the session has to a request for those of its tasks; return the token of their list."""
    shown = await plane.sessions.ListMessageIds(sb.ListMessageIdsRequest(context_id=asked.context_id))
    asked.shown.extend(shown.message_ids)
    asked.ends.update(shown.ends)
    return shown.page_token


async def _page(plane: Plane, asked: pb.ListMessagesRequest, token: str, limit: int) -> MessagePage:
    messages: list[a2a.Message] = []
    while True:
        asked.page_size = limit - len(messages)
        page = await plane.tasks.ListMessages(asked)
        messages[:0] = _together(page, await _shown(plane, asked.context_id, token, page))
        if not page.more or len(messages) >= limit:
            return MessagePage(messages, page.more)
        asked.before = messages[0].message_id


def _together(page: pb.ListMessagesResponse, shown: Sequence[a2a.Message]) -> list[a2a.Message]:
    messages: list[a2a.Message] = []
    at = 0
    for message, end in zip(page.messages, page.shown_before, strict=True):
        messages += [*shown[at:end], message]
        at = end
    return [*messages, *shown[at:]]


async def _shown(plane: Plane, context_id: str, token: str, page: pb.ListMessagesResponse) -> Sequence[a2a.Message]:
    """Return the messages of the session's log that belong on a page."""
    messages: list[a2a.Message] = []
    asked = sb.ListEntriesRequest(
        context_id=context_id, effective=True, distinct=True, kinds=_SAID, page_token=token, skip=page.first_shown
    )
    while len(messages) < page.shown_count:
        asked.page_size = page.shown_count - len(messages)
        found = await plane.sessions.ListEntries(asked)
        for entry in found.entries:
            messages += entry.pushed.messages if entry.HasField("pushed") else [entry.message]
        asked.page_token, asked.skip = found.next_page_token, 0
    return messages
