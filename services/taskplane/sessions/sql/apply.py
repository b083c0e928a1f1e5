"""One transaction of the session log: read the rows of a batch of operations, decide each operation, write the results.

The number of statements does not depend on the number of operations, with two exceptions: each rewind and undo reads
the log of its session, and in each session with rewinds or deleted tasks these are read. The rules are in
`domain.decide`.
"""

import time
from collections.abc import Mapping, Sequence, Set
from typing import Final

from sqlalchemy import Connection

from taskplane.runtime.errors import PlaneError
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.commands import Answer, Found, Operation, Write
from taskplane.sessions.domain.decide import decide
from taskplane.sessions.domain.deleting import Deletions
from taskplane.sessions.domain.session import Entry, Session
from taskplane.sessions.sql import statements as sql
from taskplane.sessions.sql import states
from taskplane.sessions.sql.deleting import completed, read_deletions, without_deleted
from taskplane.sessions.sql.loading import read_lines
from taskplane.sessions.sql.pushing import compared
from taskplane.sessions.sql.statements import Key
from taskplane.storage.committer import LATER, Batch, Later
from taskplane.storage.dialects import Dialect

# The maximum number of ids in one lookup.
_LOOKUP: Final = 1000


def key_of(op: Operation) -> Key:
    """Return the key of an operation, its session: a batch may have only one operation with it."""
    scope = op.scope
    return scope.tenant, scope.owner, op.context_id


def size_of(op: Operation) -> int:
    """Return roughly how many bytes the operation writes."""
    size = _OVERHEAD
    if isinstance(op, commands.Rewind | commands.Undo):
        size += len(op.entry.payload or b"")
    if isinstance(op, commands.Append):
        for entry in op.entries:
            size += _OVERHEAD + len(entry.payload or b"")
    return size


def apply_batch(conn: Connection, operations: Sequence[Operation], dialect: Dialect) -> Batch[Answer]:
    """Apply the operations in their order, each as if it were alone; each must name another session.

    An operation is left for the next batch if an earlier one stores the same entry id, or if another process has just
    created its session. If another process has just stored the same entry id, the database refuses the batch, and the
    next try finds the entry. The batch's effects are its writes.
    """
    keys = [key_of(op) for op in operations]
    ids = [_ids(op) for op in operations]
    sessions = sql.lock_free(conn, dialect, keys)
    missing = [key for key in keys if key not in sessions]
    held = set[Key]() if dialect.alone or not missing else set(sql.heads(conn, missing))
    stored = _stored(conn, ids)
    said = _said(conn, operations, sessions)
    now = time.time_ns() // 1000
    outcomes: list[Answer | PlaneError | Later] = []
    writes: dict[int, Write] = {}
    taken: set[Key] = set()
    for op, key, wanted in zip(operations, keys, ids, strict=True):
        if key in held or not taken.isdisjoint(wanted):
            outcomes.append(LATER)
            continue
        known = {each[2]: stored[each] for each in wanted if each in stored} if stored else {}
        was = sessions.get(key)
        found = Found(session=was, stored=known)
        if was is not None and isinstance(op, commands.Append):
            op, found.deletions = _with_log(conn, was, op, known)
        elif was is not None and isinstance(op, commands.Touch) and op.task_id:
            found.deletions = read_deletions(conn, was)
        if was is not None and commands.needs_lines(op, known):
            found.lines, found.changes = read_lines(conn, was), states.changes(conn, was)
        if was is not None and key in said:
            found.said = said[key]
        outcome = decide(found, op, now)
        if isinstance(outcome, Write):
            writes[len(outcomes)] = outcome
            taken.update(wanted)
            outcome = outcome.answer
        outcomes.append(outcome)
    for index in _insert_new(conn, writes, dialect):
        del writes[index]
        outcomes[index] = LATER
    written = list(writes.values())
    _write(conn, written, dialect)
    return Batch(outcomes, written)


def _with_log(
    conn: Connection, was: Session, op: commands.Append, known: Mapping[str, Entry]
) -> tuple[commands.Append, Deletions | None]:
    """Return an append with the facts from the log of its session, and its deletions."""
    deletions = read_deletions(conn, was)
    if deletions is not None:
        op = without_deleted(conn, was, op, known)
    return completed(conn, was, compared(conn, was, op, known), known), deletions


def _ids(op: Operation) -> list[Key]:
    tenant, owner, _ = op.scope
    if isinstance(op, commands.Append):
        return [(tenant, owner, entry.id) for entry in op.entries]
    return [(tenant, owner, op.entry.id)] if isinstance(op, commands.Rewind | commands.Undo) else []


def _stored(conn: Connection, wanted: Sequence[Sequence[Key]]) -> dict[Key, Entry]:
    ids = list({key for keys in wanted for key in keys})
    found: dict[Key, Entry] = {}
    for start in range(0, len(ids), _LOOKUP):
        for one in sql.find_stored(conn, ids[start : start + _LOOKUP]):
            found[one.tenant, one.owner, one.id] = one
    return found


def _said(conn: Connection, operations: Sequence[Operation], sessions: Mapping[Key, Session]) -> Mapping[Key, Set[str]]:
    """Return the ids that messages have once more and need not keep, by their sessions."""
    wanted = [
        (key, entry.message_id)
        for op in operations
        if isinstance(op, commands.Append) and op.own_ids and (key := key_of(op)) in sessions
        for entry in op.entries
        if entry.id in op.own_ids and entry.message_id
    ]
    return sql.said(conn, wanted) if wanted else {}


def _insert_new(conn: Connection, writes: Mapping[int, Write], dialect: Dialect) -> list[int]:
    """Insert the new sessions. Return the indexes of the sessions that another process has inserted since they were
    read."""
    # In the order of their keys, so that two processes cannot deadlock.
    new = sorted([write.session for write in writes.values() if write.new], key=sql.key_of)
    if not new:
        return []
    arrived = sql.insert_missing(conn, dialect, new)
    if len(arrived) == len(new):
        return []
    return [index for index, write in writes.items() if write.new and sql.key_of(write.session) not in arrived]


def _write(conn: Connection, writes: Sequence[Write], dialect: Dialect) -> None:
    changed: list[Session] = []
    gone: list[Session] = []
    remains: list[tuple[Session, int]] = []
    entries: list[Entry] = []
    for write in writes:
        if write.delete:
            gone.append(write.session)
            if write.tasks_until:
                remains.append((write.session, write.tasks_until))
            continue
        if not write.new:
            changed.append(write.session)
        entries += write.entries
    sql.update_sessions(conn, changed)
    sql.insert_entries(conn, entries)
    sql.delete_sessions(conn, gone)
    if remains:
        sql.insert_remains(conn, dialect, remains)
    if any(write.deltas for write in writes):
        states.write(conn, writes, dialect)


_OVERHEAD: Final = 512
