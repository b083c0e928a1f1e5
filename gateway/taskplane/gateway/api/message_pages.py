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
    """Return the newest messages of a session, or the newest before the message with the id `before`.

    They are those that its tasks flatten to. Where the session has a session task they are read in its order, and what
    a task says that is not in there yet follows what is, so that a message keeps its place when it is copied. At most
    `limit`, or a few more where the first one would have no id. NotFound; Invalid `NO_SUCH_MESSAGE`.
    """
    asked = pb.ListMessagesRequest(context_id=context_id, before=before)
    token = ""
    session = (await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))).session
    if session.has_session_task and not await has_own_task(plane, context_id):
        shown = await plane.sessions.ListMessageIds(sb.ListMessageIdsRequest(context_id=context_id))
        asked.shown.extend(shown.message_ids)
        asked.ends.update(shown.ends)
        token = shown.page_token
    messages: list[a2a.Message] = []
    while True:
        asked.page_size = limit - len(messages)
        page = await plane.tasks.ListMessages(asked)
        messages[:0] = _together(page, await _shown(plane, context_id, token, page))
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
    """Return the messages of the session task that belong on a page."""
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
