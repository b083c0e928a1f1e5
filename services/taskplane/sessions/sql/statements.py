"""The statements of the write path.

Rows become domain objects by position: a table has the columns of its class, in the same order.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, Final, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    TableValuedAlias,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from taskplane.sessions.domain.session import Entry, Session
from taskplane.sessions.tables import entry, session, session_remains
from taskplane.sessions.triggers import FIXED
from taskplane.storage.dialects import Dialect
from taskplane.storage.lists import table_of
from taskplane.storage.prepared import PreparedQuery, PreparedRows

# (tenant, owner, context id), or (tenant, owner, entry id).
Key = tuple[str, str, str]

SESSION_FIELDS: Final = Session._fields
ENTRY_FIELDS: Final = Entry._fields
# A session without entries has `seq` 0 in the domain and NULL in the table, where `seq` refers to the newest entry.
SESSION_COLUMNS: Final = tuple(
    func.coalesce(session.c.seq, 0).label("seq") if name == "seq" else session.c[name] for name in SESSION_FIELDS
)
KEY_FIELDS: Final = ("tenant", "owner", "context_id")
CHANGING: Final = tuple(name for name in SESSION_FIELDS if name not in FIXED)

_PAYLOAD: Final = ENTRY_FIELDS.index("payload")
_SEQ: Final = SESSION_FIELDS.index("seq")
key_of: Final[Callable[[Session], Key]] = attrgetter(*KEY_FIELDS)
# Convert a row of `SESSION_COLUMNS`, and a row of all columns of `entry`, to domain objects.
to_session: Final[Callable[[Iterable[Any]], Session]] = Session._make
to_entry: Final[Callable[[Iterable[Any]], Entry]] = Entry._make


def _to_row(one: Session) -> Session:
    return one if one.seq else one._replace(seq=None)  # type: ignore[arg-type]


SESSION_OF_KEY: Final = (
    session.c.tenant == bindparam("of_tenant"),
    session.c.owner == bindparam("of_owner"),
    session.c.context_id == bindparam("of_context_id"),
)
_OF_KEY: Final = [f"of_{name}" if name in KEY_FIELDS else name for name in SESSION_FIELDS]
_UPDATE_SESSIONS: Final = PreparedRows(
    update(session).where(*SESSION_OF_KEY).values({name: bindparam(name) for name in CHANGING}), _OF_KEY
)
_DELETE_SESSIONS: Final = PreparedRows(delete(session).where(*SESSION_OF_KEY), _OF_KEY)
_INSERT_ENTRIES: Final = PreparedRows(insert(entry), ENTRY_FIELDS)


def _matching(table: TableValuedAlias, *columns: ColumnElement[Any]) -> ColumnElement[bool]:
    return and_(*(mine == theirs for mine, theirs in zip(columns, table.c, strict=True)))


_ids: Final = table_of("ids", "tenant", "owner", "id")
_of_id: Final = _matching(_ids, entry.c.tenant, entry.c.owner, entry.c.id)
# The stored ones of these ids. One subquery for each id instead of a join: for a join PostgreSQL plans a scan of a
# small table, and keeps this plan when the table is large.
_KNOWN_IDS: Final = PreparedQuery(
    select(*_ids.c).where(select(entry.c.seq).where(_of_id).correlate(_ids).scalar_subquery().is_not(None))
)
_STORED_ENTRIES: Final = select(*(entry.c[name] for name in ENTRY_FIELDS if name != "payload")).select_from(
    _ids.join(entry, _of_id)
)

_keys: Final = table_of("keys", *KEY_FIELDS)
_of_keys: Final = _keys.join(session, _matching(_keys, *(session.c[name] for name in KEY_FIELDS)))
_SESSIONS: Final = select(*SESSION_COLUMNS).select_from(_of_keys)

_said: Final = table_of("said", *KEY_FIELDS, "message_id")
_first_seq: Final = (
    select(func.min(entry.c.seq))
    .where(_matching(_said, *(entry.c[name] for name in (*KEY_FIELDS, "message_id"))))
    .correlate(_said)
    .scalar_subquery()
)
# A subquery for each id here, too: one index lookup, for any size of the table that PostgreSQL assumes.
_SAID_UNDER: Final = PreparedQuery(select(*(_said.c[name] for name in (*KEY_FIELDS, "message_id")), _first_seq))


@cache
def _locking(dialect: Dialect) -> Select[Any]:
    return dialect.lock(_SESSIONS)


@cache
def _locking_free(dialect: Dialect) -> PreparedQuery:
    return PreparedQuery(dialect.skip_locked(_SESSIONS))


@cache
def _inserting(dialect: Dialect) -> PreparedRows:
    return PreparedRows(dialect.insert_ignore(session), SESSION_FIELDS)


# The creation time and the number of entries of each of these sessions.
_HEADS: Final = select(*_keys.c, session.c.created_at, func.coalesce(session.c.seq, 0)).select_from(_of_keys)


def _columns(names: Sequence[str], keys: Iterable[Sequence[str]]) -> dict[str, Sequence[str]]:
    columns = zip(*keys, strict=True)
    return dict(zip(names, columns, strict=False)) or dict.fromkeys(names, ())


def find_stored(conn: Connection, ids: Iterable[Key]) -> list[Entry]:
    """Return the stored entries with these ids, without their payloads. If there are none, this is a single lookup."""
    names = ("tenant", "owner", "id")
    known = [(row[0], row[1], row[2]) for row in _KNOWN_IDS.rows(conn, _columns(names, ids))]
    if not known:
        return []
    rows = conn.execute(_STORED_ENTRIES, _columns(names, known))
    return [to_entry((*row[:_PAYLOAD], None, *row[_PAYLOAD:])) for row in rows]


def said(conn: Connection, wanted: Iterable[tuple[Key, str]]) -> dict[Key, set[str]]:
    """Return the wanted message ids that exist, by session."""
    columns = _columns((*KEY_FIELDS, "message_id"), ((*key, message_id) for key, message_id in wanted))
    found: dict[Key, set[str]] = {}
    for row in _SAID_UNDER.rows(conn, columns):
        if row[4] is not None:
            found.setdefault((row[0], row[1], row[2]), set()).add(row[3])
    return found


def find_locked(conn: Connection, dialect: Dialect, key: Key) -> Session | None:
    """Lock the session and return it, if it exists. Waits while another transaction holds the lock."""
    found = conn.execute(_locking(dialect), _columns(KEY_FIELDS, [key])).one_or_none()
    return to_session(found) if found is not None else None


def lock_free(conn: Connection, dialect: Dialect, keys: Iterable[Key]) -> dict[Key, Session]:
    """Lock and return the sessions that exist and are not held by another transaction."""
    found = map(to_session, _locking_free(dialect).rows(conn, _columns(KEY_FIELDS, keys)))
    return {key_of(one): one for one in found}


def heads(conn: Connection, keys: Iterable[Key]) -> dict[Key, tuple[int, int]]:
    """Return the creation time and the number of entries of each existing session."""
    rows = cast("Iterable[Any]", conn.execute(_HEADS, _columns(KEY_FIELDS, keys)))
    return {(row[0], row[1], row[2]): (row[3], row[4]) for row in rows}


def insert_entries(conn: Connection, entries: Iterable[Entry]) -> None:
    """Insert entries, in order. Their sessions must exist."""
    _INSERT_ENTRIES.execute(conn, entries)


def update_sessions(conn: Connection, sessions: Iterable[Session]) -> None:
    """Update the rows of sessions with these values."""
    _UPDATE_SESSIONS.execute(conn, map(_to_row, sessions))


def delete_sessions(conn: Connection, sessions: Iterable[Session]) -> None:
    """Delete sessions with their entries."""
    _DELETE_SESSIONS.execute(conn, sessions)


def insert_missing(conn: Connection, dialect: Dialect, new: Sequence[Session]) -> set[Key]:
    """Insert sessions that were not found in this transaction. Return the keys of the inserted sessions."""
    rows = list(map(_to_row, new))
    if dialect.alone or len(new) == 1:
        return set(map(key_of, new)) if _inserting(dialect).execute(conn, rows) else set()
    arrived = dialect.insert_ignore(session).returning(session.c.tenant, session.c.owner, session.c.context_id)
    return {(row[0], row[1], row[2]) for row in conn.execute(arrived, [row._asdict() for row in rows])}


def insert_remains(conn: Connection, dialect: Dialect, remains: Iterable[tuple[Session, int]]) -> None:
    """Insert the remains of sessions, in the order of their keys; existing rows stay."""
    rows = [{**dict(zip(KEY_FIELDS, key_of(one), strict=True)), "tasks_until": until} for one, until in remains]
    conn.execute(
        dialect.insert_ignore(session_remains), sorted(rows, key=lambda row: [row[name] for name in KEY_FIELDS])
    )
