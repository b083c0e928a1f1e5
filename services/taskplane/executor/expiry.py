"""Sessions that nothing was written to for long are deleted with their tasks.

Which tasks those are is seen first. Then the session is deleted if it is still at the version at which it was found,
which is the one decision: every turn raises the version, so whoever began one before is not touched, and whoever begins
one after it makes the session anew. Only then do the tasks go that were seen, and are as they were seen.

The process may die in between, and its tasks stay then; whatever else fails is made up for by the next sweep.
"""

import asyncio
import logging
import time
from contextlib import suppress
from typing import NamedTuple

from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.executor.deletion import exists
from taskplane.executor.history import SessionLog
from taskplane.executor.states import TERMINAL
from taskplane.runtime.errors import Conflict, NotFound
from taskplane.runtime.principal import Principal, acting_as

log = logging.getLogger(__name__)


class _Due(NamedTuple):
    """A session, and its tasks: each with the generation at which it was at rest."""

    tenant: str
    owner: str
    context_id: str
    tasks: list[tuple[str, int]]


class Expiry:
    """Any number of executors may do so at the same time. `ttl`: seconds after the last change; 0: for ever."""

    def __init__(self, store: TaskStoreStub, history: SessionLog, *, actor: str, ttl: float) -> None:
        self._store = store
        self._sessions = history
        self._actor = actor
        self._ttl = ttl
        # Of which it is not known whether they are deleted whole.
        self._left: list[_Due] = []

    async def sweep(self) -> int:
        """Deletes what is due; how many sessions. Errors of the stores are the caller's; the rest is found again."""
        await self._make_up()
        deleted = 0
        last: sessions.ExpiredSession | None = None
        while self._ttl and (page := await self._sessions.expired(self._ttl, last)):
            for each in page:
                with acting_as(Principal(each.tenant, each.owner, self._actor, service=True)):
                    deleted += await self._expire(each)
            last = page[-1]
        if deleted:
            log.info("%d sessions expired and are deleted", deleted)
        return deleted

    async def _make_up(self) -> None:
        while self._left:
            due = self._left[0]
            with acting_as(Principal(due.tenant, due.owner, self._actor, service=True)):
                if not await exists(self._sessions, due.context_id):
                    await self._delete_tasks(due)
            self._left.remove(due)

    async def _expire(self, expired: sessions.ExpiredSession) -> bool:
        tasks = await self._at_rest(expired.context_id)
        if tasks is None:
            return False
        due = _Due(expired.tenant, expired.owner, expired.context_id, tasks)
        deleting = asyncio.create_task(self._delete(due, expired.version))
        try:
            return await asyncio.shield(deleting)
        except asyncio.CancelledError:
            # Nobody would find the tasks of a session that is gone.
            await asyncio.wait([deleting])
            if not deleting.cancelled() and (error := deleting.exception()):
                log.warning("session %s may not be deleted whole: %s", due.context_id, error)
            raise

    async def _delete(self, due: _Due, version: int) -> bool:
        self._left.append(due)
        try:
            await self._sessions.delete(due.context_id, version)
        except (NotFound, Conflict):
            self._left.remove(due)
            return False
        await self._delete_tasks(due)
        self._left.remove(due)
        return True

    async def _delete_tasks(self, due: _Due) -> None:
        for task_id, generation in due.tasks:
            with suppress(NotFound, Conflict):
                await self._store.DeleteTask(pb.DeleteTaskRequest(task_id=task_id, expected_generation=generation))

    async def _at_rest(self, context_id: str) -> list[tuple[str, int]] | None:
        """Its tasks; None: one of them is live, uncopied, or was changed lately: documents are, without their session.

        What a rewind cut does not run, and waits for nobody.
        """
        found = await self._store.ListUncopied(pb.ListUncopiedRequest(context_id=context_id, limit=1))
        if found.tasks:
            return None
        tasks: list[tuple[str, int]] = []
        page_token = ""
        while True:
            request = pb.ListTaskInfosRequest(
                context_id=context_id, include_superseded=True, page_size=1000, page_token=page_token
            )
            page = await self._store.ListTaskInfos(request)
            for info in page.infos:
                if info.updated_at.seconds > time.time() - self._ttl:
                    return None
                if info.state not in TERMINAL and not info.superseded:
                    return None
                tasks.append((info.task_id, info.generation))
            page_token = page.next_page_token
            if not page_token:
                return tasks
