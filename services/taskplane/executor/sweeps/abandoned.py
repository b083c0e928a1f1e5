"""Abandoned turns: a message was saved, and the executor that should answer it or create its task is gone.

Such a turn is voided, so that later prompts leave its message out; a repeat of the turn takes the void back. The
session history lists the unchecked turns of all executors. A checked turn leaves the list.

A turn of a deleted task is voided already, for good.
"""

import logging

from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.executor.session_entries import unvoid, void
from taskplane.executor.session_log import SessionLog
from taskplane.runtime.errors import NotFound, PlaneError
from taskplane.runtime.principal import Principal, acting_as
from taskplane.runtime.retry import RETRYABLE

log = logging.getLogger(__name__)


class Abandoned:
    """The sweep of abandoned turns. Any number of executors may run it at the same time."""

    def __init__(self, store: TaskStoreStub, sessions: SessionLog, *, actor: str, after: float) -> None:
        """`actor`: the actor named in void entries. `after`: age in seconds after which a turn without a result counts
        as abandoned."""
        self._store = store
        self._sessions = sessions
        self._actor = actor
        self._after = after

    async def sweep(self) -> None:
        """Check every turn that is due. Raise a RETRYABLE error; the next sweep finds the remaining turns."""
        more = True
        while more:
            page = await self._sessions.unsettled(self._after)
            for turn in page.turns:
                with acting_as(Principal(turn.tenant, turn.owner, self._actor, service=True)):
                    await self._settle(turn)
            if page.HasField("until"):
                await self._sessions.mark_settled(page.until)
            more = page.more

    async def _settle(self, turn: sessions.UnsettledTurn) -> None:
        try:
            has_result = await self._has_result(turn)
            if has_result is False:
                if not await self._sessions.is_void(turn.context_id, turn.invocation_id):
                    log.info("voiding turn %s, which has no task and no answer", turn.invocation_id)
                    await void(self._sessions, turn.context_id, turn.invocation_id)
                # A repeat may have created a task or an answer meanwhile.
                has_result = await self._has_result(turn)
            if has_result:
                await unvoid(self._sessions, turn.context_id, turn.invocation_id)
        except RETRYABLE:
            raise
        except NotFound:
            log.info("the session of turn %s no longer exists", turn.invocation_id)
        except PlaneError as error:
            # The same error would come every time, and would block the turns after this one.
            log.warning("turn %s could not be checked: %s", turn.invocation_id, error)

    async def _has_result(self, turn: sessions.UnsettledTurn) -> bool | None:
        """Return whether the turn has a task or an answer. None: the task with this id belongs to another turn; leave
        this turn as it is."""
        if not turn.task_id:
            return await self._sessions.outcome(turn.context_id, turn.invocation_id) is not None
        try:
            # Not GetTask: a task may be large, and its record is enough.
            found = await self._store.ListEvents(pb.ListEventsRequest(task_id=turn.task_id, limit=1))
        except NotFound:
            return False
        return found.record.invocation_id == turn.invocation_id or None
