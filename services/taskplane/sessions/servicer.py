"""The service of the session history: it converts and calls the log. It contains no rule about sessions."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.api.sessions.v1 import sessions_pb2_grpc as pb_grpc
from taskplane.runtime.ids import new_id
from taskplane.runtime.interceptors import Context
from taskplane.runtime.policy import Access
from taskplane.runtime.principal import caller, check_service
from taskplane.runtime.times import micros, set_time
from taskplane.sessions import operation_checks, wire
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.session import Scope, Session
from taskplane.sessions.store import EntryPage, SessionLog
from taskplane.sessions.watch import Deleted, Quiet, Seen, Watch

_HISTORY: Final = "/taskplane.api.sessions.v1.SessionHistory/"
# Bytes of a request from which on it is converted in a thread.
_LARGE: Final = 256 * 1024
_SESSIONS_PAGE: Final = 100
_ENTRIES_PAGE: Final = 1000
_UNSETTLED_PAGE: Final = 1000
_UNAPPLIED_PAGE: Final = 100
# Seconds after which a turn counts as abandoned: a turn without an outcome, and a turn with a task that no sweep has
# checked.
_UNDECIDED: Final = 60.0
_LEFT_ALONE: Final = 180.0
_EXPIRED_PAGE: Final = 100
_REMAINS_PAGE: Final = 100

# Services act for the owner that their principal names, like users. SERVICE is for RPCs that concern all owners.
POLICY: Final[dict[str, Access]] = {
    _HISTORY + "CreateSession": Access.USER,
    _HISTORY + "GetSession": Access.USER,
    _HISTORY + "ListSessions": Access.USER,
    _HISTORY + "UpdateSession": Access.USER,
    _HISTORY + "DeleteSession": Access.USER,
    _HISTORY + "AppendEntries": Access.USER,
    _HISTORY + "ListEntries": Access.USER,
    _HISTORY + "GetSessionTask": Access.USER,
    _HISTORY + "ListMessageIds": Access.USER,
    _HISTORY + "Rewind": Access.USER,
    _HISTORY + "Undo": Access.USER,
    _HISTORY + "Fork": Access.USER,
    _HISTORY + "ListCut": Access.USER,
    _HISTORY + "TouchSession": Access.USER,
    _HISTORY + "WatchEntries": Access.USER,
    _HISTORY + "GetState": Access.USER,
    _HISTORY + "StageImport": Access.USER,
    _HISTORY + "CommitImport": Access.USER,
    _HISTORY + "DropImport": Access.USER,
    _HISTORY + "DropAbandonedImports": Access.SERVICE,
    _HISTORY + "ListUnapplied": Access.SERVICE,
    _HISTORY + "MarkApplied": Access.SERVICE,
    _HISTORY + "ListUnsettled": Access.SERVICE,
    _HISTORY + "CountAbandoned": Access.OPERATOR,
    _HISTORY + "MarkSettled": Access.SERVICE,
    _HISTORY + "ListExpired": Access.SERVICE,
    _HISTORY + "ListRemains": Access.SERVICE,
    _HISTORY + "DropRemains": Access.SERVICE,
    _HISTORY + "DeleteUserState": Access.SERVICE,
}


class SessionHistory(pb_grpc.SessionHistoryServicer):
    """The service SessionHistory. Calls act for the caller and see only the caller's sessions, except for sweeps."""

    def __init__(self, log: SessionLog, watch: Watch) -> None:
        self._log = log
        self._watch = watch

    async def CreateSession(self, request: pb.CreateSessionRequest, context: Context) -> pb.CreateSessionResponse:
        created = await self._log.create(wire.create(request, _scope(), context_id=new_id()))
        return pb.CreateSessionResponse(session=wire.session(created.session), created=created.created)

    async def GetSession(self, request: pb.GetSessionRequest, context: Context) -> pb.GetSessionResponse:
        return pb.GetSessionResponse(session=wire.session(await self._log.session(_scope(), request.context_id)))

    async def ListSessions(self, request: pb.ListSessionsRequest, context: Context) -> pb.ListSessionsResponse:
        page = await self._log.list(_scope(), request.page_size or _SESSIONS_PAGE, request.page_token, request.title)
        return pb.ListSessionsResponse(
            sessions=[wire.session(session) for session in page.sessions], next_page_token=page.next_page_token
        )

    async def UpdateSession(self, request: pb.UpdateSessionRequest, context: Context) -> pb.UpdateSessionResponse:
        return pb.UpdateSessionResponse(session=wire.session(await self._log.update(wire.update(request, _scope()))))

    async def DeleteSession(self, request: pb.DeleteSessionRequest, context: Context) -> pb.DeleteSessionResponse:
        if request.HasField("tasks_until"):
            check_service("only an executor may delete tasks with their session", "tasks_until")
        await self._log.delete(
            commands.Delete(
                scope=_scope(),
                context_id=request.context_id,
                expected_version=request.expected_version,
                tasks_until=micros(request.tasks_until),
            )
        )
        return pb.DeleteSessionResponse()

    async def AppendEntries(self, request: pb.AppendEntriesRequest, context: Context) -> pb.AppendEntriesResponse:
        # The state that a large event changes is read value by value.
        in_thread = request.ByteSize() >= _LARGE
        command = (
            await asyncio.to_thread(wire.append, request, _scope()) if in_thread else wire.append(request, _scope())
        )
        return wire.appended(await self._log.append(command))

    async def ListEntries(self, request: pb.ListEntriesRequest, context: Context) -> pb.ListEntriesResponse:
        page = await self._log.entries(_scope(), request.context_id, wire.entry_filter(request, _ENTRIES_PAGE))
        return pb.ListEntriesResponse(
            entries=[wire.entry(stored) for stored in page.entries],
            next_page_token=page.next_page_token,
            session=wire.session(page.session),
            has_events=page.has_events,
            listing=page.listing,
            unchanged=page.unchanged,
        )

    async def GetSessionTask(self, request: pb.GetSessionTaskRequest, context: Context) -> pb.GetSessionTaskResponse:
        session, history = await self._log.conversation(_scope(), request.context_id)
        return pb.GetSessionTaskResponse(task=wire.session_task(session, history), session=wire.session(session))

    async def ListMessageIds(self, request: pb.ListMessageIdsRequest, context: Context) -> pb.ListMessageIdsResponse:
        found = await self._log.message_ids(
            _scope(), request.context_id, events=request.events, page_token=request.page_token
        )
        return wire.message_ids(found)

    async def Rewind(self, request: pb.RewindRequest, context: Context) -> pb.RewindResponse:
        done = await self._log.rewind(wire.rewind(request, _scope()))
        return pb.RewindResponse(seq=done.seq, session=wire.session(done.session), rewound=done.done)

    async def Undo(self, request: pb.UndoRequest, context: Context) -> pb.UndoResponse:
        done = await self._log.undo(wire.undo(request, _scope(), entry_id=new_id()))
        return pb.UndoResponse(seq=done.seq, session=wire.session(done.session), undone=done.done)

    async def Fork(self, request: pb.ForkRequest, context: Context) -> pb.ForkResponse:
        made = await self._log.fork(wire.fork(request, _scope(), context_id=new_id()))
        return pb.ForkResponse(session=wire.session(made.session), created=made.created)

    async def ListCut(self, request: pb.ListCutRequest, context: Context) -> pb.ListCutResponse:
        session, cut = await self._log.cut(_scope(), request.context_id)
        return pb.ListCutResponse(
            invocation_ids=cut.invocations,
            session=wire.session(session),
            voided_invocation_ids=cut.voided,
            undoable=cut.undoable,
            deleted_invocation_ids=cut.deleted,
            unfinished_task_ids=cut.unfinished,
        )

    async def WatchEntries(
        self, request: pb.WatchEntriesRequest, context: Context
    ) -> AsyncGenerator[pb.WatchEntriesResponse, None]:
        after = request.after_seq if request.HasField("after_seq") else None
        operation_checks.check_after(after)
        async with aclosing(self._watch.stream(_scope(), request.context_id, after)) as stream:
            async for seen in stream:
                yield _watched(seen)

    async def GetState(self, request: pb.GetStateRequest, context: Context) -> pb.GetStateResponse:
        session, state = await self._log.state(_scope(), request.context_id)
        return pb.GetStateResponse(state=state, session=wire.session(session))

    async def StageImport(self, request: pb.StageImportRequest, context: Context) -> pb.StageImportResponse:
        await self._log.stage_import(_scope(), request.context_id, request.import_id, request.number, request.data)
        return pb.StageImportResponse()

    async def CommitImport(self, request: pb.CommitImportRequest, context: Context) -> pb.CommitImportResponse:
        made = await self._log.commit_import(_scope(), request.context_id, request.import_id, request.pages)
        return pb.CommitImportResponse(session=wire.session(made))

    async def DropImport(self, request: pb.DropImportRequest, context: Context) -> pb.DropImportResponse:
        await self._log.drop_import(_scope(), request.context_id, request.import_id)
        return pb.DropImportResponse()

    async def DropAbandonedImports(
        self, request: pb.DropAbandonedImportsRequest, context: Context
    ) -> pb.DropAbandonedImportsResponse:
        return pb.DropAbandonedImportsResponse(pages=await self._log.drop_abandoned_imports())

    async def TouchSession(self, request: pb.TouchSessionRequest, context: Context) -> pb.TouchSessionResponse:
        await self._log.touch(commands.Touch(scope=_scope(), context_id=request.context_id, task_id=request.task_id))
        return pb.TouchSessionResponse()

    async def ListUnapplied(self, request: pb.ListUnappliedRequest, context: Context) -> pb.ListUnappliedResponse:
        after = wire.to_unapplied(request.after) if request.HasField("after") else None
        return wire.unapplied(await self._log.unapplied(request.limit or _UNAPPLIED_PAGE, after))

    async def MarkApplied(self, request: pb.MarkAppliedRequest, context: Context) -> pb.MarkAppliedResponse:
        await self._log.mark_applied(
            commands.MarkApplied(scope=_scope(), context_id=request.context_id, seq=request.seq)
        )
        return pb.MarkAppliedResponse()

    async def ListUnsettled(self, request: pb.ListUnsettledRequest, context: Context) -> pb.ListUnsettledResponse:
        return wire.unsettled(await self._log.unsettled(request.min_age, request.limit or _UNSETTLED_PAGE))

    async def CountAbandoned(self, request: pb.CountAbandonedRequest, context: Context) -> pb.CountAbandonedResponse:
        found = await self._log.abandoned(caller().tenant, _UNDECIDED, _LEFT_ALONE)
        response = pb.CountAbandonedResponse(count=found.turns, bounded=found.bounded)
        if found.oldest is not None:
            set_time(response.oldest, found.oldest)
        return response

    async def MarkSettled(self, request: pb.MarkSettledRequest, context: Context) -> pb.MarkSettledResponse:
        await self._log.mark_settled(micros(request.until))
        return pb.MarkSettledResponse()

    async def ListExpired(self, request: pb.ListExpiredRequest, context: Context) -> pb.ListExpiredResponse:
        after = wire.to_expired(request.after) if request.HasField("after") else None
        return wire.expired(await self._log.expired(request.min_age, after, request.limit or _EXPIRED_PAGE))

    async def ListRemains(self, request: pb.ListRemainsRequest, context: Context) -> pb.ListRemainsResponse:
        return wire.remains(await self._log.remains(request.limit or _REMAINS_PAGE))

    async def DropRemains(self, request: pb.DropRemainsRequest, context: Context) -> pb.DropRemainsResponse:
        await self._log.drop_remains(_scope(), request.context_id, micros(request.tasks_until))
        return pb.DropRemainsResponse()

    async def DeleteUserState(self, request: pb.DeleteUserStateRequest, context: Context) -> pb.DeleteUserStateResponse:
        return pb.DeleteUserStateResponse(deleted=await self._log.delete_user_state(_scope()))


def _watched(seen: Seen) -> pb.WatchEntriesResponse:
    match seen:
        case Session():
            return pb.WatchEntriesResponse(session=wire.session(seen))
        case Deleted():
            return pb.WatchEntriesResponse(deleted=pb.Deleted())
        case Quiet():
            return pb.WatchEntriesResponse(quiet=pb.Quiet())
        case EntryPage():
            return pb.WatchEntriesResponse(entries=wire.entries(seen))


def _scope() -> Scope:
    who = caller()
    return Scope(who.tenant, who.owner, who.actor)
