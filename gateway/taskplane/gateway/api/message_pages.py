"""Pages of a session's conversation, newest first, combined from both stores."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.api.session_tasks import has_own_task
from taskplane.gateway.plane import Plane

_SAID: Final = (sb.ENTRY_KIND_MESSAGE, sb.ENTRY_KIND_OUTCOME, sb.ENTRY_KIND_PUSHED)


class MessagePage(NamedTuple):
    """Messages, oldest first. `more`: older ones exist."""

    messages: Sequence[a2a.Message]
    more: bool


async def newest_page(plane: Plane, context_id: str, limit: int, before: str) -> MessagePage:
    """Return the newest messages of a session, or the newest ones before the message with the id `before`.

    All pages together are exactly the flattened tasks of the session. A page has at most `limit` messages, or a few
    more where its first message would otherwise have no id. Raise NotFound or Invalid `NO_SUCH_MESSAGE`.
    """
    session = (await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))).session
    if not session.has_session_task or await has_own_task(plane, context_id):
        return await _of_tasks(plane, context_id, limit, before, ())
    # The session task comes first; then messages of tasks that it does not contain.
    ids = (await plane.sessions.ListMessageIds(sb.ListMessageIdsRequest(context_id=context_id))).message_ids
    if before and before in ids:
        return await _of_session(plane, context_id, limit, before)
    rest = await _of_tasks(plane, context_id, limit, before, ids)
    if rest.more or len(rest.messages) >= limit or not ids:
        return MessagePage(rest.messages, rest.more or bool(ids))
    first = await _of_session(plane, context_id, limit - len(rest.messages), "")
    return MessagePage([*first.messages, *rest.messages], first.more)


async def _of_tasks(plane: Plane, context_id: str, limit: int, before: str, without: Sequence[str]) -> MessagePage:
    """Return a page of the messages of the tasks, except those with an id in `without`."""
    messages: list[a2a.Message] = []
    asked = pb.ListMessagesRequest(context_id=context_id, before=before, without=without)
    while True:
        asked.page_size = limit - len(messages)
        page = await plane.tasks.ListMessages(asked)
        messages[:0] = page.messages
        if not page.more or len(messages) >= limit:
            return MessagePage(messages, page.more)
        asked.before = messages[0].message_id


async def _of_session(plane: Plane, context_id: str, limit: int, before: str) -> MessagePage:
    """Return a page of the messages of the session task."""
    messages: list[a2a.Message] = []
    asked = sb.ListEntriesRequest(
        context_id=context_id,
        effective=True,
        distinct=True,
        newest_first=True,
        kinds=_SAID,
        before_message_id=before,
    )
    while True:
        asked.page_size = max(1, limit - len(messages))
        page = await plane.sessions.ListEntries(asked)
        for entry in page.entries:
            messages[:0] = entry.pushed.messages if entry.HasField("pushed") else [entry.message]
        asked.page_token = page.next_page_token
        if not asked.page_token or (len(messages) >= limit and messages[0].message_id):
            return MessagePage(messages, bool(asked.page_token))
