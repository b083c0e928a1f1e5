"""The two services of the task store: they validate, convert and call the log. They contain no rule about tasks."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final, TypeVar

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2_grpc as pb_grpc
from taskplane.runtime import tracing
from taskplane.runtime.failpoints import afp
from taskplane.runtime.ids import new_id
from taskplane.runtime.interceptors import Context
from taskplane.runtime.policy import Access
from taskplane.runtime.principal import caller, check_service
from taskplane.runtime.sharing import Slots
from taskplane.tasks import operations, request_checks, session_wire, wire
from taskplane.tasks.artifacts import ArtifactReader
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.changes import read_message
from taskplane.tasks.domain.commands import NO_LIMITS, Answer, QueueLimits
from taskplane.tasks.domain.figures import figures
from taskplane.tasks.domain.task import Row, Scope
from taskplane.tasks.exporting import exported
from taskplane.tasks.queue import Claims, Leases
from taskplane.tasks.queue.leases import settled
from taskplane.tasks.serving import is_unserved
from taskplane.tasks.store import TaskLog
from taskplane.tasks.trimming import Trimmer
from taskplane.tasks.uncopied import Uncopied
from taskplane.tasks.watch import EventCache, SessionStreams, Watch
from taskplane.tasks.wire import Wire

T = TypeVar("T")
_STORE: Final = "/taskplane.api.tasks.v1.TaskStore/"
_QUEUE: Final = "/taskplane.api.tasks.v1.TaskQueue/"
# The approximate seconds of work of one CollectGarbage call, less than the deadline of a call.
_COLLECTING: Final = 3.0

POLICY: Final[dict[str, Access]] = {
    _STORE + "CreateTask": Access.USER,
    _STORE + "AppendEvents": Access.SERVICE,
    _STORE + "AddMessage": Access.USER,
    _STORE + "WatchTask": Access.USER,
    _STORE + "GetTask": Access.USER,
    _STORE + "ListTasks": Access.USER,
    _STORE + "ListEvents": Access.USER,
    _STORE + "CancelTask": Access.USER,
    _STORE + "PutTask": Access.USER,
    _STORE + "DeleteTask": Access.SERVICE,
    _STORE + "ListTurns": Access.USER,
    _STORE + "ListUncopied": Access.USER,
    _STORE + "MarkCopied": Access.SERVICE,
    _STORE + "MarkSuperseded": Access.SERVICE,
    _STORE + "ListTaskInfos": Access.USER,
    _STORE + "ListMessages": Access.USER,
    _STORE + "CompareDocuments": Access.USER,
    _STORE + "WatchSession": Access.USER,
    _STORE + "SummarizeSessions": Access.USER,
    _STORE + "GetSessionFigures": Access.USER,
    _STORE + "ExportTask": Access.USER,
    _STORE + "ReadArtifact": Access.USER,
    _STORE + "StageImport": Access.USER,
    _STORE + "CommitImport": Access.USER,
    _STORE + "FinishImport": Access.USER,
    _STORE + "DropImport": Access.USER,
    _STORE + "DropAbandonedImports": Access.SERVICE,
    _STORE + "ListUnfinishedImports": Access.SERVICE,
    _STORE + "CollectGarbage": Access.SERVICE,
    _QUEUE + "Claim": Access.SERVICE,
    _QUEUE + "Renew": Access.SERVICE,
    _QUEUE + "Release": Access.SERVICE,
    **operations.POLICY,
}


class TaskStore(pb_grpc.TaskStoreServicer):
    """The service TaskStore. Calls act for the caller and see the caller's tasks; appends and copies name any uid."""

    def __init__(
        self,
        log: TaskLog,
        records: Wire,
        *,
        cache: EventCache,
        watch: Watch,
        following: SessionStreams,
        leases: Leases,
        uncopied: Uncopied,
        trimmer: Trimmer,
        artifacts: ArtifactReader,
        queue_limits: QueueLimits = NO_LIMITS,
        queue_limit: float = 0.0,
        pause_limit: float = 0.0,
    ) -> None:
        self._log = log
        self._wire = records
        self._cache = cache
        self._watch = watch
        self._following = following
        self._leases = leases
        self._uncopied = uncopied
        self._trimmer = trimmer
        self._artifacts = artifacts
        self._queue_limits = queue_limits
        self._queue_limit = queue_limit
        self._pause_limit = pause_limit

    async def CreateTask(self, request: pb.CreateTaskRequest, context: Context) -> pb.CreateTaskResponse:
        message = read_message(request.message)
        changes = wire.read_changes(request.first_changes, "first_changes")
        request_checks.create(request, message, changes)
        if request.claim_for:
            check_service("only an executor may take the lease of a task", "claim_for")
        scope = _scope()
        operation = wire.create(
            request,
            scope,
            message,
            changes,
            uid=new_id(),
            salt=new_id(),
            task_id=request.task_id or new_id(),
            lease_until=await self._leases.until() if request.claim_for else 0,
            queue_limits=self._queue_limits,
            queue_limit=self._queue_limit,
            pause_limit=self._pause_limit,
        )
        created = _expect(commands.Created, await self._log.submit(operation))
        row = created.row
        response = pb.CreateTaskResponse(created=created.created, fence=created.fence)
        if created.fence:
            response.lease_ttl = await self._leases.left(row.uid, created)
        if created.created:
            self._wire.fill_created(response.record, row, created.first)
        else:
            self._wire.fill(response.record, row)
        for other in await self._uncopied.of((row.tenant, row.owner, row.context_id)):
            if other.uid != row.uid:
                response.uncopied.append(wire.uncopied(other))
        return response

    async def AppendEvents(self, request: pb.AppendEventsRequest, context: Context) -> pb.AppendEventsResponse:
        items = wire.append(request, caller().actor)
        request_checks.append(items)
        request_checks.usage(request)
        for each in request.items:
            tracing.link(each.traceparent)
        response = pb.AppendEventsResponse()
        for item, answer in zip(items, settled(await self._log.submit_all(items)), strict=True):
            wire.append_result(response.results.add(), item, answer)
        return response

    async def AddMessage(self, request: pb.AddMessageRequest, context: Context) -> pb.AddMessageResponse:
        message = read_message(request.message)
        request_checks.add_message(request, message)
        added = _expect(commands.Added, await self._log.submit(wire.add_message(request, _scope(), message)))
        response = pb.AddMessageResponse(generation=added.generation, added=added.added)
        self._wire.fill(response.record, added.row)
        return response

    def WatchTask(self, request: pb.WatchTaskRequest, context: Context) -> AsyncIterator[pb.WatchTaskResponse]:
        stop_at = frozenset(request.stop_at[:])
        request_checks.check(request)
        return self._watch.stream(
            _scope(), request.task_id, cursor=request.cursor, stop_at=stop_at, end_only=request.end_only
        )

    async def GetTask(self, request: pb.GetTaskRequest, context: Context) -> pb.GetTaskResponse:
        request_checks.check(request)
        row, task = await self._log.get(_scope(), request.task_id)
        response = pb.GetTaskResponse()
        self._wire.fill(response.record, row, task)
        response.record.unserved = await is_unserved(self._log, row)
        wire.trim(response.record.task, _history_length(request))
        return response

    async def ListTasks(self, request: pb.ListTasksRequest, context: Context) -> pb.ListTasksResponse:
        request_checks.list_tasks(request)
        query = wire.task_filter(request)
        page = await self._log.list(_scope(), query)
        response = pb.ListTasksResponse(
            next_page_token=page.next_page_token, total_size=page.total, page_size=query.page_size
        )
        for row, task in zip(page.rows, page.tasks, strict=True):
            record = response.records.add()
            self._wire.fill(record, row, task)
            wire.trim(record.task, _history_length(request), artifacts=request.include_artifacts)
        return response

    async def ListEvents(self, request: pb.ListEventsRequest, context: Context) -> pb.ListEventsResponse:
        request_checks.check(request)
        row, events = await self._log.events(_scope(), request.task_id, wire.event_filter(request))
        service = caller().service
        response = pb.ListEventsResponse(events=[wire.event(event, service=service) for event in events])
        self._wire.fill(response.record, row)
        return response

    async def CancelTask(self, request: pb.CancelTaskRequest, context: Context) -> pb.CancelTaskResponse:
        request_checks.cancel(request)
        scope = _scope()
        done = _expect(commands.Done, await self._log.submit(wire.cancel(request, scope)))
        await afp("cancel.after_commit")
        response = pb.CancelTaskResponse()
        await self._fill_current(response.record, scope, done.row)
        return response

    async def PutTask(self, request: pb.PutTaskRequest, context: Context) -> pb.PutTaskResponse:
        request_checks.put(request)
        scope = _scope()
        operation = wire.put(request, scope, uid=new_id(), salt=new_id(), task_id=new_id())
        operation.known = await self._log.said_under_ids_of(scope, operation.task)
        answer = await self._log.submit(operation)
        if request.validate_only:
            checked = _expect(commands.Checked, answer)
            response = pb.PutTaskResponse(
                created=checked.created,
                invocation_ids=checked.turns,
                message_invocation_ids=checked.message_turns,
            )
            self._wire.fill(response.record, checked.row, checked.document)
            return response
        done = _expect(commands.Done, answer)
        response = pb.PutTaskResponse(created=done.created, invocation_ids=done.turns)
        await self._fill_current(response.record, scope, done.row)
        return response

    async def _fill_current(self, record: pb.TaskRecord, scope: Scope, row: Row) -> None:
        """Fill a record with a row and its content, which the commit has left in memory as a rule."""
        task = self._cache.task_at(row.uid, row.generation)
        if task is None:
            row, task = await self._log.get(scope, row.id)
        self._wire.fill(record, row, task)

    async def DeleteTask(self, request: pb.DeleteTaskRequest, context: Context) -> pb.DeleteTaskResponse:
        request_checks.check(request)
        await self._log.submit(
            commands.Delete(scope=_scope(), task_id=request.task_id, expected_generation=request.expected_generation)
        )
        return pb.DeleteTaskResponse()

    async def ListTurns(self, request: pb.ListTurnsRequest, context: Context) -> pb.ListTurnsResponse:
        request_checks.check(request)
        row, found = await self._log.turns(_scope(), request.task_id)
        response = pb.ListTurnsResponse(
            invocation_ids=found.turns,
            message_ids=found.message_ids,
            contents=found.contents,
            openings=found.openings,
        )
        self._wire.fill(response.record, row)
        return response

    async def ListUncopied(self, request: pb.ListUncopiedRequest, context: Context) -> pb.ListUncopiedResponse:
        request_checks.list_uncopied(request)
        if not request.context_id:
            check_service("only an executor may list the uncopied tasks of every session", "context_id")
        who = caller()
        of = (who.tenant, who.owner, request.context_id) if request.context_id else None
        after = (request.after.status_at.ToMicroseconds(), request.after.uid) if request.HasField("after") else None
        rows = await self._log.uncopied(of, request.limit or 100, after)
        return pb.ListUncopiedResponse(tasks=[wire.uncopied(row) for row in rows])

    async def MarkCopied(self, request: pb.MarkCopiedRequest, context: Context) -> pb.MarkCopiedResponse:
        request_checks.check(request)
        await self._log.submit(commands.MarkCopied(task_uid=request.task_uid, generation=request.generation))
        return pb.MarkCopiedResponse()

    async def MarkSuperseded(self, request: pb.MarkSupersededRequest, context: Context) -> pb.MarkSupersededResponse:
        request_checks.check(request)
        marked = _expect(commands.Marked, await self._log.submit(wire.mark_superseded(request, _scope())))
        response = pb.MarkSupersededResponse()
        for row in marked.rows:
            self._wire.fill(response.records.add(), row)
        return response

    async def ListTaskInfos(self, request: pb.ListTaskInfosRequest, context: Context) -> pb.ListTaskInfosResponse:
        request_checks.check(request)
        page = await self._log.infos(_scope(), session_wire.info_filter(request))
        response = pb.ListTaskInfosResponse(next_page_token=page.next_page_token)
        for info in page.infos:
            session_wire.fill_info(response.infos.add(), info)
        return response

    async def ListMessages(self, request: pb.ListMessagesRequest, context: Context) -> pb.ListMessagesResponse:
        request_checks.list_messages(request)
        page = await self._log.messages(_scope(), session_wire.message_filter(request))
        return pb.ListMessagesResponse(**page._asdict())

    async def CompareDocuments(
        self, request: pb.CompareDocumentsRequest, context: Context
    ) -> pb.CompareDocumentsResponse:
        request_checks.check(request)
        found = await self._log.compare(_scope(), request.context_id, request.messages)
        return pb.CompareDocumentsResponse(
            messages=[pb.DocumentMessage(invocation_id=turn, time=time) for turn, time in found.messages],
            reduced_invocation_ids=found.reduced,
        )

    def WatchSession(self, request: pb.WatchSessionRequest, context: Context) -> AsyncIterator[pb.WatchSessionResponse]:
        request_checks.check(request)
        return self._following.stream(_scope(), request.context_id)

    async def SummarizeSessions(
        self, request: pb.SummarizeSessionsRequest, context: Context
    ) -> pb.SummarizeSessionsResponse:
        request_checks.check(request)
        found = await self._log.summaries(_scope(), request.context_ids)
        return pb.SummarizeSessionsResponse(sessions=[session_wire.summary(each) for each in found])

    async def GetSessionFigures(
        self, request: pb.GetSessionFiguresRequest, context: Context
    ) -> pb.GetSessionFiguresResponse:
        request_checks.check(request)
        infos = await self._log.session(_scope(), request.context_id)
        return session_wire.figures(figures(infos, await self._log.now()))

    def ExportTask(self, request: pb.ExportTaskRequest, context: Context) -> AsyncIterator[pb.ExportTaskResponse]:
        request_checks.check(request)
        return exported(self._log, _scope(), request.task_id, request.generation)

    def ReadArtifact(self, request: pb.ReadArtifactRequest, context: Context) -> AsyncIterator[pb.ReadArtifactResponse]:
        request_checks.check(request)
        return self._artifacts.stream(_scope(), request.task_id, request.artifact_id, request.offset, request.version)

    async def StageImport(self, request: pb.StageImportRequest, context: Context) -> pb.StageImportResponse:
        request_checks.stage_import(request)
        await self._log.stage_import(_scope(), request.context_id, request.import_id, request.number, request.data)
        return pb.StageImportResponse()

    async def CommitImport(self, request: pb.CommitImportRequest, context: Context) -> pb.CommitImportResponse:
        request_checks.check(request)
        made = await self._log.commit_import(_scope(), request.context_id, request.import_id, request.pages)
        return pb.CommitImportResponse(tasks=made)

    async def FinishImport(self, request: pb.FinishImportRequest, context: Context) -> pb.FinishImportResponse:
        request_checks.check(request)
        await self._log.finish_import(_scope(), request.context_id, request.import_id)
        return pb.FinishImportResponse()

    async def DropImport(self, request: pb.DropImportRequest, context: Context) -> pb.DropImportResponse:
        request_checks.drop_import(request)
        await self._log.drop_import(_scope(), request.context_id, request.import_id)
        return pb.DropImportResponse()

    async def DropAbandonedImports(
        self, request: pb.DropAbandonedImportsRequest, context: Context
    ) -> pb.DropAbandonedImportsResponse:
        return pb.DropAbandonedImportsResponse(pages=await self._log.drop_abandoned_imports())

    async def ListUnfinishedImports(
        self, request: pb.ListUnfinishedImportsRequest, context: Context
    ) -> pb.ListUnfinishedImportsResponse:
        request_checks.unfinished_imports(request)
        found = await self._log.unfinished_imports(request.min_age)
        return pb.ListUnfinishedImportsResponse(imports=[pb.UnfinishedImport(**each._asdict()) for each in found])

    async def CollectGarbage(self, request: pb.CollectGarbageRequest, context: Context) -> pb.CollectGarbageResponse:
        found = await (self._trimmer.survey() if request.dry_run else self._trimmer.trim(_COLLECTING))
        return pb.CollectGarbageResponse(tasks=found.tasks, events=found.events, bytes=found.bytes, more=found.more)


class TaskQueue(pb_grpc.TaskQueueServicer):
    """The service TaskQueue: assignments and leases of executors."""

    def __init__(self, claims: Claims, leases: Leases) -> None:
        self._claims = claims
        self._leases = leases

    async def Claim(self, request: pb.ClaimRequest, context: Context) -> AsyncIterator[pb.ClaimResponse]:
        request_checks.check(request)
        slots = Slots(request.capacity, wire.shared_by(request))
        stream = self._claims.stream(request.process_id, request.agents, slots)
        async with aclosing(stream):
            async for response in stream:
                yield response

    async def Renew(self, request: pb.RenewRequest, context: Context) -> pb.RenewResponse:
        request_checks.check(request)
        held = [(lease.task_uid, lease.fence) for lease in request.leases]
        renewed = await self._leases.renew(request.process_id, held)
        self._claims.renewed(request.process_id)
        await afp("renew.before_reply")
        return pb.RenewResponse(
            leases=wire.lease_states(request.leases, renewed), drain=self._claims.draining, lease_ttl=self._leases.ttl
        )

    async def Release(self, request: pb.ReleaseRequest, context: Context) -> pb.ReleaseResponse:
        request_checks.check(request)
        held = [(lease.task_uid, lease.fence) for lease in request.leases]
        await self._leases.release(request.process_id, held, lost=request.lost)
        return pb.ReleaseResponse()


def _scope() -> Scope:
    who = caller()
    return Scope(who.tenant, who.owner, who.actor, tracing.packed() if tracing.LIVE.on else None)


def _history_length(request: pb.GetTaskRequest | pb.ListTasksRequest) -> int | None:
    return request.history_length if request.HasField("history_length") else None


def _expect(kind: type[T], answer: Answer) -> T:
    if not isinstance(answer, kind):
        raise TypeError(f"the log answered {type(answer).__name__}, not {kind.__name__}")
    return answer
