"""One transaction of the task log: read the rows of a batch of operations, decide each operation, write the results.

The number of statements does not depend on the number of operations. The rules are in `domain.decide`.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Final, Self

from sqlalchemy import Connection

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.errors import Internal, PlaneError
from taskplane.storage.committer import LATER, Batch, Later
from taskplane.storage.dialects import Dialect
from taskplane.tasks.committed import Changed, Committed
from taskplane.tasks.domain.commands import Answer, Create, Found, Operation, QueueLimits, Trimmed, Write, Writes
from taskplane.tasks.domain.decide import decide
from taskplane.tasks.domain.fold import fold
from taskplane.tasks.domain.needs import (
    needs_artifacts,
    needs_document,
    needs_final_message,
    needs_lost_messages,
    needs_open_text,
    needs_order,
    needs_queue,
    needs_turn,
)
from taskplane.tasks.domain.snapshots import LARGE, Tail, is_left_in_log
from taskplane.tasks.domain.task import Event, Lease, Row, changed, content_size
from taskplane.tasks.sql import counting
from taskplane.tasks.sql import statements as sql
from taskplane.tasks.sql.clock import LeaseClock
from taskplane.tasks.sql.contents import (
    artifacts_among,
    contents,
    final_message,
    newest_turns,
    open_texts,
    said_under_fence,
    tails,
)
from taskplane.tasks.sql.gather import Gathered, Target, gather
from taskplane.tasks.sql.packing import pack
from taskplane.tasks.sql.texts import nul_in_write
from taskplane.tasks.sql.trimming import trim
from taskplane.tasks.sql.writing import Writing

# The maximum number of bytes of tasks that one transaction reads and folds. Further operations wait for the next
# transaction.
_CONTENT_BYTES: Final = 64 * 1024 * 1024
# Tenant and owner.
Principal = tuple[str, str]
_by_key: Final = attrgetter("row.tenant", "row.id")


@dataclass(slots=True)
class BatchTools:
    """The tools of `apply_batch`, made once for an engine."""

    locking: sql.Locking
    writing: Writing
    clock: LeaseClock

    @classmethod
    def of(cls, dialect: Dialect) -> Self:
        """Make the tools for an engine of this dialect."""
        return cls(sql.Locking(dialect), Writing(dialect), LeaseClock(dialect))


def apply_batch(conn: Connection, operations: Sequence[Operation], tools: BatchTools) -> Batch[Answer]:
    """Apply the operations in their order, each as if it were alone. `effects` is a `Committed`.

    A batch has at most one operation for each task and each turn. An operation is left for a later batch if there is
    another for its task or turn, if another transaction has locked its task, or if it would read more content than
    `_CONTENT_BYTES`.
    """
    gathered = gather(conn, operations, tools.locking)
    decided = _Decided(conn, operations, gathered, tools)
    for index, op in enumerate(operations):
        decided.take(index, op)
    effects = _write(conn, decided, tools) if decided.writes or decided.of_sessions else Committed()
    return Batch(decided.outcomes, effects)


class _Decided:
    """The outcomes so far, and the writes for them."""

    def __init__(
        self, conn: Connection, operations: Sequence[Operation], gathered: Gathered, tools: BatchTools
    ) -> None:
        self.outcomes: list[Answer | PlaneError | Later] = [LATER] * len(operations)
        self.writes: dict[int, Write] = {}
        # The writes of operations on sessions.
        self.of_sessions: dict[int, Sequence[Write]] = {}
        self.rows = gathered.rows
        self._targets = gathered.targets
        # The tasks that were read, folded, and the open texts of large tasks, which are not folded.
        self._stored: dict[str, a2a.Task] = {}
        self._texts: Mapping[str, a2a.Message] = {}
        self._now = tools.clock.now(conn)
        self._taken: set[object] = set()
        self._lost: dict[str, Sequence[str]] = {}
        self._artifacts: dict[str, set[str]] = {}
        self._final_message: Mapping[str, a2a.TaskStatusUpdateEvent] = {}
        self._turns: Mapping[str, str] = {}
        # Queued tasks that are not due yet.
        self._waiting: Set[str] = frozenset()
        # Numbers of queued tasks of the owners and tenants of new tasks.
        self._queued: dict[Principal, QueueLimits] = {}
        self._newly_queued: Counter[Principal] = Counter()
        self._content = 0
        # Tasks with an open text that the next batch reads.
        self._too_much: set[str] = set()
        self._read_log(conn, operations)

    def take(self, index: int, op: Operation) -> None:
        """Decide `op`, unless it has to wait for the next batch."""
        target = self._targets[index]
        if target.waits or target.uid in self._too_much or not self._taken.isdisjoint(target.names):
            return
        found = self._found(target)
        if isinstance(op, Create) and needs_queue(op):
            found.queued = self._queued_beside(op)
        # Each operation has its own microsecond, so that the tasks of a batch are listed in the order of the
        # operations.
        outcome = decide(found, op, self._now + index)
        if isinstance(outcome, Writes):
            self._take_all(index, outcome.writes)
            self._taken.update(target.names)
            outcome = outcome.answer
        elif isinstance(outcome, Write):
            if outcome.refold and outcome.row.uid not in self._stored and not self._has_room(outcome.row):
                return
            refusal = nul_in_write(outcome)
            if refusal is None:
                self.writes[index] = outcome
                if isinstance(op, Create) and outcome.row.ready_at is not None:
                    self._newly_queued[op.scope.tenant, op.scope.owner] += 1
                if outcome.others:
                    self._take_all(index, outcome.others)
                self._taken.update(target.names)
                outcome = outcome.answer
            else:
                outcome = refusal
        self.outcomes[index] = outcome

    def _take_all(self, index: int, writes: Sequence[Write]) -> None:
        for write in writes:
            # Readers of a task fold the events that its snapshot lacks.
            if write.refold and write.row.uid not in self._stored and not self._has_room(write.row):
                write.refold = False
        self.of_sessions[index] = writes

    def all_writes(self) -> Sequence[Write]:
        """Return all writes, each task once."""
        if not self.of_sessions:
            return list(self.writes.values())
        return [*self.writes.values(), *chain.from_iterable(self.of_sessions.values())]

    def take_back(self, index: int, outcome: PlaneError | Later) -> None:
        """Take back a decision that cannot be written: refuse the operation, or leave it for the next batch."""
        del self.writes[index]
        self.of_sessions.pop(index, None)
        self.outcomes[index] = outcome

    def refolded(self, conn: Connection) -> dict[str, a2a.Task]:
        """Return the tasks with a stored snapshot to rewrite, folded with their new events."""
        folding = {write.row.uid: write for write in self.all_writes() if write.refold}
        # Trimmed events are in the snapshot only.
        large = [uid for uid, write in folding.items() if content_size(write.row) > LARGE and write.trims is None]
        found: Mapping[str, Tail] = tails(conn, large) if large else {}
        for uid in large:
            write = folding[uid]
            if is_left_in_log(write.row, found.get(uid, Tail()).followed_by(write.events)):
                del folding[uid]
        unread = [uid for uid in folding if uid in self.rows and uid not in self._stored]
        stored = contents(conn, unread) if unread else {}
        tasks: dict[str, a2a.Task] = {}
        for uid, write in folding.items():
            if uid in self._stored:
                tasks[uid] = fold(self._stored[uid], write.events, write.said)
            elif uid in stored:
                tasks[uid] = stored[uid].folded(write.events, write.said)
        return tasks

    def _found(self, target: Target) -> Found:
        found = target.found()
        for other in found.others:
            if other.row is not None:
                other.open_text = self._open_text(other.row)
                other.document = self._stored.get(other.row.uid)
        uid = target.uid
        if uid is None or not (
            uid in self._stored
            or uid in self._texts
            or uid in self._lost
            or uid in self._final_message
            or uid in self._artifacts
            or uid in self._turns
            or uid in self._waiting
        ):
            return found
        if target.row is not None:
            found.open_text = self._open_text(target.row)
            found.document = self._stored.get(uid)
        found.lost_messages = self._lost.get(uid, ())
        found.final_message = self._final_message.get(uid)
        found.artifacts = self._artifacts.get(uid, set[str]())
        found.turn = self._turns.get(uid, "")
        found.waits = uid in self._waiting
        return found

    def _queued_beside(self, op: Create) -> QueueLimits:
        """Return the queued tasks of the owner and of the tenant of a new task, those of this batch included."""
        principal = op.scope.tenant, op.scope.owner
        found = self._queued[principal]
        of_tenant = sum(count for (tenant, _), count in self._newly_queued.items() if tenant == principal[0])
        return QueueLimits(found.of_owner + self._newly_queued[principal], found.of_tenant + of_tenant)

    def _open_text(self, row: Row) -> a2a.Message | None:
        if row.uid in self._texts or row.uid not in self._stored or row.partial_generation is None:
            return self._texts.get(row.uid)
        text = a2a.Message()
        text.CopyFrom(self._stored[row.uid].status.message)
        return text

    def _read_log(self, conn: Connection, operations: Sequence[Operation]) -> None:
        """Read the needs of operations from the log: texts, documents, messages, artifacts, turns, order."""
        texts: set[str] = set()
        large: dict[str, Row] = {}
        lost: set[str] = set()
        spoken: set[str] = set()
        turns: set[str] = set()
        in_turn: set[str] = set()
        artifacts: set[tuple[str, str]] = set()
        for op, target in zip(operations, self._targets, strict=True):
            if isinstance(op, Create) and needs_queue(op):
                of = op.scope.tenant, op.scope.owner
                if of not in self._queued:
                    self._queued[of] = counting.queued(conn, *of, op.queue_limits)
            for each in target.others:
                if each.row and needs_open_text(each.row, op) and content_size(each.row) > LARGE:
                    large[each.row.uid] = each.row
                elif each.row and (needs_open_text(each.row, op) or needs_document(each.row, op, cut=each.cut)):
                    texts.add(each.row.uid)
            row = target.row
            if row is None:
                continue
            if needs_open_text(row, op) and content_size(row) > LARGE:
                large[row.uid] = row
            elif (needs_open_text(row, op) or needs_document(row, op)) and row.uid not in texts:
                (texts if self._has_room(row) else self._too_much).add(row.uid)
            if needs_lost_messages(row, op):
                lost.add(row.uid)
            if needs_final_message(row, op):
                spoken.add(row.uid)
            if needs_turn(row, op):
                turns.add(row.uid)
            if needs_order(row, op):
                in_turn.add(row.uid)
            artifacts.update([(row.uid, artifact_id) for artifact_id in needs_artifacts(row, op)])
        if texts:
            self._stored = {uid: content.stored() for uid, content in contents(conn, texts).items()}
        if large:
            self._texts = open_texts(conn, large)
        if lost:
            self._lost.update(said_under_fence(conn, lost))
        if spoken:
            self._final_message = final_message(conn, spoken)
        if turns:
            self._turns = newest_turns(conn, turns)
        if in_turn:
            self._waiting = set(conn.execute(sql.WAITING, {"uids": in_turn}).scalars())
        if artifacts:
            for uid, artifact_id in artifacts_among(conn, artifacts):
                self._artifacts.setdefault(uid, set()).add(artifact_id)

    def _has_room(self, row: Row) -> bool:
        """Return whether this batch may read the content of one more task. The first task is always allowed."""
        size = content_size(row)
        if self._content and self._content + size > _CONTENT_BYTES:
            return False
        self._content += size
        return True


def _write(conn: Connection, decided: _Decided, tools: BatchTools) -> Committed:
    writing = tools.writing
    _insert_new(conn, decided, writing)
    tasks = decided.refolded(conn)
    changes: list[Changed] = []
    deleted: list[Changed] = []
    updates: list[tuple[Row, Collection[str], bytes | None]] = []
    events: list[Event] = []
    taken: list[Lease] = []
    lost: list[Row] = []
    for write in decided.all_writes():
        row, snapshot = write.row, write.document
        before = decided.rows.get(row.uid)
        holder = before.lease_owner if before is not None else None
        moved_from = before.context_id if before is not None and before.context_id != row.context_id else ""
        if holder is not None and row.lease_owner is None:
            lost.append(row)
        elif holder is None and row.lease_owner is not None:
            taken.append(Lease(row.uid, row.lease_owner, row.fence, write.lease_until or 0))
        task = tasks.get(row.uid)
        if task is not None and not write.delete:
            snapshot = task.SerializeToString()
            row = changed(
                row, snapshot_generation=row.generation, snapshot_bytes=len(snapshot), folded_bytes=row.event_bytes
            )
        (deleted if write.delete else changes).append(
            Changed(row, write.events, task, snapshot, write.said, holder, moved_from=moved_from)
        )
        events.extend(write.events)
        if write.fields and before is not None:
            updates.append((row, write.fields, None if snapshot is None else pack(snapshot)))
    gone = [change.row for change in deleted]
    writing.update_tasks(conn, updates)
    writing.insert_events(conn, events)
    writing.insert_leases(conn, taken)
    writing.delete_leases(conn, lost)
    writing.delete_tasks(conn, gone)
    for write in decided.writes.values():
        if write.trims is not None and isinstance(write.answer, Trimmed):
            write.answer.events, write.answer.bytes = trim(conn, write.row.uid, *write.trims)
    return Committed(changes, deleted)


def _insert_new(conn: Connection, decided: _Decided, writing: Writing) -> None:
    """Insert the new tasks in the order of their keys, so that two processes cannot deadlock.

    If another process has inserted the same id, the operation is decided again in the next batch, with that task.
    """
    known = decided.rows
    new = {index: write for index, write in decided.writes.items() if write.row.uid not in known}
    if not new:
        return
    in_order = sorted(new.values(), key=_by_key)
    inserted = writing.insert_tasks(conn, [(write.row, pack(write.document or b"")) for write in in_order])
    if inserted == len(in_order):
        return
    identities = conn.execute(sql.IDENTITIES, {"uids": [write.row.uid for write in in_order]})
    found = {uid: (tenant, key) for uid, tenant, key in identities}
    for index, write in new.items():
        row = write.row
        if row.uid in found and found[row.uid] != (row.tenant, row.id):
            decided.take_back(index, Internal(f"the uid {row.uid} belongs to another task"))
        elif row.uid not in found or len(in_order) == 1:
            decided.take_back(index, LATER)
