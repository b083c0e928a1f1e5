"""Rewinds and undos: what touches both stores, in the order entry, tasks, mark.

The entry in the session history is the commit point. What follows from it for the tasks is done at once, and where a
process dies in between it is finished by whoever comes next (see `applying`). From the entry on the work belongs to the
executor's crew: a caller that goes away cancels nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.executor import checks
from taskplane.executor.applying import Applier, is_behind
from taskplane.executor.crew import Crew
from taskplane.executor.invocations import identify_rewind
from taskplane.executor.tasklog import persistently
from taskplane.runtime.errors import Conflict, PlaneError
from taskplane.runtime.failpoints import afp
from taskplane.runtime.ids import new_id
from taskplane.runtime.principal import Principal, caller

log = logging.getLogger(__name__)

# Seconds after which a rewind that found another one at work should be tried again.
_RETRY_AFTER: Final = 0.1


class Rewound(NamedTuple):
    """The session as one task, and its row at the same point."""

    task: a2a.Task
    session: sessions.Session


class _Steering(NamedTuple):
    """The id and request hash of a rewind or undo at work."""

    id: str
    request_hash: bytes
    work: "asyncio.Task[Rewound]"


class Rewinds:
    """Steers the sessions of one executor, each by one rewind or undo at a time."""

    def __init__(self, history: SessionHistoryStub, applier: Applier, crew: Crew) -> None:
        self._history = history
        self._applier = applier
        self._crew = crew
        self._steering: dict[tuple[str, str, str], _Steering] = {}

    async def rewind_session(self, request: pb.RewindSessionRequest, by: Principal) -> pb.RewindSessionResponse:
        """Of the RPC. Errors as in the contract."""
        checks.rewind(request)
        invocation_id, request_hash = identify_rewind(request, by)
        rewind = sessions.RewindRequest(
            context_id=request.context_id,
            before_invocation_id=request.before_invocation_id,
            id=invocation_id,
            request_hash=request_hash,
            expected_version=request.expected_version,
        )
        done = await self._crew.serve(self.rewind(rewind), by, name=f"rewind {invocation_id}")
        return pb.RewindSessionResponse(task=done.task, version=done.session.version)

    async def undo_rewind(self, request: pb.UndoRewindRequest, by: Principal) -> pb.UndoRewindResponse:
        """Of the RPC. Errors as in the contract."""
        checks.session(request.context_id)
        undo = sessions.UndoRequest(
            context_id=request.context_id, id=new_id(), expected_version=request.expected_version
        )
        done = await self._crew.serve(self._undone(undo), by, name=f"undo {undo.id}")
        return pb.UndoRewindResponse(task=done.task, version=done.session.version)

    async def apply_session(self, context_id: str, by: Principal) -> None:
        """Of the RPC. Errors as in the contract."""
        checks.session(context_id)
        await self._crew.serve(self._catch_up(context_id), by, name=f"applying session {context_id}")

    async def rewind(self, request: sessions.RewindRequest) -> Rewound:
        """Rewinds a session, for the principal of the current context, which must be a service.

        A repeat is answered with the session as it is now, whatever came after the rewind. NotFound; NotFound
        `INVOCATION_NOT_FOUND`. Conflict `REWIND_IN_FLIGHT`, `VERSION_MISMATCH`. Exhausted `HISTORY_TOO_LARGE`: it was
        done, and does not fit the answer.
        """

        async def steer() -> Rewound:
            await self._catch_up(request.context_id)
            done = await persistently(lambda: self._history.Rewind(request))
            await afp("rewind.after_entry")
            if done.rewound:
                log.info("session %s was rewound before %s", request.context_id, request.before_invocation_id)
            return await self._carried_out(done.session)

        return await self._alone(request.context_id, request.id, request.request_hash, steer)

    async def _undone(self, request: sessions.UndoRequest) -> Rewound:
        async def steer() -> Rewound:
            await self._catch_up(request.context_id)
            done = await persistently(lambda: self._history.Undo(request))
            await afp("rewind.after_entry")
            log.info("the newest rewind of session %s was undone", request.context_id)
            return await self._carried_out(done.session)

        return await self._alone(request.context_id, request.id, b"", steer)

    async def _catch_up(self, context_id: str) -> None:
        """Finishes what somebody else began, so that it is done even if what comes now is refused."""
        request = sessions.GetSessionRequest(context_id=context_id)
        found = await persistently(lambda: self._history.GetSession(request))
        if is_behind(found.session):
            await persistently(lambda: self._applier.apply(context_id))

    async def _carried_out(self, session: sessions.Session) -> Rewound:
        context_id = session.context_id
        if is_behind(session):
            await persistently(lambda: self._applier.apply(context_id))
        request = sessions.GetSessionTaskRequest(context_id=context_id)
        shown = await persistently(lambda: self._history.GetSessionTask(request))
        return Rewound(shown.task, shown.session)

    async def _alone(
        self, context_id: str, steering_id: str, request_hash: bytes, steer: Callable[[], Coroutine[Any, Any, Rewound]]
    ) -> Rewound:
        """Has one caller steer a session; who repeats its request meanwhile gets the same answer, others a Conflict."""
        who = caller()
        key = (who.tenant, who.owner, context_id)
        steering = self._steering.get(key)
        if steering is None:
            work = self._crew.start(steer(), name=f"steering session {context_id}")
            steering = self._steering[key] = _Steering(steering_id, request_hash, work)
            work.add_done_callback(lambda _: self._steering.pop(key))
        elif (steering.id, steering.request_hash) != (steering_id, request_hash):
            raise await self._in_flight(context_id)
        return await asyncio.shield(steering.work)

    async def _in_flight(self, context_id: str) -> PlaneError:
        found = await self._history.GetSession(sessions.GetSessionRequest(context_id=context_id))
        return Conflict(
            f"session {context_id} is being rewound",
            reason="REWIND_IN_FLIGHT",
            suggestion="read the session again once that is done, then decide again",
            metadata={"version": str(found.session.version)},
            retry_after=_RETRY_AFTER,
        )
