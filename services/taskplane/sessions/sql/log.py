"""The implementation of the port: a committer on top of `apply_batch`, and the reads."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self, cast

from google.protobuf.struct_pb2 import Struct

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.sessions import operation_checks
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.commands import Answer, Operation, Write
from taskplane.sessions.domain.errors import session_not_found
from taskplane.sessions.domain.history import CutTurns
from taskplane.sessions.domain.session import Scope, Session
from taskplane.sessions.sql import effective, forking, importing, reads, retention, settling, statements, states
from taskplane.sessions.sql.apply import apply_batch, key_of, size_of
from taskplane.sessions.sql.history_index import HistoryIndexCache
from taskplane.sessions.sql.loading import get_session
from taskplane.sessions.sql.meta import read_or_make_page_key
from taskplane.sessions.sql.statements import Key
from taskplane.sessions.store import (
    AbandonedTurns,
    EntryFilter,
    EntryPage,
    ExpiredSession,
    MessageIds,
    Remains,
    SessionPage,
    UnappliedSession,
    UnsettledPage,
)
from taskplane.sessions.tables import session_import
from taskplane.storage import staging
from taskplane.storage.committer import Committer
from taskplane.storage.engine import Engine
from taskplane.storage.staging import Stage, contested


class SqlSessionLog:
    """The session log in a database that `taskplane.storage` opened; see `store.SessionLog` for its promises.

    To be used with `async with`: on exit, waiting operations are still written.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        max_ops: int = 256,
        max_bytes: int = 8 * 1024 * 1024,
        queue_ops: int = 10_000,
        queue_bytes: int = 64 * 1024 * 1024,
        on_commit: Callable[[Sequence[Write]], None] | None = None,
    ) -> None:
        """Limit a transaction to `max_ops` operations or about `max_bytes`, and waiting operations to `queue_*`.

        `on_commit` is called for each commit of this process, before its callers are answered; it must not raise.
        """
        self._engine = engine
        self._page_key = b""
        self._history_indexes = HistoryIndexCache()
        self._committer: Committer[Operation, Answer] = Committer(
            engine,
            partial(apply_batch, dialect=engine.dialect),
            name="sessions",
            key=key_of,
            size=size_of,
            committed=(lambda batch: on_commit(batch.effects)) if on_commit is not None else None,
            max_ops=max_ops,
            max_bytes=max_bytes,
            queue_ops=queue_ops,
            queue_bytes=queue_bytes,
        )

    async def __aenter__(self) -> Self:
        self._page_key = await self._engine.write(read_or_make_page_key, self._engine.dialect)
        await self._committer.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._committer.__aexit__(kind, error, trace)

    async def create(self, op: commands.Create) -> commands.Created:
        """Implement `SessionLog.create`."""
        return cast("commands.Created", await self._submit(op))

    async def update(self, op: commands.Update) -> Session:
        """Implement `SessionLog.update`."""
        return cast("Session", await self._submit(op))

    async def delete(self, op: commands.Delete) -> Session:
        """Implement `SessionLog.delete`."""
        return cast("Session", await self._submit(op))

    async def append(self, op: commands.Append) -> commands.Appended:
        """Implement `SessionLog.append`."""
        operation_checks.check(op)
        answer = cast("commands.Appended", await self._committer.submit(op))
        if not answer.known:
            return answer
        # Entries never change, so they are read after the transaction as well as in it.
        seqs = [entry.seq for entry in answer.known]
        stored = await self._engine.read(reads.read_stored, op.scope, op.context_id, seqs)
        if len(stored) < len(seqs):
            raise session_not_found(op.context_id)
        return replace(answer, known=[stored[seq] for seq in seqs])

    async def session(self, scope: Scope, context_id: str) -> Session:
        """Implement `SessionLog.session`."""
        operation_checks.check_session(context_id)
        return await self._engine.read(get_session, scope, context_id)

    async def list(self, scope: Scope, page_size: int, page_token: str, title: str = "") -> SessionPage:
        """Implement `SessionLog.list`."""
        operation_checks.check_list(page_size, title)
        return await self._engine.read(reads.list_sessions, scope, page_size, page_token, title, self._page_key)

    async def entries(self, scope: Scope, context_id: str, query: EntryFilter) -> EntryPage:
        """Implement `SessionLog.entries`."""
        operation_checks.check_filter(context_id, query)
        if query.effective:
            return await self._engine.read(
                effective.list_effective, scope, context_id, query, self._page_key, self._history_indexes
            )
        return await self._engine.read(reads.list_entries, scope, context_id, query, self._page_key)

    async def conversation(self, scope: Scope, context_id: str) -> tuple[Session, Sequence[a2a.Message]]:
        """Implement `SessionLog.conversation`."""
        operation_checks.check_session(context_id)
        return await self._engine.read(effective.read_conversation, scope, context_id)

    async def message_ids(
        self, scope: Scope, context_id: str, *, events: bool = False, page_token: str = ""
    ) -> MessageIds:
        """Implement `SessionLog.message_ids`."""
        operation_checks.check_session(context_id)
        return await self._engine.read(
            effective.list_message_ids, scope, context_id, events, page_token, self._page_key, self._history_indexes
        )

    async def after(self, scope: Scope, context_id: str, seq: int, limit: int) -> EntryPage:
        """Implement `SessionLog.after`."""
        return await self._engine.read(reads.read_after, scope, context_id, seq, limit)

    async def heads(self, keys: Sequence[Key]) -> Mapping[Key, tuple[int, int]]:
        """Implement `SessionLog.heads`."""
        return await self._engine.read(statements.heads, keys)

    async def rewind(self, op: commands.Rewind) -> commands.Rewound:
        """Implement `SessionLog.rewind`."""
        return cast("commands.Rewound", await self._submit(op))

    async def undo(self, op: commands.Undo) -> commands.Rewound:
        """Implement `SessionLog.undo`."""
        return cast("commands.Rewound", await self._submit(op))

    async def fork(self, op: commands.Fork) -> commands.Created:
        """Implement `SessionLog.fork`."""
        operation_checks.check_fork(op)
        return await self._engine.write(forking.fork, op, self._engine.dialect)

    async def cut(self, scope: Scope, context_id: str) -> tuple[Session, CutTurns]:
        """Implement `SessionLog.cut`."""
        operation_checks.check_session(context_id)
        return await self._engine.read(reads.list_cut, scope, context_id)

    async def state(self, scope: Scope, context_id: str) -> tuple[Session, Struct]:
        """Implement `SessionLog.state`."""
        operation_checks.check_session(context_id)
        return await self._engine.read(states.read_state, scope, context_id)

    async def unapplied(self, limit: int, after: UnappliedSession | None = None) -> Sequence[UnappliedSession]:
        """Implement `SessionLog.unapplied`."""
        operation_checks.check_unapplied(limit, after)
        return await self._engine.read(reads.list_unapplied, limit, after)

    async def touch(self, op: commands.Touch) -> Session:
        """Implement `SessionLog.touch`."""
        return cast("Session", await self._submit(op))

    async def mark_applied(self, op: commands.MarkApplied) -> Session:
        """Implement `SessionLog.mark_applied`."""
        return cast("Session", await self._submit(op))

    async def unsettled(self, min_age: float, limit: int) -> UnsettledPage:
        """Implement `SessionLog.unsettled`."""
        operation_checks.check_unsettled(min_age, limit)
        before = time.time_ns() // 1000 - int(min_age * 1_000_000)
        return await self._engine.read(settling.list_unsettled, before, limit)

    async def abandoned(self, tenant: str, undecided_age: float, age: float) -> AbandonedTurns:
        """Implement `SessionLog.abandoned`."""
        now = time.time_ns() // 1000
        undecided_before, before = (now - int(seconds * 1_000_000) for seconds in (undecided_age, age))
        return await self._engine.read(settling.count_abandoned, tenant, undecided_before, before)

    async def mark_settled(self, until: int) -> None:
        """Implement `SessionLog.mark_settled`."""
        operation_checks.check_until("until", until)
        await self._engine.write(settling.mark_settled, until)

    async def stage_import(self, scope: Scope, context_id: str, import_id: str, number: int, data: bytes) -> None:
        """Implement `SessionLog.stage_import`."""
        operation_checks.check_stage(context_id, import_id, "number", number)
        of = Stage(scope.tenant, scope.owner, context_id, import_id)
        await self._engine.write(importing.stage, of, number, data, self._engine.dialect)

    async def commit_import(self, scope: Scope, context_id: str, import_id: str, pages: int) -> Session:
        """Implement `SessionLog.commit_import`."""
        operation_checks.check_stage(context_id, import_id, "pages", pages)
        of = Stage(scope.tenant, scope.owner, context_id, import_id)
        with contested(context_id):
            return await self._engine.write(importing.commit, of, pages, self._engine.dialect)

    async def drop_import(self, scope: Scope, context_id: str, import_id: str) -> None:
        """Implement `SessionLog.drop_import`."""
        operation_checks.check_drop(context_id, import_id)
        if not context_id:
            while some := await self._engine.read(staging.staged, session_import, scope.tenant, scope.owner):
                for each in some:
                    await self.drop_import(scope, each, "")
            return
        of = Stage(scope.tenant, scope.owner, context_id, import_id)
        await self._engine.write(importing.drop, of, self._engine.dialect)

    async def drop_abandoned_imports(self) -> int:
        """Implement `SessionLog.drop_abandoned_imports`."""
        return await staging.drop_abandoned(self._engine, session_import)

    async def expired(self, min_age: float, after: ExpiredSession | None, limit: int) -> Sequence[ExpiredSession]:
        """Implement `SessionLog.expired`."""
        operation_checks.check_expired(min_age, after, limit)
        before = time.time_ns() // 1000 - int(min_age * 1_000_000)
        return await self._engine.read(retention.list_expired, before, after, limit)

    async def remains(self, limit: int) -> Sequence[Remains]:
        """Implement `SessionLog.remains`."""
        operation_checks.check_limit(limit)
        return await self._engine.read(retention.list_remains, limit)

    async def drop_remains(self, scope: Scope, context_id: str, until: int) -> None:
        """Implement `SessionLog.drop_remains`."""
        operation_checks.check_session(context_id)
        operation_checks.check_until("tasks_until", until)
        await self._engine.write(retention.drop_remains, scope, context_id, until)

    async def delete_user_state(self, scope: Scope) -> int:
        """Implement `SessionLog.delete_user_state`."""
        return await self._engine.write(retention.delete_user_state, scope)

    async def _submit(self, op: Operation) -> Answer:
        operation_checks.check(op)
        return await self._committer.submit(op)
