"""One transaction of the session log: read what the operations concern, decide each, write what was decided.

The number of statements does not depend on the number of operations. The rules are not here but in `domain.decide`.
"""

import time
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import Connection, Select

from taskplane.runtime.errors import PlaneError
from taskplane.sessions.domain import operations as ops
from taskplane.sessions.domain.decide import decide
from taskplane.sessions.domain.operations import Answer, Found, Operation, Write
from taskplane.sessions.domain.session import Entry, Session
from taskplane.sessions.sql import statements as sql
from taskplane.storage.committer import LATER, Batch, Later

Key = tuple[str, str, str]

# Ids in one lookup, so that it stays below what either engine takes as parameters.
_LOOKUP: Final = 4096
_by_key: Final = attrgetter("session.tenant", "session.owner", "session.context_id")


def key_of(op: Operation) -> Key:
    """What at most one operation of a batch may name: its session."""
    return op.scope.tenant, op.scope.owner, op.context_id


def size_of(op: Operation) -> int:
    """About how many bytes the operation writes."""
    if not isinstance(op, ops.Append):
        return _OVERHEAD
    return _OVERHEAD + sum(_OVERHEAD + len(entry.payload or b"") for entry in op.entries)


def apply_batch(conn: Connection, operations: Sequence[Operation], locked: Select[Any]) -> Batch[Answer]:
    """Carries out the operations in their order, each as if it were alone; each must name another session.

    An entry id that two operations of a batch would store is left to the first, the second is for the next batch. Where
    another process stored a session or an entry meanwhile, the database refuses the batch, and run again it sees it.
    """
    sessions = _sessions(conn, operations, locked)
    stored = _stored(conn, operations)
    now = time.time_ns() // 1000
    outcomes: list[Answer | PlaneError | Later] = []
    writes: list[Write] = []
    taken: set[Key] = set()
    for op in operations:
        ids = _ids(op)
        if not taken.isdisjoint(ids):
            outcomes.append(LATER)
            continue
        known = {entry_id: entry for (_, _, entry_id) in ids if (entry := stored.get((*key_of(op)[:2], entry_id)))}
        outcome = decide(Found(session=sessions.get(key_of(op)), stored=known), op, now)
        if isinstance(outcome, Write):
            writes.append(outcome)
            taken.update(ids)
            outcome = outcome.answer
        outcomes.append(outcome)
    if writes:
        _write(conn, writes)
    return Batch(outcomes)


def _sessions(conn: Connection, operations: Sequence[Operation], locked: Select[Any]) -> dict[Key, Session]:
    rows = conn.execute(locked, {"keys": sql.padded(map(key_of, operations))})
    found = map(sql.to_session, rows)
    return {(one.tenant, one.owner, one.context_id): one for one in found}


def _ids(op: Operation) -> list[Key]:
    if not isinstance(op, ops.Append):
        return []
    return [(op.scope.tenant, op.scope.owner, entry.id) for entry in op.entries]


def _stored(conn: Connection, operations: Sequence[Operation]) -> dict[Key, Entry]:
    ids = sorted({entry_id for op in operations for entry_id in _ids(op)})
    found: dict[Key, Entry] = {}
    for start in range(0, len(ids), _LOOKUP):
        rows = conn.execute(sql.STORED_ENTRIES, {"ids": sql.padded(ids[start : start + _LOOKUP])})
        found.update(((one.tenant, one.owner, one.id), one) for one in map(sql.to_stored, rows))
    return found


def _write(conn: Connection, writes: Sequence[Write]) -> None:
    kept = [write for write in writes if not write.delete]
    gone = [write.session for write in writes if write.delete]
    # In the order of their keys: equal new ones of two processes wait for one another.
    new = sorted((write for write in kept if write.new), key=_by_key)
    sql.execute_many(conn, sql.INSERT_SESSION, [sql.session_parameters(write.session) for write in new])
    sql.execute_many(
        conn, sql.UPDATE_SESSION, [sql.changed_parameters(write.session) for write in kept if not write.new]
    )
    sql.execute_many(conn, sql.INSERT_ENTRY, [sql.entry_parameters(entry) for write in kept for entry in write.entries])
    sql.execute_many(conn, sql.DELETE_SESSION, [sql.key_parameters(session) for session in gone])


_OVERHEAD: Final = 512
