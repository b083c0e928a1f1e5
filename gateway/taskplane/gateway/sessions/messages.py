"""Conversations under /api: the messages of a session in pages, newest page first, and the messages of one task."""

from collections import deque
from collections.abc import Collection
from contextlib import aclosing, suppress
from typing import Any, Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import STATUS_TEXT
from taskplane.gateway.a2a import tasks
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.coordination.conversation import MessagePage, newest_page
from taskplane.gateway.coordination.shown_messages import kind_of
from taskplane.gateway.kagent import paging
from taskplane.gateway.kagent.envelope import data_reply
from taskplane.gateway.kagent.session_tasks import iterate_events, iterate_tasks
from taskplane.gateway.kagent.shapes import flatten
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.documents import is_partial
from taskplane.gateway.translate.v0_3 import V0_3
from taskplane.gateway.web.http import Reply, Request
from taskplane.runtime.errors import NotFound
from taskplane.runtime.validation import invalid

_PAGE: Final = 100
_SOME: Final = 1_000


async def of_session(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return a page of the flattened tasks of a session, oldest message first; the newest page unless `before` is
    given.

    With `kind` only messages of that kind are returned, status texts included. Raise NotFound or Invalid.
    """
    limit = paging.limit(request, _PAGE)
    before = request.query.get("before", "")
    context_id, kind = request.arguments["session"], request.query.get("kind", "")
    if kind == STATUS_TEXT:
        page = await _newest_status_texts(plane, context_id, limit, before)
    elif kind:
        page = await _newest_of_kind(plane, context_id, kind, limit, before)
    else:
        page = await newest_page(plane, context_id, limit, before)
    data = {
        "messages": await _messages(plane, page.messages),
        "before": page.messages[0].message_id if page.more else None,
    }
    return data_reply(data, "Successfully retrieved messages")


async def _newest_of_kind(plane: Plane, context_id: str, kind: str, limit: int, before: str) -> MessagePage:
    kept: list[a2a.Message] = []
    while True:
        part = await newest_page(plane, context_id, _SOME, before)
        kept[:0] = [message for message in part.messages if kind_of(message) == kind]
        if not part.more or len(kept) > limit:
            return MessagePage(kept[-limit:], len(kept) > limit)
        before = part.messages[0].message_id


async def _newest_status_texts(plane: Plane, context_id: str, limit: int, before: str) -> MessagePage:
    # They are in no conversation: iterate over the logs, but keep one page of them in memory.
    page: deque[a2a.Message] = deque(maxlen=limit)
    count = 0
    async with aclosing(iterate_tasks(plane, context_id, artifacts=False)) as listed:
        async for one in listed:
            texts = await _of_kind(plane, one.task, STATUS_TEXT)
            stop = next((at for at, one in enumerate(texts) if one.message_id == before), None) if before else None
            page.extend(texts[:stop])
            count += len(texts) if stop is None else stop
            if stop is not None:
                break
        else:
            if before:
                what = "must be the id of a message of this session"
                raise invalid({"before": what})
    return MessagePage(list(page), count > limit)


async def of_task(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return the messages of one task, or of the session task under the id of a session; with `kind` only those of that
    kind, status texts included. Raise NotFound."""
    record = await tasks.read(plane, request.arguments["task"])
    kind = request.query.get("kind", "")
    messages = await _of_kind(plane, record.task, kind) if kind else flatten([record.task])
    return data_reply(await _messages(plane, messages), "Successfully retrieved messages")


async def _messages(plane: Plane, messages: Collection[a2a.Message]) -> list[dict[str, Any]]:
    size = sum(message.ByteSize() for message in messages)
    return await plane.worker.run(size, lambda: [V0_3.message(message) for message in messages])


async def _of_kind(plane: Plane, task: a2a.Task, kind: str) -> list[a2a.Message]:
    """Return the messages of a kind in a task. Status texts are not part of the history and are read from the log."""
    if kind != STATUS_TEXT:
        return [message for message in flatten([task]) if kind_of(message) == kind]
    messages: list[a2a.Message] = []
    # The session task has no log.
    with suppress(NotFound):
        async for event in iterate_events(plane, task.id, status_messages=True):
            message = event.event.status_update.status.message
            if kind_of(message) == kind and not is_partial(message):
                messages.append(message)
    return messages
