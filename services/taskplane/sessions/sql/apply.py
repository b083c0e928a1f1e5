"""One transaction of the session log: read what the operations concern, decide each, write what was decided.

The number of statements does not depend on the number of operations. The rules are not here but in `domain.decide`.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import Connection

from taskplane.runtime.errors import PlaneError
from taskplane.sessions.domain import operations as ops
from taskplane.sessions.domain.decide import decide
from taskplane.sessions.domain.operations import Answer, Found, Operation, Write
from taskplane.sessions.domain.session import Entry
from taskplane.sessions.sql import statements as sql
from taskplane.sessions.sql.statements import Key
from taskplane.storage.committer import LATER, Batch, Later
from taskplane.storage.dialects import Dialect

# Ids in one lookup, so that it stays below what either engine takes as parameters.
_LOOKUP: Final = 4096


def key_of(op: Operation) -> Key:
    """What at most one operation of a batch may name: its session."""
    return op.scope.tenant, op.scope.owner, op.context_id


def size_of(op: Operation) -> int:
    """About how many bytes the operation writes."""
    if not isinstance(op, ops.Append):
        return _OVERHEAD
    return _OVERHEAD + sum(_OVERHEAD + len(entry.payload or b"") for entry in op.entries)


def apply_batch(conn: Connection, operations: Sequence[Operation], dialect: Dialect) -> Batch[Answer]:
    """Carries out the operations in their order, each as if it were alone; each must name another session.

    An entry id that two operations of a batch would store is left to the first, the second is for the next batch; and
    so is one whose session another process has made meanwhile. Where one has stored such an entry meanwhile, the
    database refuses the batch; run again it is seen.
    """
    keys = [key_of(op) for op in operations]
    ids = [_ids(op) for op in operations]
    sessions = {(one.tenant, one.owner, one.context_id): one for one in sql.find_locked(conn, dialect, keys)}
    stored = _stored(conn, ids)
    now = time.time_ns() // 1000
    outcomes: list[Answer | PlaneError | Later] = []
    writes: dict[int, Write] = {}
    taken: set[Key] = set()
    for op, key, wanted in zip(operations, keys, ids, strict=True):
        if not taken.isdisjoint(wanted):
            outcomes.append(LATER)
            continue
        known = {one.id: one for one in map(stored.get, wanted) if one is not None}
        outcome = decide(Found(session=sessions.get(key), stored=known), op, now)
        if isinstance(outcome, Write):
            writes[len(outcomes)] = outcome
            taken.update(wanted)
            outcome = outcome.answer
        outcomes.append(outcome)
    for index in _insert_new(conn, writes, dialect):
        del writes[index]
        outcomes[index] = LATER
    _write(conn, list(writes.values()))
    return Batch(outcomes)


def _ids(op: Operation) -> list[Key]:
    if not isinstance(op, ops.Append):
        return []
    return [(op.scope.tenant, op.scope.owner, entry.id) for entry in op.entries]


def _stored(conn: Connection, wanted: Sequence[Sequence[Key]]) -> dict[Key, Entry]:
    ids = sorted({key for keys in wanted for key in keys})
    found: dict[Key, Entry] = {}
    for start in range(0, len(ids), _LOOKUP):
        stored = sql.find_stored(conn, ids[start : start + _LOOKUP])
        found.update(((one.tenant, one.owner, one.id), one) for one in stored)
    return found


def _insert_new(conn: Connection, writes: Mapping[int, Write], dialect: Dialect) -> list[int]:
    """Inserts the sessions that are new; those that another process was faster to make are returned."""
    # In the order of their keys: equal ones of two processes wait for one another.
    new = sorted((write.session for write in writes.values() if write.new), key=sql.key_of)
    if not new:
        return []
    arrived = sql.insert_missing(conn, dialect, new)
    return [index for index, write in writes.items() if write.new and sql.key_of(write.session) not in arrived]


def _write(conn: Connection, writes: Sequence[Write]) -> None:
    kept = [write for write in writes if not write.delete]
    gone = [write.session for write in writes if write.delete]
    sql.UPDATE_SESSIONS.execute(conn, [sql.to_row(write.session) for write in kept if not write.new])
    sql.INSERT_ENTRIES.execute(conn, [entry for write in kept for entry in write.entries])
    sql.DELETE_SESSIONS.execute(conn, gone)


_OVERHEAD: Final = 512
