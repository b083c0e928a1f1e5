"""Deletion of sessions without a recent entry, with their tasks.

First the tasks of the session are listed. Then the session is deleted if it still has the version at which it was
found. This decides: every turn raises the version, so a session with a new turn is kept, and a later turn creates the
session again. Only then the listed tasks are deleted, unless they have changed. The session history keeps the time of
the newest change of these tasks, so another executor can finish the deletion.
"""

import logging
import time
from collections.abc import Sequence
from contextlib import suppress

from google.protobuf.timestamp_pb2 import Timestamp

from taskplane.agents.states import TERMINAL
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.executor.session_log import SessionLog
from taskplane.runtime.errors import Conflict, NotFound
from taskplane.runtime.principal import Principal, acting_as

log = logging.getLogger(__name__)


class Expiry:
    """The sweep of old sessions; any number of executors may run it.

    `ttl`: seconds after the last change; 0: sessions are kept for ever.
    """

    def __init__(self, store: TaskStoreStub, history: SessionLog, *, actor: str, ttl: float) -> None:
        self._store = store
        self._sessions = history
        self._actor = actor
        self._ttl = ttl

    async def sweep(self) -> int:
        """Delete expired sessions; return the number. Errors of the stores are raised; the next sweep finds the
        rest."""
        while remains := await self._sessions.remains():
            for one in remains:
                with acting_as(Principal(one.tenant, one.owner, self._actor, service=True)):
                    await self._clear(one)
        deleted = 0
        last: sessions.ExpiredSession | None = None
        while self._ttl and (page := await self._sessions.expired(self._ttl, last)):
            for each in page:
                with acting_as(Principal(each.tenant, each.owner, self._actor, service=True)):
                    deleted += await self._expire(each)
            last = page[-1]
        if deleted:
            log.info("deleted %d expired sessions", deleted)
        return deleted

    async def _expire(self, expired: sessions.ExpiredSession) -> bool:
        found = await self._store.ListUncopied(pb.ListUncopiedRequest(context_id=expired.context_id, limit=1))
        if found.tasks:
            return False
        tasks = await self._tasks(expired.context_id)
        if not all(map(self._is_due, tasks)):
            return False
        until = max((info.updated_at for info in tasks), key=Timestamp.ToMicroseconds, default=None)
        try:
            await self._sessions.delete(expired.context_id, expired.version, until)
        except (NotFound, Conflict):
            return False
        if until is not None:
            await self._delete_tasks(tasks)
            await self._sessions.drop_remains(expired.context_id, until)
        return True

    def _is_due(self, info: pb.TaskInfo) -> bool:
        """Return whether a task has ended and was not changed lately; a document may change without its session.

        A superseded task counts as ended.
        """
        old = info.updated_at.ToMicroseconds() <= 1_000_000 * (time.time() - self._ttl)
        return old and (info.state in TERMINAL or info.superseded)

    async def _clear(self, left: sessions.Remains) -> None:
        # If the session was created or imported again, the tasks belong to the new session.
        if not await self._sessions.exists(left.context_id):
            until = left.tasks_until.ToMicroseconds()
            found = await self._tasks(left.context_id)
            await self._delete_tasks([info for info in found if info.updated_at.ToMicroseconds() <= until])
        await self._sessions.drop_remains(left.context_id, left.tasks_until)

    async def _delete_tasks(self, tasks: Sequence[pb.TaskInfo]) -> None:
        """Delete the tasks that have not changed since they were listed."""
        for info in tasks:
            with suppress(NotFound, Conflict):
                await self._store.DeleteTask(
                    pb.DeleteTaskRequest(task_id=info.task_id, expected_generation=info.generation)
                )

    async def _tasks(self, context_id: str) -> list[pb.TaskInfo]:
        tasks: list[pb.TaskInfo] = []
        request = pb.ListTaskInfosRequest(context_id=context_id, include_superseded=True, page_size=1000)
        while True:
            page = await self._store.ListTaskInfos(request)
            tasks += page.infos
            request.page_token = page.next_page_token
            if not request.page_token:
                return tasks
