"""Fork of a session in one transaction, with a few megabytes of it in memory at a time."""

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from sqlalchemy import Connection, insert

from taskplane.sessions.domain import commands
from taskplane.sessions.domain.errors import invocation_not_found, session_exists, session_not_found
from taskplane.sessions.domain.forking import copy_of, forked, origin, to_copy
from taskplane.sessions.domain.history import InEffect
from taskplane.sessions.domain.session import Session
from taskplane.sessions.sql import statements as sql
from taskplane.sessions.sql import states
from taskplane.sessions.sql.loading import Log, complete, fitting, read_entries, read_log
from taskplane.sessions.tables import event_delta
from taskplane.storage.dialects import Dialect

# Entries in memory at once.
_CHUNK: Final = 256


def fork(conn: Connection, op: commands.Fork, dialect: Dialect) -> commands.Created:
    """Implement `SessionLog.fork`."""
    found = _there(conn, op, dialect)
    if found is not None:
        return found
    of, log = read_log(conn, op.scope, op.context_id)
    copies = to_copy(log.lines, op.before)
    if copies is None:
        raise invocation_not_found(op.before)
    new = forked(of, op, copies, time.time_ns() // 1000)
    if not sql.insert_missing(conn, dialect, [new]):
        # Another process has made it meanwhile, and has committed it by now.
        return fork(conn, op, dialect)
    numbers: dict[int, int] = {}
    for chunk in _chunks(copies, log):
        _copy(conn, of, new, chunk, log, numbers)
    _copy_changes(conn, of, new, numbers)
    return commands.Created(session=new, created=True)


def _there(conn: Connection, op: commands.Fork, dialect: Dialect) -> commands.Created | None:
    """Return the answer to a repeat if the session exists already. AlreadyExists: the session with this id is not this
    fork."""
    key = op.scope.tenant, op.scope.owner, op.new_context_id
    there = sql.find_locked(conn, dialect, key)
    if there is None:
        return None
    if there.forked_from != origin(op):
        raise session_exists(op.new_context_id)
    return commands.Created(session=there, created=False)


def _chunks(copies: Sequence[InEffect], log: Log) -> Iterator[Sequence[InEffect]]:
    rest = copies
    while rest:
        size = fitting((log.sizes[one.seq] for one in rest), _CHUNK)
        yield rest[:size]
        rest = rest[size:]


def _copy(
    conn: Connection, of: Session, new: Session, chunk: Sequence[InEffect], log: Log, numbers: dict[int, int]
) -> None:
    """Copy some entries; add the new number of each to `numbers`."""
    wanted = [one.seq for one in chunk]
    missing = [seq for seq in wanted if seq not in log.reads]
    reads = {**log.reads, **read_entries(conn, of, missing)} if missing else log.reads
    if not reads.keys() >= set(wanted):
        # The other session was deleted meanwhile.
        raise session_not_found(of.context_id)
    entries = complete(conn, of, [reads[seq] for seq in wanted])
    first = len(numbers) + 1
    numbers.update(zip(wanted, range(first, first + len(wanted)), strict=True))
    sql.insert_entries(
        conn, [copy_of(stored, one, new, numbers[one.seq]) for stored, one in zip(entries, chunk, strict=True)]
    )


def _copy_changes(conn: Connection, of: Session, new: Session, numbers: dict[int, int]) -> None:
    """Copy the changes of the state by the copied events, in their order."""
    key = {"tenant": new.tenant, "owner": new.owner, "context_id": new.context_id}
    copied = ((numbers[seq], own) for seq, own in states.changes(conn, of) if seq in numbers)
    placed = enumerate(copied, 1)
    while some := list(islice(placed, _CHUNK)):
        conn.execute(
            insert(event_delta), [{**key, "place": place, "seq": seq, "own": own} for place, (seq, own) in some]
        )
