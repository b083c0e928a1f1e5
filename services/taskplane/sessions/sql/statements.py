"""Every statement of the write path, built once, so that SQLAlchemy compiles each once and its cache always hits.

Rows of the tables become the domain's nouns by position: the columns of a table are the fields of its noun, in order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import (
    CTE,
    ColumnElement,
    Connection,
    Select,
    Text,
    and_,
    bindparam,
    column,
    delete,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.sql.dml import ReturningInsert

from taskplane.sessions.domain.session import Entry, Session
from taskplane.sessions.sql.guards import FIXED
from taskplane.sessions.tables import entry, session
from taskplane.storage.dialects import Dialect

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
_changing_values: Final[Callable[[Session], tuple[Any, ...]]] = attrgetter(*KEY_FIELDS, *CHANGING)
_key_values: Final[Callable[[Session], Key]] = attrgetter(*KEY_FIELDS)
_KEY_PARAMETERS: Final = ("of_tenant", "of_owner", "of_context_id")
_CHANGING_PARAMETERS: Final = (*_KEY_PARAMETERS, *CHANGING)


def to_session(values: Sequence[Any]) -> Session:
    """A row of `SESSION_COLUMNS`."""
    return Session._make(values)


def to_entry(values: Sequence[Any]) -> Entry:
    """A row of all columns of `entry`."""
    return Entry._make(values)


def to_stored(values: Sequence[Any]) -> Entry:
    """A row of `stored_entries`: the payload was not read."""
    return to_entry((*values[:_PAYLOAD], None, *values[_PAYLOAD:]))


def session_parameters(one: Session) -> dict[str, Any]:
    """For `insert_sessions`."""
    values = one._asdict()
    values["seq"] = one.seq or None
    return values


def changed_parameters(one: Session) -> dict[str, Any]:
    """For `UPDATE_SESSION`."""
    values = dict(zip(_CHANGING_PARAMETERS, _changing_values(one), strict=True))
    values["seq"] = one.seq or None
    return values


def key_parameters(one: Session) -> dict[str, Any]:
    """For `DELETE_SESSION`."""
    return dict(zip(_KEY_PARAMETERS, _key_values(one), strict=True))


def entry_parameters(one: Entry) -> dict[str, Any]:
    """For `INSERT_ENTRY`."""
    return one._asdict()


def execute_many(conn: Connection, statement: Any, parameters: Sequence[Mapping[str, Any]]) -> None:
    """One statement for all the rows; nothing is said and nothing is sent where there are none."""
    if parameters:
        conn.execute(statement, parameters)


SESSION_OF_KEY: Final = (
    session.c.tenant == bindparam("of_tenant"),
    session.c.owner == bindparam("of_owner"),
    session.c.context_id == bindparam("of_context_id"),
)
UPDATE_SESSION: Final = update(session).where(*SESSION_OF_KEY).values({name: bindparam(name) for name in CHANGING})
# Its entries go with it.
DELETE_SESSION: Final = delete(session).where(*SESSION_OF_KEY)
INSERT_ENTRY: Final = insert(entry)


def find_stored(conn: Connection, ids: Iterable[Key]) -> list[Entry]:
    """Those of the ids that are stored, without their payload. As a rule there are none, and then it is one lookup."""
    wanted = padded(ids)
    if wanted:
        known = padded(map(tuple[str, str, str], conn.execute(known_ids(len(wanted)), _parameters(wanted))))
        if known:
            return list(map(to_stored, conn.execute(stored_entries(len(known)), _parameters(known))))
    return []


def find_locked(conn: Connection, dialect: Dialect, keys: Iterable[Key]) -> list[Session]:
    """Those of the sessions that exist, locked."""
    wanted = padded(keys)
    return list(map(to_session, conn.execute(locked_sessions(dialect, len(wanted)), _parameters(wanted))))


def padded(keys: Iterable[Any]) -> list[Any]:
    """The keys, sorted, the last one repeated up to the next power of two, so that a statement has few texts."""
    result = sorted(keys)
    size = 1 << (len(result) - 1).bit_length() if result else 0
    return result + result[-1:] * (size - len(result))


@cache
def insert_sessions(dialect: Dialect) -> ReturningInsert[Any, Any, Any]:
    """Inserts sessions, leaves out those that are there, and gives the keys of those that went in."""
    return dialect.insert_ignore(session).returning(session.c.tenant, session.c.owner, session.c.context_id)


@cache
def known_ids(count: int) -> Select[Any]:
    """Which of `count` entry ids are stored.

    A subquery per id, not a join: PostgreSQL would read the whole table for a join as long as it takes it for small,
    and keep to that plan while the table grows.
    """
    wanted = _wanted(count)
    seq = select(entry.c.seq).where(_matches(wanted, entry.c.tenant, entry.c.owner, entry.c.id)).correlate(wanted)
    return select(*wanted.c).where(seq.scalar_subquery().is_not(None))


@cache
def stored_entries(count: int) -> Select[Any]:
    """Entries by `count` ids."""
    wanted = _wanted(count)
    matches = _matches(wanted, entry.c.tenant, entry.c.owner, entry.c.id)
    return select(*(entry.c[name] for name in ENTRY_FIELDS if name != "payload")).select_from(
        wanted.join(entry, matches)
    )


@cache
def locked_sessions(dialect: Dialect, count: int) -> Select[Any]:
    """Sessions by `count` keys, locked in their order, so that no two processes wait for one another."""
    wanted = _wanted(count)
    key = [session.c[name] for name in KEY_FIELDS]
    return dialect.lock(
        select(*SESSION_COLUMNS).select_from(wanted.join(session, _matches(wanted, *key))).order_by(*key)
    )


def _wanted(count: int) -> CTE:
    """A table of `count` keys to join with. (Given a list of row values, SQLite reads the whole table instead.)"""
    rows = ", ".join(f"(:a{index}, :b{index}, :c{index})" for index in range(count))
    names = [f"{letter}{index}" for index in range(count) for letter in "abc"]
    values = text(f"VALUES {rows}").bindparams(*(bindparam(name, type_=Text) for name in names))
    # Both engines call them so.
    return values.columns(*(column(f"column{place}", Text) for place in (1, 2, 3))).cte("wanted")


def _matches(wanted: CTE, *key: ColumnElement[Any]) -> ColumnElement[bool]:
    return and_(*(mine == theirs for mine, theirs in zip(key, wanted.c, strict=True)))


def _parameters(keys: Sequence[Key]) -> dict[str, str]:
    return {
        name: value
        for index, (a, b, c) in enumerate(keys)
        for name, value in ((f"a{index}", a), (f"b{index}", b), (f"c{index}", c))
    }
