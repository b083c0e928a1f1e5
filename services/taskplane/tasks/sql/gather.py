"""Reads and locks the rows of a batch of operations, before anything is decided."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Select

from taskplane.storage.prepared import PreparedQuery
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.commands import Found, Known, Operation
from taskplane.tasks.domain.needs import needs_lease
from taskplane.tasks.domain.task import Row
from taskplane.tasks.sql import statements as sql
from taskplane.tasks.sql.session_tasks import SessionTasks, session_of, session_tasks

PublicId = tuple[str, str]
Turn = tuple[str, str, str]
# How an operation names its rows: its task by uid, or by tenant and id; and the turn that it begins, by tenant,
# owner and invocation. Missing names are None.
Names = tuple[str | None, PublicId | None, Turn | None]


def names_of(op: Operation) -> Names:
    """Return the names in the operation."""
    return _NAMES[type(op)](op)


def _by_uid(
    op: commands.Append | commands.Claim | commands.Orphan | commands.TimeOut | commands.MarkCopied | commands.Trim,
) -> Names:
    return op.task_uid, None, None


def _by_id(op: commands.Cancel | commands.Delete) -> Names:
    return None, (op.scope.tenant, op.task_id), None


def _by_document(op: commands.Put) -> Names:
    return None, (op.scope.tenant, op.task.id), None


def _by_session(op: commands.MarkSuperseded) -> Names:
    return None, None, None


def _by_id_and_turn(op: commands.Create | commands.AddMessage) -> Names:
    tenant, owner = op.scope.tenant, op.scope.owner
    return None, (tenant, op.task_id), (tenant, owner, op.invocation_id)


_NAMES: Final[dict[type, Callable[[Any], Names]]] = {
    commands.Create: _by_id_and_turn,
    commands.Append: _by_uid,
    commands.AddMessage: _by_id_and_turn,
    commands.Cancel: _by_id,
    commands.Put: _by_document,
    commands.Delete: _by_id,
    commands.Claim: _by_uid,
    commands.Orphan: _by_uid,
    commands.TimeOut: _by_uid,
    commands.MarkCopied: _by_uid,
    commands.MarkSuperseded: _by_session,
    commands.Trim: _by_uid,
}


@dataclass(slots=True)
class Target:
    """The rows that one operation concerns. `names`: keys of which a batch may have only one operation each."""

    uid: str | None
    names: tuple[object, ...]
    row: Row | None
    known: Known | None
    known_row: Row | None
    # Another transaction holds its rows.
    waits: bool
    # The tasks of its session, for an operation on those.
    others: Sequence[Found] = ()
    busy: int = 0
    lease_until: int | None = None

    def found(self) -> Found:
        """Return the facts for `decide`, except messages."""
        return Found(
            self.row, self.known, self.known_row, others=self.others, busy=self.busy, lease_until=self.lease_until
        )


@dataclass(slots=True)
class Gathered:
    """`targets`: one per operation, in order. `rows`: by uid, locked until the end of the transaction."""

    targets: Sequence[Target]
    rows: Mapping[str, Row]


def gather(conn: Connection, operations: Sequence[Operation], locking: sql.Locking) -> Gathered:
    """Read and lock the rows of the operations.

    These are two statements at most, a third where another transaction holds rows or a task is unknown, one more where
    leases may end; some for each session.

    Rows that another transaction holds are left out, not waited for: operations on them are for a later batch.
    """
    names = [names_of(op) for op in operations]
    uids, turns = _look_up(conn, names)
    wanted = {uid for uid, _, _ in names if uid is not None}
    wanted.update(uids.values())
    wanted.update([known.task_uid for known in turns.values()])
    of_sessions = session_tasks(conn, operations, locking)
    for session in of_sessions.values():
        wanted.update(session.tasks)
    rows = _rows(conn, locking.free_rows, wanted) if wanted else {}
    held = _existing(conn, sql.EXISTING_UIDS, wanted - rows.keys()) if len(rows) < len(wanted) else frozenset[str]()
    targets = [_target(each, uids, turns, rows, held) for each in names]
    _add_sessions(operations, targets, of_sessions, rows, held)
    _lock_leases(conn, operations, targets, locking)
    return Gathered(targets, rows)


def _lock_leases(
    conn: Connection, operations: Sequence[Operation], targets: Sequence[Target], locking: sql.Locking
) -> None:
    """Lock the leases that operations may end, after the rows of their tasks; a statement, where there are any.

    A lease that is held elsewhere is being renewed: its operation is left for a later batch. The sweep's is not, for it
    finds the lease again.
    """
    ending: dict[int, list[str]] = {}
    for index, (op, target) in enumerate(zip(operations, targets, strict=True)):
        rows = [target.row, *[each.row for each in target.others]]
        if uids := [row.uid for row in rows if row is not None and needs_lease(row, op)]:
            ending[index] = uids
    if not ending:
        return
    wanted = {uid for uids in ending.values() for uid in uids}
    found: dict[str, int] = {row[0]: row[1] for row in locking.free_leases.rows(conn, {"uids": wanted})}
    held = _existing(conn, sql.EXISTING_LEASES, wanted - found.keys()) if len(found) < len(wanted) else frozenset[str]()
    for index, uids in ending.items():
        op, target = operations[index], targets[index]
        target.lease_until = found.get(uids[0])
        swept = isinstance(op, commands.Orphan) and op.expired_before is not None
        target.waits = target.waits or (not swept and not held.isdisjoint(uids))


def _add_sessions(
    operations: Sequence[Operation],
    targets: Sequence[Target],
    of_sessions: Mapping[int, SessionTasks],
    rows: Mapping[str, Row],
    held: frozenset[str],
) -> None:
    for index, session in of_sessions.items():
        target = targets[index]
        target.others = [Found(rows[uid], cut=cut) for uid, cut in session.tasks.items() if uid in rows]
        target.busy = session.busy
        names = [each for each in target.names if each is not None]
        target.names = (*names, session_of(operations[index]), *session.tasks)
        target.waits = target.waits or not held.isdisjoint(session.tasks)


def _target(
    names: Names,
    uids: Mapping[PublicId, str],
    turns: Mapping[Turn, Known],
    rows: Mapping[str, Row],
    held: frozenset[str],
) -> Target:
    uid, name, turn = names
    if name is None:
        return Target(uid, (uid,), rows.get(uid or ""), None, None, uid in held)
    uid = uids.get(name)
    row = rows.get(uid) if uid is not None else None
    known = turns.get(turn) if turn is not None else None
    known_row = rows.get(known.task_uid) if known is not None else None
    waits = uid in held or (known is not None and known.task_uid in held)
    return Target(uid, tuple([each for each in (uid, name, turn) if each is not None]), row, known, known_row, waits)


def _look_up(conn: Connection, names: Iterable[Names]) -> tuple[dict[PublicId, str], dict[Turn, Known]]:
    ids = {name for _, name, _ in names if name is not None}
    uids: dict[PublicId, str] = {}
    known: dict[Turn, Known] = {}
    if not ids:
        return uids, known
    turns = {turn for _, _, turn in names if turn is not None}
    keys, tenants = {task_id for _, task_id in ids}, {tenant for tenant, _ in ids}
    if turns:
        invocations = {invocation for _, _, invocation in turns}
        found = sql.NAMES_AND_TURNS.rows(conn, {"ids": keys, "tenants": tenants, "turns": invocations})
    else:
        found = sql.NAMES.rows(conn, {"ids": keys, "tenants": tenants})
    for tenant, owner, key, uid, generation, request_hash in found:
        if generation == 0:
            if (tenant, key) in ids:
                uids[tenant, key] = uid
        elif (tenant, owner, key) in turns:
            known[tenant, owner, key] = Known(uid, generation, request_hash)
    return uids, known


def _rows(conn: Connection, query: PreparedQuery, uids: Collection[str]) -> dict[str, Row]:
    return {values[0]: sql.to_row(values) for values in query.rows(conn, {"uids": uids})}


def _existing(conn: Connection, query: Select[Any], uids: Collection[str]) -> frozenset[str]:
    """Return which of these are there, locked or not."""
    return frozenset(conn.execute(query, {"uids": uids}).scalars())
