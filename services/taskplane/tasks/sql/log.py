"""The implementation of the port: a committer on top of `apply_batch`, and the reads."""

import asyncio
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Final, Self

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.errors import NotFound, PlaneError
from taskplane.runtime.message_ids import Content
from taskplane.runtime.sharing import Owner
from taskplane.storage import staging
from taskplane.storage.committer import Batch, Committer
from taskplane.storage.engine import Engine
from taskplane.storage.staging import Stage, contested
from taskplane.tasks.committed import Changed, Committed
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.commands import Answer, Operation
from taskplane.tasks.domain.documents import Compared
from taskplane.tasks.domain.figures import Summary
from taskplane.tasks.domain.infos import Info
from taskplane.tasks.domain.overview import Overview
from taskplane.tasks.domain.task import PARALLEL, Event, Lease, Row, Scope, content_size
from taskplane.tasks.domain.turns import TurnsOfTask
from taskplane.tasks.pages import (
    PAGE_BYTES,
    PAGE_EVENTS,
    EventFilter,
    InfoFilter,
    InfoPage,
    MessageFilter,
    MessagePage,
    Page,
    TaskFilter,
    TaskPage,
    TenantFilter,
    TenantPage,
    TenantTask,
)
from taskplane.tasks.sql import (
    claiming,
    conversation,
    counting,
    importing,
    infos,
    leases,
    overview,
    reads,
    tenants,
    trimming,
    turns,
    watching,
)
from taskplane.tasks.sql.apply import BatchTools, apply_batch
from taskplane.tasks.sql.conversation import MessageIdCache
from taskplane.tasks.sql.gather import names_of
from taskplane.tasks.sql.leases import Renewing
from taskplane.tasks.sql.meta import Meta, read_or_make_meta
from taskplane.tasks.sql.texts import has_nul, nul_in_operation
from taskplane.tasks.sql.writing import Writing
from taskplane.tasks.store import ArtifactVersion, Claimable, FreeSlots, Held, OpenTasks, Renewed, Session, Unfinished
from taskplane.tasks.tables import task_import


class SqlTaskLog:
    """The task log in a database that `taskplane.storage` opened; see `store.TaskLog` for its promises.

    `on_commit` is called on the event loop after each commit that changed something, before its operations are
    answered; it must not raise. To be used with `async with`: on exit, waiting operations are still written.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        on_commit: Callable[[Committed], None] | None = None,
        max_ops: int = 256,
        max_bytes: int = 8 * 1024 * 1024,
        queue_ops: int = 10_000,
        queue_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        """Limit a transaction to `max_ops` operations or about `max_bytes`, and waiting operations to `queue_*`."""
        self._engine = engine
        self._on_commit = on_commit
        tools = BatchTools.of(engine.dialect)
        self._clock = tools.clock
        self._renewing = Renewing(engine.dialect)
        self._meta: Meta | None = None
        self._message_ids = MessageIdCache()
        self._committer: Committer[Operation, Answer] = Committer(
            engine,
            partial(apply_batch, tools=tools),
            name="tasks",
            key=key_of,
            size=size_of,
            shares=shares,
            committed=self._committed,
            max_ops=max_ops,
            max_bytes=max_bytes,
            queue_ops=queue_ops,
            queue_bytes=queue_bytes,
        )

    async def __aenter__(self) -> Self:
        self._meta = await self._engine.write(read_or_make_meta, self._engine.dialect)
        await self._committer.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._committer.__aexit__(kind, error, trace)

    async def submit(self, op: Operation) -> Answer:
        """Implement `TaskLog.submit`."""
        refusal = nul_in_operation(op)
        if refusal is not None:
            raise refusal
        return await self._committer.submit(op)

    async def submit_all(self, ops: Sequence[Operation]) -> list[Answer | PlaneError]:
        """Implement `TaskLog.submit_all`."""
        refusals = [nul_in_operation(op) for op in ops]
        if not any(refusals):
            return await self._committer.submit_all(ops)
        answers = iter(
            await self._committer.submit_all([op for op, refusal in zip(ops, refusals, strict=True) if refusal is None])
        )
        return [next(answers) if refusal is None else refusal for refusal in refusals]

    async def get(self, scope: Scope, task_id: str, *, whole: bool = False) -> tuple[Row, a2a.Task]:
        """Implement `TaskLog.get`."""
        row, content = await self._engine.read(reads.get_content, scope, task_id)
        folded = content.stored if whole else content.folded
        return row, await asyncio.to_thread(folded) if content_size(row) > _LARGE else folded()

    async def artifact_version(
        self, scope: Scope, task_id: str, artifact_id: str, version: int
    ) -> tuple[Row, ArtifactVersion | None]:
        """Implement `TaskLog.artifact_version`."""
        return await self._engine.read(reads.artifact_version, scope, task_id, artifact_id, version)

    async def row(self, scope: Scope, task_id: str) -> Row:
        """Implement `TaskLog.row`."""
        return await self._engine.read(reads.get_row, scope, task_id)

    async def row_by_uid(self, uid: str) -> Row:
        """Implement `TaskLog.row_by_uid`."""
        return await self._engine.read(watching.get_row_by_uid, _known_text(uid))

    async def list(self, scope: Scope, query: TaskFilter) -> TaskPage:
        """Implement `TaskLog.list`."""
        return await self._engine.read(reads.list_tasks, scope, query, self._opened().page_key)

    async def infos(self, scope: Scope, query: InfoFilter) -> InfoPage:
        """Implement `TaskLog.infos`."""
        return await self._engine.read(infos.list_infos, scope, query, self._opened().page_key)

    async def messages(self, scope: Scope, query: MessageFilter) -> MessagePage:
        """Implement `TaskLog.messages`."""
        return await self._engine.read(conversation.list_messages, scope, query, self._message_ids)

    async def compare(self, scope: Scope, context_id: str, messages: Sequence[a2a.Message]) -> Compared:
        """Implement `TaskLog.compare`."""
        return await self._engine.read(conversation.compare_documents, scope, context_id, messages)

    async def said_under_ids_of(self, scope: Scope, document: a2a.Task) -> Mapping[str, Content]:
        """Implement `TaskLog.said_under_ids_of`."""
        return await self._engine.read(conversation.said_under_ids_of, scope, document, self._message_ids)

    async def turns(self, scope: Scope, task_id: str) -> tuple[Row, TurnsOfTask]:
        """Implement `TaskLog.turns`."""
        return await self._engine.read(turns.list_turns, scope, task_id)

    async def session(self, scope: Scope, context_id: str) -> Sequence[Info]:
        """Implement `TaskLog.session`."""
        return await self._engine.read(infos.session_infos, scope, context_id)

    async def infos_of(self, uids: Sequence[str]) -> Sequence[Info]:
        """Implement `TaskLog.infos_of`."""
        return await self._engine.read(infos.infos_of, uids)

    async def fingerprints(self, sessions: Sequence[Session]) -> Mapping[Session, Sequence[int]]:
        """Implement `TaskLog.fingerprints`."""
        return await self._engine.read(infos.fingerprints, sessions)

    async def summaries(self, scope: Scope, context_ids: Sequence[str]) -> Sequence[Summary]:
        """Implement `TaskLog.summaries`."""
        return await self._engine.read(infos.summaries, scope, context_ids)

    async def events(self, scope: Scope, task_id: str, query: EventFilter) -> tuple[Row, Sequence[Event]]:
        """Implement `TaskLog.events`."""
        return await self._engine.read(reads.list_events, scope, task_id, query)

    async def read_after(
        self, uid: str, generation: int, limit: int = PAGE_EVENTS, max_bytes: int = PAGE_BYTES, *, gaps: bool = False
    ) -> Page:
        """Implement `TaskLog.read_after`."""
        return await self._engine.read(watching.read_after, _known_text(uid), generation, limit, max_bytes, gaps)

    async def heads(self, uids: Sequence[str]) -> Mapping[str, int]:
        """Implement `TaskLog.heads`."""
        return await self._engine.read(watching.heads, uids)

    async def uncopied(
        self, context: tuple[str, str, str] | None, limit: int, after: tuple[int, str] | None = None
    ) -> Sequence[Row]:
        """Implement `TaskLog.uncopied`."""
        if context is not None and has_nul(*context):
            return []
        return await self._engine.read(watching.uncopied, context, limit, after)

    async def claimable(
        self, agents: Sequence[str], limit: int, after: Owner = ("", ""), slots: FreeSlots | None = None
    ) -> Claimable:
        """Implement `TaskLog.claimable`."""
        wanted = [agent for agent in agents if not has_nul(agent)]
        return await self._engine.read(claiming.claimable, self._clock, wanted, limit, after, slots)

    async def in_turn(self) -> Sequence[str]:
        """Implement `TaskLog.in_turn`."""
        return await self._engine.read(watching.in_turn)

    async def overdue(self, limit: int) -> Sequence[str]:
        """Implement `TaskLog.overdue`."""
        return await self._engine.read(watching.overdue, self._clock, limit)

    async def open_tasks(self) -> OpenTasks:
        """Implement `TaskLog.open_tasks`."""
        return await self._engine.read(counting.open_tasks, self._clock)

    async def overview(self, tenant: str, ttl: float) -> Overview:
        """Implement `TaskLog.overview`."""
        return await self._engine.read(overview.overview, tenant, ttl, self._clock)

    async def tenant_tasks(self, scope: Scope, query: TenantFilter) -> TenantPage:
        """Implement `TaskLog.tenant_tasks`."""
        return await self._engine.read(tenants.list_tenant_tasks, scope, query, self._opened().page_key)

    async def tenant_task(self, tenant: str, task_id: str) -> TenantTask:
        """Implement `TaskLog.tenant_task`."""
        return await self._engine.read(tenants.get_tenant_task, tenant, task_id)

    async def trimmable(self, ended_before: int, after: tuple[int, str], limit: int) -> Sequence[Row]:
        """Implement `TaskLog.trimmable`."""
        return await self._engine.read(trimming.trimmable, ended_before, after, limit)

    async def untrimmed_documents(self, after: str, limit: int) -> Sequence[Row]:
        """Implement `TaskLog.untrimmed_documents`."""
        return await self._engine.read(trimming.untrimmed_documents, after, limit)

    async def removable(self, trims: Sequence[tuple[str, int, int]]) -> tuple[int, int]:
        """Implement `TaskLog.removable`."""
        return await self._engine.read(trimming.removable, trims)

    async def expired(self, limit: int) -> Sequence[Lease]:
        """Implement `TaskLog.expired`."""
        return await self._engine.read(leases.expired, self._clock, limit)

    async def held(self, process_id: str | None = None) -> Sequence[Lease]:
        """Implement `TaskLog.held`."""
        if process_id is not None and has_nul(process_id):
            return []
        return await self._engine.read(leases.held, process_id)

    async def renew(self, process_id: str, held: Sequence[Held], until: int) -> Sequence[Renewed]:
        """Implement `TaskLog.renew`."""
        if has_nul(process_id):
            return [Renewed(still_yours=False) for _ in held]
        sound = [each for each in held if not has_nul(each[0])]
        renewed = dict(
            zip(sound, await self._engine.write(self._renewing.renew, process_id, sound, until), strict=True)
        )
        return [renewed.get(each, Renewed(still_yours=False)) for each in held]

    async def announce(self, process_id: str, until: int, capacity: int, agents: Collection[str] | None = None) -> None:
        """Implement `TaskLog.announce`."""
        if not has_nul(process_id):
            await self._engine.write(self._renewing.announce, process_id, until, capacity, agents, self._clock)

    async def unserved(self, agents: Collection[str]) -> frozenset[str]:
        """Implement `TaskLog.unserved`."""
        return await self._engine.read(leases.unserved_of, agents, self._clock)

    async def loads(self, process_ids: Sequence[str]) -> Mapping[str, Mapping[Owner, int]]:
        """Implement `TaskLog.loads`."""
        return await self._engine.read(leases.loads, process_ids, self._clock)

    async def lease_left(self, uid: str, fence: int) -> float:
        """Implement `TaskLog.lease_left`."""
        return await self._engine.read(leases.lease_left, uid, fence, self._clock)

    async def restart_leases(self, until: int) -> None:
        """Implement `TaskLog.restart_leases`."""
        await self._engine.write(leases.restart, until)

    async def now(self) -> int:
        """Implement `TaskLog.now`."""
        carried = self._clock.carried()
        return await self._engine.read(self._clock.now) if carried is None else carried

    async def check_writable(self) -> None:
        """Implement `QueueLog.check_writable`."""
        await self._engine.probe()

    async def epoch(self) -> str:
        """Implement `TaskLog.epoch`."""
        return self._opened().epoch

    async def stage_import(self, scope: Scope, context_id: str, import_id: str, number: int, data: bytes) -> None:
        """Implement `TaskLog.stage_import`."""
        of = Stage(scope.tenant, scope.owner, context_id, import_id)
        await self._engine.write(importing.stage, of, number, data, self._engine.dialect)

    async def commit_import(self, scope: Scope, context_id: str, import_id: str, pages: int) -> int:
        """Implement `TaskLog.commit_import`."""
        dialect = self._engine.dialect
        of = Stage(scope.tenant, scope.owner, context_id, import_id)
        with contested(context_id):
            rows = await self._engine.write(importing.commit, of, pages, dialect, Writing(dialect))
        if self._on_commit is not None and rows:
            self._on_commit(Committed([Changed(row, imported=True) for row in rows]))
        return len(rows)

    async def finish_import(self, scope: Scope, context_id: str, import_id: str) -> None:
        """Implement `TaskLog.finish_import`."""
        of = Stage(scope.tenant, scope.owner, context_id, import_id)
        await self._engine.write(importing.finish, of, self._engine.dialect)

    async def drop_import(self, scope: Scope, context_id: str, import_id: str) -> None:
        """Implement `TaskLog.drop_import`."""
        if not context_id:
            while some := await self._engine.read(staging.staged, task_import, scope.tenant, scope.owner):
                for each in some:
                    await self.drop_import(scope, each, "")
            return
        of = Stage(scope.tenant, scope.owner, context_id, import_id)
        for uid in await self._engine.write(importing.dropped, of, self._engine.dialect):
            with suppress(NotFound):
                row = await self.row_by_uid(uid)
                if (row.tenant, row.owner, row.context_id) == of[:3]:
                    await self.submit(commands.Delete(scope=scope, task_id=row.id))
        await self.finish_import(scope, context_id, import_id)

    async def drop_abandoned_imports(self) -> int:
        """Implement `TaskLog.drop_abandoned_imports`."""
        return await staging.drop_abandoned(self._engine, task_import)

    async def unfinished_imports(self, min_age: float) -> Sequence[Unfinished]:
        """Implement `TaskLog.unfinished_imports`."""
        before = time.time_ns() // 1000 - int(min_age * 1_000_000)
        return await self._engine.read(importing.unfinished, before)

    def _opened(self) -> Meta:
        if self._meta is None:
            raise RuntimeError("the task log is not open")
        return self._meta

    def _committed(self, batch: Batch[Answer]) -> None:
        effects: Committed = batch.effects
        if self._on_commit is not None and (effects.changes or effects.deleted):
            self._on_commit(effects)


def key_of(op: Operation) -> Hashable:
    """Return the key of an operation: its task, or its session.

    A new task counts as one on its session, so that the tasks of a session are listed in the order in which they came.
    If two operations name one task differently, `apply_batch` leaves the second for the next batch.
    """
    if isinstance(op, commands.MarkSuperseded | commands.Create):
        return op.scope.tenant, op.scope.owner, op.context_id
    uid, name, _ = names_of(op)
    return name or uid


def shares(op: Operation) -> bool:
    """Return whether one transaction may carry out several such operations on a session."""
    return isinstance(op, commands.Create) and op.strategy <= PARALLEL


def size_of(op: Operation) -> int:
    """Return roughly how many bytes the operation writes."""
    size = _OVERHEAD
    if isinstance(op, commands.Append | commands.Create):
        for change in op.changes:
            if change is not None:
                size += len(change.serialized)
        if isinstance(op, commands.Create):
            size += 2 * (len(op.message.serialized) + len(op.metadata or b"")) + len(op.options or b"")
    elif isinstance(op, commands.AddMessage):
        size += len(op.message.serialized) + len(op.options or b"")
    elif isinstance(op, commands.Put):
        size += op.task.ByteSize()
    return size


def _known_text(uid: str) -> str:
    if has_nul(uid):
        raise NotFound("the task does not exist", reason="TASK_NOT_FOUND")
    return uid


_OVERHEAD: Final = 512
# Bytes of a task from which on it is folded beside the event loop.
_LARGE: Final = 256 * 1024
