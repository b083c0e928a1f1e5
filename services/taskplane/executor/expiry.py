"""Sessions that nothing was written to for long are deleted with their tasks, as their owner could."""

import logging
import time

from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.executor.deletion import delete_session
from taskplane.executor.history import SessionLog
from taskplane.executor.states import TERMINAL
from taskplane.runtime.errors import NotFound
from taskplane.runtime.principal import Principal, acting_as

log = logging.getLogger(__name__)


class Expiry:
    """Any number of executors may do so at the same time. `ttl`: seconds after the last change; 0: for ever."""

    def __init__(self, store: TaskStoreStub, history: SessionLog, *, actor: str, ttl: float) -> None:
        self._store = store
        self._sessions = history
        self._actor = actor
        self._ttl = ttl

    async def sweep(self) -> int:
        """Deletes what is due; how many sessions. Errors of the stores are the caller's; the rest is found again."""
        deleted = 0
        last: sessions.ExpiredSession | None = None
        while self._ttl and (page := await self._sessions.expired(self._ttl, last)):
            for each in page:
                with acting_as(Principal(each.tenant, each.owner, self._actor, service=True)):
                    deleted += await self._delete(each)
            last = page[-1]
        if deleted:
            log.info("%d sessions expired and are deleted", deleted)
        return deleted

    async def _delete(self, expired: sessions.ExpiredSession) -> bool:
        context_id = expired.context_id
        try:
            if not await self._at_rest(context_id):
                return False
            # Of a turn the message is saved first: so whoever has begun one since is seen here.
            if (await self._sessions.session(context_id)).version != expired.version:
                return False
            await delete_session(self._store, self._sessions, context_id)
        except NotFound:
            return False
        return True

    async def _at_rest(self, context_id: str) -> bool:
        """Whether none of its tasks is live, uncopied, or was changed lately: documents are, without their session.

        What a rewind cut does not run, and waits for nobody.
        """
        found = await self._store.ListUncopied(pb.ListUncopiedRequest(context_id=context_id, limit=1))
        if found.tasks:
            return False
        page_token = ""
        while True:
            request = pb.ListTaskInfosRequest(
                context_id=context_id, include_superseded=True, page_size=1000, page_token=page_token
            )
            page = await self._store.ListTaskInfos(request)
            for info in page.infos:
                if info.updated_at.seconds > time.time() - self._ttl:
                    return False
                if info.state not in TERMINAL and not info.superseded:
                    return False
            page_token = page.next_page_token
            if not page_token:
                return True
