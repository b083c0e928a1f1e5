"""What a batch of operations concerns, read and locked before anything is decided."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from taskplane.storage.prepared import Query
from taskplane.tasks.domain.operations import (
    AddMessage,
    Append,
    Cancel,
    Claim,
    Create,
    Delete,
    Found,
    Known,
    MarkCopied,
    Operation,
    Orphan,
    Put,
    Renew,
)
from taskplane.tasks.domain.task import Row
from taskplane.tasks.sql import statements as sql

PublicId = tuple[str, str]
Turn = tuple[str, str, str]


def public_id(op: Operation) -> PublicId | None:
    """(tenant, id) where the operation names its task so; None where it names it by uid."""
    match op:
        case Create() | AddMessage() | Cancel() | Delete():
            return op.scope.tenant, op.task_id
        case Put():
            return op.scope.tenant, op.task.id
        case _:
            return None


def named_uid(op: Operation) -> str | None:
    """The uid where the operation names its task so."""
    return op.task_uid if isinstance(op, Append | Claim | Renew | Orphan | MarkCopied) else None


def turn_of(op: Operation) -> Turn | None:
    """(tenant, owner, invocation) of an operation that begins a turn."""
    if isinstance(op, Create | AddMessage):
        return op.scope.tenant, op.scope.owner, op.invocation_id
    return None


@dataclass(frozen=True, slots=True)
class Gathered:
    """Rows are locked until the transaction ends. `held`: uids of tasks that another process has locked."""

    uids: Mapping[PublicId, str]
    turns: Mapping[Turn, Known]
    rows: Mapping[str, Row]
    held: frozenset[str]

    def target(self, op: Operation) -> str | None:
        """The uid of the task that `op` names, as far as there is one."""
        name = public_id(op)
        return named_uid(op) if name is None else self.uids.get(name)

    def waits(self, op: Operation) -> bool:
        """Whether another process holds what `op` needs."""
        if not self.held:
            return False
        known = self._known(op)
        return self.target(op) in self.held or (known is not None and known.task_uid in self.held)

    def found(self, op: Operation) -> Found:
        """What `decide` needs to know about `op`, except what is said."""
        uid = self.target(op)
        known = self._known(op)
        return Found(
            row=self.rows.get(uid) if uid is not None else None,
            known=known,
            known_row=self.rows.get(known.task_uid) if known is not None else None,
        )

    def _known(self, op: Operation) -> Known | None:
        turn = turn_of(op)
        return self.turns.get(turn) if turn is not None else None


def gather(conn: Connection, operations: Sequence[Operation], locking: sql.Locking) -> Gathered:
    """Two statements at most, a third where another process holds rows or a task is unknown.

    Rows that another process holds are left out, not waited for; if that leaves nothing at all to decide, they are.
    """
    uids, turns = _names(conn, operations)
    wanted = {uid for op in operations if (uid := named_uid(op)) is not None}
    wanted.update(uids.values())
    wanted.update(known.task_uid for known in turns.values())
    rows = _rows(conn, locking.rows_not_held_elsewhere, wanted)
    held = _existing(conn, wanted - rows.keys()) if len(rows) < len(wanted) else frozenset[str]()
    gathered = Gathered(uids, turns, rows, held)
    if held and all(gathered.waits(op) for op in operations):
        return Gathered(uids, turns, _rows(conn, locking.rows, wanted), frozenset())
    return gathered


def _names(conn: Connection, operations: Iterable[Operation]) -> tuple[dict[PublicId, str], dict[Turn, Known]]:
    ids: set[PublicId] = set()
    turns: set[Turn] = set()
    for op in operations:
        if (name := public_id(op)) is not None:
            ids.add(name)
        if (turn := turn_of(op)) is not None:
            turns.add(turn)
    uids: dict[PublicId, str] = {}
    known: dict[Turn, Known] = {}
    if not ids:
        return uids, known
    keys, tenants = {task_id for _, task_id in ids}, {tenant for tenant, _ in ids}
    if turns:
        found = sql.NAMES_AND_TURNS.all(conn, keys, tenants, {invocation for _, _, invocation in turns})
    else:
        found = sql.NAMES.all(conn, keys, tenants)
    for tenant, owner, key, uid, generation, request_hash in found:
        if generation == 0:
            if (tenant, key) in ids:
                uids[tenant, key] = uid
        elif (tenant, owner, key) in turns:
            known[tenant, owner, key] = Known(uid, generation, request_hash)
    return uids, known


def _rows(conn: Connection, query: Query, uids: Iterable[str]) -> dict[str, Row]:
    return {values[0]: sql.to_row(values) for values in query.all(conn, uids)}


def _existing(conn: Connection, uids: Iterable[str]) -> frozenset[str]:
    """Which of these are there, locked or not."""
    return frozenset(uid for (uid,) in sql.EXISTING_UIDS.all(conn, uids))
