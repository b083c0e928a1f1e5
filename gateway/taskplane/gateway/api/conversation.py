"""The conversation that a session's tasks are, without reading again what cannot have changed."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.api.listing import tasks_of
from taskplane.gateway.api.shapes import flatten
from taskplane.gateway.conversations import MOST_BYTES, Beginning
from taskplane.gateway.follow import TERMINAL
from taskplane.gateway.plane import Plane
from taskplane.runtime.principal import Principal

# Tasks that are read at once; about so many at the end of a long session are read each time.
_PAGE: Final = 50


async def conversation(
    plane: Plane, principal: Principal, context_id: str
) -> AsyncGenerator[Sequence[a2a.Message], None]:
    """The messages of a session, oldest first, in runs: exactly those that its tasks flatten to. NotFound."""
    session = (await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))).session
    if session.has_session_task:
        seen: set[str] = set()
        async with aclosing(tasks_of(plane, context_id, artifacts=False)) as listed:
            async for one in listed:
                yield flatten([one.task], seen)
        return
    key = (principal.tenant, principal.owner, context_id, session.created_at.ToNanoseconds())
    known = plane.beginnings.find(key)
    reader = _Reader(plane, context_id, known)
    if known is not None:
        rest = await reader.rest(await _count(plane, context_id) - known.tasks)
        if rest is None:
            plane.beginnings.drop(key)
            reader = _Reader(plane, context_id, None)
        else:
            yield known.messages
            yield rest
    if known is None or reader.known is None:
        async with aclosing(reader.runs()) as runs:
            async for run in runs:
                yield run
    if reader.settled is not known and reader.settled.tasks:
        plane.beginnings.keep(key, reader.settled)


async def _count(plane: Plane, context_id: str) -> int:
    asked = pb.ListTasksRequest(context_id=context_id, page_size=1, history_length=0, order=pb.TASK_ORDER_CREATED)
    return (await plane.tasks.ListTasks(asked)).total_size


class _Reader:
    """Reads the tasks after a beginning. `settled` is that beginning with all that turned out to be unchangeable."""

    def __init__(self, plane: Plane, context_id: str, known: Beginning | None) -> None:
        self.known = known
        self.settled = known or Beginning()
        self._plane = plane
        self._context_id = context_id
        self._tasks = 0

    async def rest(self, tasks: int) -> Sequence[a2a.Message] | None:
        """What the tasks after the beginning said, if they are as many as told; None: one of the others was deleted, or
        it is too much to be held."""
        messages: list[a2a.Message] = []
        size = 0
        async with aclosing(self.runs()) as runs:
            async for run in runs:
                messages += run
                size += sum(message.ByteSize() for message in run)
                if size > MOST_BYTES:
                    return None
        return messages if self._tasks == tasks else None

    async def runs(self) -> AsyncGenerator[Sequence[a2a.Message], None]:
        """What the tasks after the beginning said, a page at a time."""
        seen = set(self.settled.ids)
        settling = True
        asked = pb.ListTasksRequest(
            context_id=self._context_id,
            page_size=_PAGE,
            page_token=self.settled.token,
            order=pb.TASK_ORDER_CREATED,
        )
        while True:
            page = await self._plane.tasks.ListTasks(asked)
            run = flatten((record.task for record in page.records), seen)
            self._tasks += len(page.records)
            settling = settling and self._settle(page, run)
            yield run
            if not page.next_page_token:
                return
            asked.page_token = page.next_page_token

    def _settle(self, page: pb.ListTasksResponse, run: Sequence[a2a.Message]) -> bool:
        """Takes a page into the beginning if neither its tasks nor what comes before them can change any more."""
        if not page.next_page_token or self.settled.size > MOST_BYTES:
            return False
        if not all(record.origin == pb.ORIGIN_MANAGED and record.state in TERMINAL for record in page.records):
            return False
        if self.settled is self.known:
            self.settled = Beginning(self.known)
        self.settled.extend(run, len(page.records), page.next_page_token)
        return True
