"""Rewinds and undos. They write to both stores, in this order: session entry, tasks, `applied_seq` of the session.

The entry in the session history is the commit point. Its effects on the tasks are applied at once. If the process dies
in between, another process applies the effects (`sweeps.reconcile`). The executor works in the background: a disconnect
of the caller cancels nothing.

Of two rewinds at the same time one succeeds. Within one executor the other rewind is refused before any write. With two
executors, the second entry is refused: the session was rewound after the read by the second executor.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.executor.background import BackgroundTasks
from taskplane.executor.sweeps.reconcile import Reconciler, is_behind
from taskplane.executor.turns import submit_checks
from taskplane.executor.turns.invocations import identify_rewind, identify_undo
from taskplane.runtime.errors import Conflict
from taskplane.runtime.failpoints import afp
from taskplane.runtime.principal import Principal, caller
from taskplane.runtime.retry import retry_briefly

log = logging.getLogger(__name__)
T = TypeVar("T")

# Number of attempts for an entry that must follow the entries read, during other writes to the session.
_TRIES: Final = 50
# Seconds before a retry of a rewind, if another rewind is running.
_RETRY_AFTER: Final = 0.1


class Rewound(NamedTuple):
    """The session as one task, and its row at the same point."""

    task: a2a.Task
    session: sessions.Session


class _InFlight(NamedTuple):
    """A rewind or undo in progress, with its id and request hash."""

    id: str
    request_hash: bytes
    work: "asyncio.Task[Rewound]"


class Rewinds:
    """Rewinds and undos of one executor, one at a time in each session."""

    def __init__(self, history: SessionHistoryStub, reconciler: Reconciler, background: BackgroundTasks) -> None:
        self._history = history
        self._reconciler = reconciler
        self._background = background
        self._in_flight: dict[tuple[str, str, str], _InFlight] = {}

    async def rewind_session(self, request: pb.RewindSessionRequest, by: Principal) -> pb.RewindSessionResponse:
        """Serve RewindSession. Errors as in the contract."""
        submit_checks.rewind(request)
        invocation_id, request_hash = identify_rewind(request, by)
        rewind = sessions.RewindRequest(
            context_id=request.context_id,
            before_invocation_id=request.before_invocation_id,
            id=invocation_id,
            request_hash=request_hash,
            expected_version=request.expected_version,
        )
        done = await self._background.serve(self.rewind(rewind), by, name=f"rewind {invocation_id}")
        return pb.RewindSessionResponse(task=done.task, version=done.session.version)

    async def undo_rewind(self, request: pb.UndoRewindRequest, by: Principal) -> pb.UndoRewindResponse:
        """Serve UndoRewind. Errors as in the contract."""
        submit_checks.session(request.context_id)
        invocation_id, request_hash = identify_undo(request, by)
        undo = sessions.UndoRequest(
            context_id=request.context_id,
            id=invocation_id,
            request_hash=request_hash,
            expected_version=request.expected_version,
        )
        done = await self._background.serve(self._undone(undo), by, name=f"undo {undo.id}")
        return pb.UndoRewindResponse(task=done.task, version=done.session.version)

    async def apply_session(self, context_id: str, by: Principal) -> None:
        """Serve ApplySession. Errors as in the contract."""
        submit_checks.session(context_id)
        applying = retry_briefly(lambda: self._reconciler.apply(context_id))
        await self._background.serve(applying, by, name=f"applying session {context_id}")

    async def rewind(self, request: sessions.RewindRequest) -> Rewound:
        """Rewind a session on behalf of the principal of the current context. The principal must be a service.

        A repeat gets the current session. NotFound; NotFound `INVOCATION_NOT_FOUND`. Conflict `REWIND_IN_FLIGHT`,
        `VERSION_MISMATCH`. Exhausted `HISTORY_TOO_LARGE`: the rewind is done, but the session does not fit into the
        answer.
        """

        async def write(version: int) -> sessions.RewindResponse:
            versioned = sessions.RewindRequest()
            versioned.CopyFrom(request)
            versioned.expected_version = version
            return await self._history.Rewind(versioned)

        async def change() -> Rewound:
            done = await self._entered(request.context_id, request.expected_version, write)
            await afp("rewind.after_entry")
            if done.rewound:
                log.info("session %s was rewound before %s", request.context_id, request.before_invocation_id)
            return await self._carried_out(done.session)

        return await self._alone(request.context_id, request.id, request.request_hash, change)

    async def _undone(self, request: sessions.UndoRequest) -> Rewound:
        async def write(version: int) -> sessions.UndoResponse:
            versioned = sessions.UndoRequest()
            versioned.CopyFrom(request)
            versioned.expected_version = version
            return await self._history.Undo(versioned)

        async def change() -> Rewound:
            done = await self._entered(request.context_id, request.expected_version, write)
            await afp("rewind.after_entry")
            if done.undone:
                log.info("the newest rewind of session %s was undone", request.context_id)
            return await self._carried_out(done.session)

        return await self._alone(request.context_id, request.id, request.request_hash, change)

    async def _entered(self, context_id: str, expected_version: int, write: Callable[[int], Awaitable[T]]) -> T:
        """Write the entry of a rewind or undo by `write`. The argument of `write` is the required version of the
        session.

        Without `expected_version` any version is accepted, unless another caller has rewound the session meanwhile.
        """
        found = await self._catch_up(context_id)
        if expected_version:
            return await retry_briefly(partial(write, expected_version))
        steered, tries = found.steered_seq, 0
        while True:
            try:
                return await retry_briefly(partial(write, found.version))
            except Conflict as error:
                tries += 1
                if error.reason != "VERSION_MISMATCH" or tries == _TRIES:
                    raise
            found = await self._session(context_id)
            if found.steered_seq != steered:
                raise _in_flight(found)

    async def _catch_up(self, context_id: str) -> sessions.Session:
        """Apply an earlier unapplied entry. So it is applied even if the new entry is refused."""
        found = await self._session(context_id)
        if is_behind(found):
            await retry_briefly(lambda: self._reconciler.apply(context_id))
        return found

    async def _session(self, context_id: str) -> sessions.Session:
        request = sessions.GetSessionRequest(context_id=context_id)
        return (await retry_briefly(lambda: self._history.GetSession(request))).session

    async def _carried_out(self, session: sessions.Session) -> Rewound:
        context_id = session.context_id
        if is_behind(session):
            await retry_briefly(lambda: self._reconciler.apply(context_id))
        request = sessions.GetSessionTaskRequest(context_id=context_id)
        shown = await retry_briefly(lambda: self._history.GetSessionTask(request))
        return Rewound(shown.task, shown.session)

    async def _alone(
        self, context_id: str, change_id: str, request_hash: bytes, change: Callable[[], Coroutine[Any, Any, Rewound]]
    ) -> Rewound:
        """Run `change` unless another change of the session is running. A repeat of the running request gets its
        answer.

        Other requests get Conflict.
        """
        who = caller()
        key = (who.tenant, who.owner, context_id)
        running = self._in_flight.get(key)
        if running is None:
            work = self._background.start(change(), name=f"rewind of session {context_id}")
            running = self._in_flight[key] = _InFlight(change_id, request_hash, work)
            work.add_done_callback(lambda _: self._in_flight.pop(key))
        elif (running.id, running.request_hash) != (change_id, request_hash):
            raise _in_flight(await self._session(context_id))
        return await asyncio.shield(running.work)


def _in_flight(session: sessions.Session) -> Conflict:
    return Conflict(
        f"another rewind of session {session.context_id} is running",
        reason="REWIND_IN_FLIGHT",
        suggestion="wait for its end, read the session again, then decide again",
        metadata={"version": str(session.version)},
        retry_after=_RETRY_AFTER,
    )
