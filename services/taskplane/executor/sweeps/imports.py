"""Unfinished imports: the tasks are stored, and the gateway that should create the session is gone.

The session of an import becomes visible last, so no client misses it before, and its tasks can be deleted. First the
staged part of the session is dropped, so that the session cannot be created any more. Then the sweep looks for the
session: without a session the tasks are deleted. The stores drop earlier stages of an import after an hour.
"""

import logging
from typing import Final

from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.runtime.errors import NotFound, PlaneError
from taskplane.runtime.principal import Principal, acting_as

log = logging.getLogger(__name__)

# Seconds; more than any gateway waits for the session.
ABANDONED_AFTER: Final = 600.0


class Imports:
    """The sweep of unfinished imports. Any number of executors may run it at the same time."""

    def __init__(self, store: TaskStoreStub, history: SessionHistoryStub, *, after: float = ABANDONED_AFTER) -> None:
        """`after`: seconds after which no gateway works on an import any more."""
        self._store = store
        self._history = history
        self._after = after

    async def sweep(self, actor: str) -> None:
        """Finish the imports that are due. Only an error of the list of imports is raised."""
        await self._history.DropAbandonedImports(sessions.DropAbandonedImportsRequest())
        await self._store.DropAbandonedImports(pb.DropAbandonedImportsRequest())
        asked = pb.ListUnfinishedImportsRequest(min_age=self._after)
        for one in (await self._store.ListUnfinishedImports(asked)).imports:
            try:
                with acting_as(Principal(one.tenant, one.owner, actor, service=True)):
                    await self._finish(one.context_id, one.import_id)
            except PlaneError as error:
                log.warning("the import of session %s is not finished yet: %s", one.context_id, error)

    async def _finish(self, context_id: str, import_id: str) -> None:
        names = {"context_id": context_id, "import_id": import_id}
        await self._history.DropImport(sessions.DropImportRequest(**names))
        try:
            await self._history.GetSession(sessions.GetSessionRequest(context_id=context_id))
        except NotFound:
            log.info("the import of session %s did not finish; deleting its tasks", context_id)
            await self._store.DropImport(pb.DropImportRequest(**names))
        else:
            await self._store.FinishImport(pb.FinishImportRequest(**names))
