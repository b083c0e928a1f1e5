"""Import of a staged session in one transaction, with a few megabytes of it in memory at a time."""

from collections.abc import Iterator, Sequence
from typing import Final

from sqlalchemy import Connection, insert

from taskplane.sessions import importing
from taskplane.sessions.domain.errors import session_exists
from taskplane.sessions.domain.session import Scope, Session, new_salt
from taskplane.sessions.importing import ImportedEntry, SessionReader
from taskplane.sessions.sql import statements as sql
from taskplane.sessions.store import PAGE_BYTES
from taskplane.sessions.tables import event_delta, session_import
from taskplane.storage import staging
from taskplane.storage.dialects import Dialect
from taskplane.storage.staging import Stage

# Entries in memory at once.
_CHUNK: Final = 256


def stage(conn: Connection, of: Stage, number: int, data: bytes, dialect: Dialect) -> None:
    """Implement `SessionLog.stage_import`."""
    staging.lock(conn, dialect, of)
    _check_free(conn, of, dialect)
    staging.stage(conn, session_import, dialect, of, number, data)


def commit(conn: Connection, of: Stage, pages: int, dialect: Dialect) -> Session:
    """Implement `SessionLog.commit_import`."""
    staging.lock(conn, dialect, of)
    _check_free(conn, of, dialect)
    records = staging.records(conn, session_import, of, pages)
    scope = Scope(of.tenant, of.owner, "")
    session = importing.read_session(next(records, b""), scope, of.context_id)._replace(salt=new_salt())
    if not sql.insert_missing(conn, dialect, [session]):
        raise session_exists(of.context_id)
    reading = SessionReader(session)
    for chunk in _chunks(records, reading):
        _write(conn, session, chunk)
    reading.check_end()
    staging.drop(conn, session_import, of)
    return session


def drop(conn: Connection, of: Stage, dialect: Dialect) -> None:
    """Implement `SessionLog.drop_import`."""
    staging.lock(conn, dialect, of)
    staging.drop(conn, session_import, of)


def _check_free(conn: Connection, of: Stage, dialect: Dialect) -> None:
    if sql.find_locked(conn, dialect, (of.tenant, of.owner, of.context_id)) is not None:
        raise session_exists(of.context_id)


def _chunks(records: Iterator[bytes], reading: SessionReader) -> Iterator[Sequence[tuple[int, ImportedEntry]]]:
    chunk: list[tuple[int, ImportedEntry]] = []
    size = 0
    for record in records:
        chunk.append((importing.line_of(record), reading.entry(record)))
        size += len(record)
        if len(chunk) == _CHUNK or size > PAGE_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _write(conn: Connection, of: Session, chunk: Sequence[tuple[int, ImportedEntry]]) -> None:
    ids = [(of.tenant, of.owner, given.entry.id) for _, given in chunk]
    importing.check_new([(line, given.entry) for line, given in chunk], iter(sql.find_stored(conn, ids)), of.context_id)
    sql.insert_entries(conn, [given.entry for _, given in chunk])
    key = {"tenant": of.tenant, "owner": of.owner, "context_id": of.context_id}
    changes = [
        {**key, "place": given.entry.seq, "seq": given.entry.seq, "own": given.own} for _, given in chunk if given.own
    ]
    if changes:
        conn.execute(insert(event_delta), changes)
