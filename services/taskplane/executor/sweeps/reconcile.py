"""Applies the history of a session to its tasks. This is needed after each entry that moves `steered_seq`: a rewind, an
undo, a pushed history, an event of a runtime that rewinds, the void of a deleted task. The void of one turn does not
need it.

The cut turns are computed from the whole history. So any executor may apply a history, in any order and repeatedly.
Each task stores the number of the newest applied entry. If an executor dies half way, `applied_seq` of the session
stays behind. Then the next turn or rewind of the session, or a sweep, applies the history again.
"""

import logging
from contextlib import suppress
from typing import NamedTuple

from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.executor.session_log import SessionLog
from taskplane.executor.sweeps.deleting import delete_with_content
from taskplane.runtime.errors import NotFound, PlaneError
from taskplane.runtime.failpoints import afp
from taskplane.runtime.principal import Principal, acting_as

log = logging.getLogger(__name__)


def is_behind(session: sessions.Session) -> bool:
    """Return whether entry `steered_seq` is not applied to the tasks of the session yet."""
    return session.applied_seq < session.steered_seq


class Applied(NamedTuple):
    """The result of `apply`: the cut invocations without voided ones, and the invocations of deleted tasks."""

    cut: frozenset[str]
    deleted: frozenset[str]


class Reconciler:
    """Applies histories to tasks. The principal of the current context must have the session's owner and
    `service=True`."""

    def __init__(self, store: TaskStoreStub, history: SessionHistoryStub) -> None:
        self._store = store
        self._history = history
        self._sessions = SessionLog(history)

    async def apply(self, context_id: str) -> Applied:
        """Cancel and supersede the tasks of cut turns. Restore superseded tasks of turns in effect. Finish deletions of
        tasks.

        Tasks of voided turns are not superseded: a void can be taken back while this runs. A repeat changes only new
        tasks, and tasks that another runtime has written again since. NotFound: the session does not exist.
        """
        found = await self._history.ListCut(sessions.ListCutRequest(context_id=context_id))
        steered = found.session.steered_seq
        cut = frozenset(found.invocation_ids).difference(found.voided_invocation_ids)
        for task_id in found.unfinished_task_ids:
            with suppress(NotFound):
                await delete_with_content(self._store, self._sessions, task_id)
        if steered:
            request = pb.MarkSupersededRequest(context_id=context_id, steered_seq=steered, cut_invocation_ids=cut)
            marked = await self._store.MarkSuperseded(request)
            for record in marked.records:
                done = "superseded" if record.superseded else "restored"
                log.info("task %s of session %s was %s by entry %d", record.id, context_id, done, steered)
            await afp("rewind.after_mark")
        if is_behind(found.session):
            await self._history.MarkApplied(sessions.MarkAppliedRequest(context_id=context_id, seq=steered))
        return Applied(cut, frozenset(found.deleted_invocation_ids))

    async def sweep(self, actor: str) -> None:
        """Apply all unapplied changes, in every session, each on behalf of its owner.

        An error in one session does not stop the others. Only an error while the sessions are listed is raised.
        """
        request = sessions.ListUnappliedRequest()
        while found := (await self._history.ListUnapplied(request)).sessions:
            for behind in found:
                try:
                    with acting_as(Principal(behind.tenant, behind.owner, actor, service=True)):
                        await self.apply(behind.context_id)
                except NotFound:
                    log.info("session %s no longer exists", behind.context_id)
                except PlaneError as error:
                    log.warning(
                        "the changes of session %s are not applied to its tasks yet: %s", behind.context_id, error
                    )
            request.after.CopyFrom(found[-1])
