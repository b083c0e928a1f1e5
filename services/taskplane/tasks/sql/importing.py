"""Import of staged tasks in one transaction, with one task in memory at a time."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from typing import Final

from sqlalchemy import Connection, bindparam, select

from taskplane.runtime.errors import AlreadyExists
from taskplane.runtime.ids import new_id
from taskplane.storage import staging
from taskplane.storage.dialects import Dialect
from taskplane.storage.staging import Stage
from taskplane.tasks import importing
from taskplane.tasks.domain.task import Row, Scope
from taskplane.tasks.importing import TaskReader
from taskplane.tasks.sql import statements as sql
from taskplane.tasks.sql.packing import pack
from taskplane.tasks.sql.reads import owned, owner
from taskplane.tasks.sql.writing import Writing
from taskplane.tasks.store import Unfinished
from taskplane.tasks.tables import task, task_import

_AT_ONCE: Final = 1000
_OF_SESSION: Final = owned(select(task.c.uid)).where(task.c.context_id == bindparam("context_id")).limit(1)
_UNFINISHED: Final = (
    select(*(task_import.c[name] for name in Unfinished._fields))
    .where(task_import.c.number == 0, task_import.c.created_at <= bindparam("before"))
    .order_by(task_import.c.created_at)
    .limit(100)
)


def stage(conn: Connection, of: Stage, number: int, data: bytes, dialect: Dialect) -> None:
    """Implement `TaskLog.stage_import`."""
    staging.stage(conn, task_import, dialect, of, number, data)


def commit(conn: Connection, of: Stage, pages: int, dialect: Dialect, writing: Writing) -> Sequence[Row]:
    """Implement `TaskLog.commit_import`; return the rows that were inserted."""
    staging.lock(conn, dialect, of)
    scope = Scope(of.tenant, of.owner, "")
    if conn.execute(_OF_SESSION, {**owner(scope), "context_id": of.context_id}).first() is not None:
        raise AlreadyExists(
            f"tasks of session {of.context_id} exist already",
            reason="SESSION_HAS_TASKS",
            suggestion="import the session under another id",
        )
    if not pages:
        return ()
    now = time.time_ns() // 1000
    records = staging.records(conn, task_import, of, pages)
    rows = [_write(conn, reader, writing) for reader in _tasks(records, of, scope, now)]
    staging.drop(conn, task_import, of)
    uids = "\n".join(row.uid for row in rows).encode()
    conn.execute(task_import.insert(), {**of._asdict(), "number": 0, "created_at": now, "data": uids})
    return rows


def finish(conn: Connection, of: Stage, dialect: Dialect) -> None:
    """Implement `TaskLog.finish_import`."""
    staging.lock(conn, dialect, of)
    staging.drop(conn, task_import, of, number=0)


def dropped(conn: Connection, of: Stage, dialect: Dialect) -> Sequence[str]:
    """Delete the pages; return the uids of stored tasks without a stored session, if they are of this import."""
    staging.lock(conn, dialect, of)
    kept = staging.page(conn, task_import, of, 0)
    staging.drop_pages(conn, task_import, of)
    if kept is None or of.import_id not in ("", kept[0]):
        return ()
    return [uid for uid in kept[1].decode().split("\n") if uid]


def unfinished(conn: Connection, before: int) -> Sequence[Unfinished]:
    """Implement `TaskLog.unfinished_imports`. `before`: microseconds since 1970."""
    return [Unfinished._make(row) for row in conn.execute(_UNFINISHED, {"before": before})]


def _tasks(records: Iterator[bytes], of: Stage, scope: Scope, now: int) -> Iterator[TaskReader]:
    reader: TaskReader | None = None
    for record in records:
        given = importing.read(record)
        which = given.WhichOneof("record")
        if which == "task":
            if reader is not None:
                yield _whole(reader, given.line)
            reader = TaskReader(given.line, given.task, scope, of.context_id, new_id(), now)
        elif which == "event" and reader is not None:
            reader.event(given.line, given.event)
        else:
            raise importing.wrong(given.line, "a task must come before its events", "IMPORT_ORDER")
    if reader is not None:
        yield _whole(reader, reader.line)


def _whole(reader: TaskReader, line: int) -> TaskReader:
    if not reader.complete:
        raise importing.wrong(line, "events of the previous task are missing", "IMPORT_ORDER")
    return reader


def _write(conn: Connection, reader: TaskReader, writing: Writing) -> Row:
    row, snapshot, events = reader.finished()
    _check_turns(conn, row, reader)
    if any(tenant != row.tenant for _, tenant, _ in conn.execute(sql.IDENTITIES, {"uids": [row.uid]})):
        # The importer must not learn about other tenants.
        uid = hashlib.sha256(f"{row.tenant}\0{row.uid}".encode()).hexdigest()[:32]
        row, events = row._replace(uid=uid), [event._replace(task_uid=uid) for event in events]
    if not writing.insert_tasks(conn, [(row, pack(snapshot))]):
        raise AlreadyExists(
            f"task {row.id} exists already",
            reason="TASK_EXISTS",
            suggestion="import the session under another id",
            metadata={"line": str(reader.line)},
        )
    for first in range(0, len(events), _AT_ONCE):
        writing.insert_events(conn, events[first : first + _AT_ONCE])
    return row


def _check_turns(conn: Connection, row: Row, reader: TaskReader) -> None:
    turns = list(reader.turns)
    if len(set(turns)) < len(turns):
        raise importing.wrong(reader.line, "a turn is recorded twice")
    if conn.execute(sql.TURNS_OF_OWNER, {"turns": turns, "tenants": [row.tenant], "owner": row.owner}).first():
        raise AlreadyExists(
            f"a turn of task {row.id} is recorded already",
            reason="TURN_EXISTS",
            suggestion="import the session under another id",
            metadata={"line": str(reader.line)},
        )
