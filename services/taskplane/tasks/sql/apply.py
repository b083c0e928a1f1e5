"""One transaction of the task log: read what the operations concern, decide each, write what was decided.

The number of statements does not depend on the number of operations. The rules are not here but in `domain.decide`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final, Self

from sqlalchemy import Connection

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.errors import Internal, PlaneError
from taskplane.storage.committer import LATER, Batch, Later
from taskplane.storage.dialects import Dialect
from taskplane.tasks.domain.decide import decide
from taskplane.tasks.domain.fold import fold
from taskplane.tasks.domain.needs import needs_artifacts, needs_lost_messages, needs_open_text
from taskplane.tasks.domain.operations import Answer, Found, Operation, Write
from taskplane.tasks.domain.task import Event, Row, changed
from taskplane.tasks.sql import statements as sql
from taskplane.tasks.sql.clock import LeaseClock
from taskplane.tasks.sql.contents import artifacts_among, contents, said_under_fence
from taskplane.tasks.sql.gather import Gathered, gather, public_id, turn_of
from taskplane.tasks.sql.packing import pack
from taskplane.tasks.sql.texts import nul_in_write
from taskplane.tasks.sql.writing import Writing
from taskplane.tasks.store import Committed

# Tasks whose content one transaction reads and folds; what would be more than this waits for the next one.
_CONTENT_BYTES: Final = 64 * 1024 * 1024
_by_key: Final = attrgetter("row.tenant", "row.id")


@dataclass(frozen=True, slots=True)
class Parts:
    """What `apply_batch` works with, made once for an engine."""

    locking: sql.Locking
    writing: Writing
    clock: LeaseClock

    @classmethod
    def of(cls, dialect: Dialect) -> Self:
        """For an engine that speaks `dialect`."""
        return cls(sql.Locking(dialect), Writing(dialect), LeaseClock(dialect))


def apply_batch(conn: Connection, operations: Sequence[Operation], parts: Parts) -> Batch[Answer]:
    """Carries out the operations in their order, each as if it were alone. `effects` is a `Committed`.

    At most one operation of a batch changes a task or begins a turn; another one is left for the next batch, and so is
    one whose task another process holds just now (if nothing else is there to do, those are waited for), and what would
    read more content than fits into memory comfortably.
    """
    gathered = gather(conn, operations, parts.locking)
    decided = _Decided(conn, operations, gathered, parts.clock.now(conn))
    for index, op in enumerate(operations):
        decided.take(index, op)
    effects = _write(conn, decided, parts.writing) if decided.writes else Committed()
    return Batch(decided.outcomes, effects)


class _Decided:
    """The outcomes so far, and what is to be written for them."""

    def __init__(self, conn: Connection, operations: Sequence[Operation], gathered: Gathered, now: int) -> None:
        self.outcomes: list[Answer | PlaneError | Later] = [LATER] * len(operations)
        self.writes: dict[int, Write] = {}
        self.gathered = gathered
        # Tasks as stored, folded, where that was read already.
        self.stored: dict[str, a2a.Task] = {}
        self._now = now
        self._taken: set[object] = set()
        self._lost: dict[str, Sequence[str]] = {}
        self._artifacts: dict[str, set[str]] = {}
        self._content = 0
        # Tasks whose open text is for the next batch to read.
        self._too_much: set[str] = set()
        self._read_log(conn, operations)

    def take(self, index: int, op: Operation) -> None:
        """Decides `op`, unless it has to wait for the next batch."""
        gathered = self.gathered
        name, turn = public_id(op), turn_of(op)
        uid = gathered.target(op)
        keys = {key for key in (uid, name, turn) if key is not None}
        if gathered.waits(op) or uid in self._too_much or not keys.isdisjoint(self._taken):
            return
        outcome = decide(self._found(op, uid), op, self._now)
        if isinstance(outcome, Write):
            if outcome.refold and outcome.row.uid not in self.stored and not self._has_room(outcome.row):
                return
            refusal = nul_in_write(outcome)
            if refusal is None:
                self.writes[index] = outcome
                self._taken |= keys
                outcome = outcome.answer
            else:
                outcome = refusal
        self.outcomes[index] = outcome

    def later(self, index: int) -> None:
        """Takes back what was decided: it is for the next batch."""
        del self.writes[index]
        self.outcomes[index] = LATER

    def refuse(self, index: int, refusal: PlaneError) -> None:
        """Takes back what was decided: it cannot be written."""
        del self.writes[index]
        self.outcomes[index] = refusal

    def _found(self, op: Operation, uid: str | None) -> Found:
        found = self.gathered.found(op)
        if uid is None or not (uid in self.stored or uid in self._lost or uid in self._artifacts):
            return found
        text: a2a.Message | None = None
        if uid in self.stored and found.row is not None and found.row.partial_generation is not None:
            text = a2a.Message()
            text.CopyFrom(self.stored[uid].status.message)
        return replace(
            found,
            open_text=text,
            lost_messages=self._lost.get(uid, ()),
            artifacts=self._artifacts.get(uid, set[str]()),
        )

    def _read_log(self, conn: Connection, operations: Sequence[Operation]) -> None:
        """What operations need of the log: open texts, what lost attempts said, and which artifacts there are."""
        texts: set[str] = set()
        lost: set[str] = set()
        artifacts: set[tuple[str, str]] = set()
        for op in operations:
            row = self.gathered.rows.get(self.gathered.target(op) or "")
            if row is None:
                continue
            if needs_open_text(row, op) and row.uid not in texts:
                (texts if self._has_room(row) else self._too_much).add(row.uid)
            if needs_lost_messages(row, op):
                lost.add(row.uid)
            artifacts.update((row.uid, artifact_id) for artifact_id in needs_artifacts(row, op))
        if texts:
            self.stored.update(contents(conn, texts))
        if lost:
            self._lost.update(said_under_fence(conn, lost))
        for uid, artifact_id in artifacts_among(conn, artifacts):
            self._artifacts.setdefault(uid, set()).add(artifact_id)

    def _has_room(self, row: Row) -> bool:
        """Whether the content of one more task may be read in this batch; of the first one always."""
        size = row.snapshot_bytes + row.event_bytes - row.folded_bytes
        if self._content and self._content + size > _CONTENT_BYTES:
            return False
        self._content += size
        return True


def _write(conn: Connection, decided: _Decided, writing: Writing) -> Committed:
    _insert_new(conn, decided, writing)
    writes = list(decided.writes.values())
    folded = _refold(conn, decided, writes)
    rows: list[Row] = []
    deleted: list[Row] = []
    events: list[Event] = []
    changes: list[tuple[Row, Row, bytes | None]] = []
    for write in writes:
        row, snapshot = write.row, write.document
        old = decided.gathered.rows.get(row.uid)
        events.extend(write.events)
        if row.uid in folded and not write.delete:
            snapshot = folded[row.uid].SerializeToString()
            row = changed(
                row, snapshot_generation=row.generation, snapshot_bytes=len(snapshot), folded_bytes=row.event_bytes
            )
        (deleted if write.delete else rows).append(row)
        if old is not None and row is not old:
            changes.append((old, row, None if snapshot is None else pack(snapshot)))
    writing.update_tasks(conn, changes)
    writing.insert_events(conn, events)
    writing.delete_tasks(conn, deleted)
    return Committed(rows, events, deleted, folded)


def _insert_new(conn: Connection, decided: _Decided, writing: Writing) -> None:
    """Inserts the tasks that are new, in the order of their keys, so that two processes cannot deadlock.

    One whose id another process has taken meanwhile is decided again in the next batch, against what is there.
    """
    known = decided.gathered.rows
    new = {index: write for index, write in decided.writes.items() if write.row.uid not in known}
    if not new:
        return
    in_order = sorted(new.values(), key=_by_key)
    inserted = writing.insert_tasks(conn, [(write.row, pack(write.document or b"")) for write in in_order])
    if inserted == len(in_order):
        return
    found = {uid: (tenant, key) for uid, tenant, key in sql.IDENTITIES.all(conn, [write.row.uid for write in in_order])}
    for index, write in new.items():
        row = write.row
        if row.uid in found and found[row.uid] != (row.tenant, row.id):
            decided.refuse(index, Internal(f"the uid {row.uid} belongs to another task"))
        elif row.uid not in found or len(in_order) == 1:
            decided.later(index)


def _refold(conn: Connection, decided: _Decided, writes: Sequence[Write]) -> dict[str, a2a.Task]:
    """The tasks whose stored snapshot is rewritten, folded with their new events."""
    folding = [write for write in writes if write.refold and write.row.uid in decided.gathered.rows]
    missing = {write.row.uid for write in folding} - decided.stored.keys()
    if missing:
        decided.stored.update(contents(conn, missing))
    return {write.row.uid: fold(decided.stored[write.row.uid], write.events) for write in folding}
