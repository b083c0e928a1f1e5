"""Every statement of the write path.

Rows of the tables become the domain's nouns by position: the columns of a table are the fields of its noun, in order.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Text,
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
from taskplane.storage.prepared import KeyQuery, Many, key_table

# (tenant, owner, context id), or (tenant, owner, entry id).
Key = tuple[str, str, str]

SESSION_FIELDS: Final = Session._fields
ENTRY_FIELDS: Final = Entry._fields
# No entries are 0 there and null here, where the number refers to the newest entry.
SESSION_COLUMNS: Final = tuple(
    func.coalesce(session.c.seq, 0).label("seq") if name == "seq" else session.c[name] for name in SESSION_FIELDS
)
KEY_FIELDS: Final = ("tenant", "owner", "context_id")
CHANGING: Final = tuple(name for name in SESSION_FIELDS if name not in FIXED)

_PAYLOAD: Final = ENTRY_FIELDS.index("payload")
_SEQ: Final = SESSION_FIELDS.index("seq")
key_of: Final[Callable[[Session], Key]] = attrgetter(*KEY_FIELDS)


def to_session(values: Sequence[Any]) -> Session:
    """A row of `SESSION_COLUMNS`."""
    return Session._make(values)


def to_entry(values: Sequence[Any]) -> Entry:
    """A row of all columns of `entry`."""
    return Entry._make(values)


def to_stored(values: Sequence[Any]) -> Entry:
    """A row of `_stored_entries`: the payload was not read."""
    return to_entry((*values[:_PAYLOAD], None, *values[_PAYLOAD:]))


def to_row(one: Session) -> tuple[Any, ...]:
    """For the statements that write sessions."""
    return one if one.seq else (*one[:_SEQ], None, *one[_SEQ + 1 :])


SESSION_OF_KEY: Final = (
    session.c.tenant == bindparam("of_tenant"),
    session.c.owner == bindparam("of_owner"),
    session.c.context_id == bindparam("of_context_id"),
)
_ONE_KEY: Final[Sequence[ColumnElement[Any]]] = [bindparam(f"{letter}0", type_=Text) for letter in "abc"]
_PLACES: Final = {name: place for place, name in enumerate(SESSION_FIELDS)}
_KEY_PLACES: Final = {f"of_{name}": _PLACES[name] for name in KEY_FIELDS}

UPDATE_SESSIONS: Final = Many(
    update(session).where(*SESSION_OF_KEY).values({name: bindparam(name) for name in CHANGING}),
    {**_PLACES, **_KEY_PLACES},
)
# Their entries go with them.
DELETE_SESSIONS: Final = Many(delete(session).where(*SESSION_OF_KEY), _KEY_PLACES)
INSERT_ENTRIES: Final = Many(insert(entry), {name: place for place, name in enumerate(ENTRY_FIELDS)})


def find_stored(conn: Connection, ids: Iterable[Key]) -> list[Entry]:
    """Those of the ids that are stored, without their payload. As a rule there are none, and then it is one lookup."""
    known = _KNOWN_IDS.all(conn, ids)
    if not known:
        return []
    return list(map(to_stored, _STORED_ENTRIES.all(conn, [(tenant, owner, key) for tenant, owner, key in known])))


def find_locked(conn: Connection, dialect: Dialect, keys: Iterable[Key]) -> list[Session]:
    """Those of the sessions that exist, locked."""
    return list(map(to_session, _locking(dialect).all(conn, keys)))


def insert_missing(conn: Connection, dialect: Dialect, new: Sequence[Session]) -> set[Key]:
    """Inserts sessions that `find_locked` did not find in this transaction; the keys of those that went in."""
    if dialect.alone or len(new) == 1:
        return set(map(key_of, new)) if _inserting(dialect).execute(conn, map(to_row, new)) else set()
    values = [dict(zip(SESSION_FIELDS, to_row(one), strict=True)) for one in new]
    arrived = dialect.insert_ignore(session).returning(session.c.tenant, session.c.owner, session.c.context_id)
    return set(map(tuple[str, str, str], conn.execute(arrived, values)))


def _known_ids(count: int) -> Select[Any]:
    """Which of `count` entry ids are stored.

    A subquery per id, not a join: PostgreSQL would read the whole table for a join as long as it takes it for small,
    and keep to that plan while the table grows.
    """
    wanted = key_table(count, "abc")
    seq = select(entry.c.seq).where(_matches(wanted.c, entry.c.tenant, entry.c.owner, entry.c.id)).correlate(wanted)
    return select(*wanted.c).where(seq.scalar_subquery().is_not(None))


def _stored_entries(count: int) -> Select[Any]:
    """Entries by `count` ids."""
    wanted = key_table(count, "abc")
    matches = _matches(wanted.c, entry.c.tenant, entry.c.owner, entry.c.id)
    return select(*(entry.c[name] for name in ENTRY_FIELDS if name != "payload")).select_from(
        wanted.join(entry, matches)
    )


def _locked_sessions(dialect: Dialect, count: int) -> Select[Any]:
    """Sessions by `count` keys, locked in their order, so that no two processes wait for one another."""
    key = [session.c[name] for name in KEY_FIELDS]
    query = select(*SESSION_COLUMNS)
    if count == 1:
        # Without a table of keys, which costs SQLite more than the lookup.
        return dialect.lock(query.where(_matches(_ONE_KEY, *key)))
    wanted = key_table(count, "abc")
    query = query.select_from(wanted.join(session, _matches(wanted.c, *key)))
    return dialect.lock(query if dialect.alone else query.order_by(*key))


def _heads(count: int) -> Select[Any]:
    """When each of `count` sessions was created, and how many entries it has."""
    wanted = key_table(count, "abc")
    key = [session.c[name] for name in KEY_FIELDS]
    return select(*key, session.c.created_at, func.coalesce(session.c.seq, 0)).select_from(
        wanted.join(session, _matches(wanted.c, *key))
    )


def _matches(wanted: Iterable[ColumnElement[Any]], *key: ColumnElement[Any]) -> ColumnElement[bool]:
    return and_(*(mine == theirs for mine, theirs in zip(key, wanted, strict=True)))


@cache
def _locking(dialect: Dialect) -> KeyQuery:
    return KeyQuery(partial(_locked_sessions, dialect), "abc")


@cache
def insert_remains(dialect: Dialect) -> Many:
    """Rows of a key and a time. One that is there stays."""
    places = {name: place for place, name in enumerate((*KEY_FIELDS, "tasks_until"))}
    return Many(dialect.insert_ignore(session_remains), places)


@cache
def _inserting(dialect: Dialect) -> Many:
    return Many(dialect.insert_ignore(session), _PLACES)


_KNOWN_IDS: Final = KeyQuery(_known_ids, "abc")
_STORED_ENTRIES: Final = KeyQuery(_stored_entries, "abc")
HEADS: Final = KeyQuery(_heads, "abc")
