"""Every statement, built once, so that SQLAlchemy compiles each once and its cache always hits.

Rows of the tables become the domain's nouns by position: the columns of a table are the fields of its noun, in order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import Connection, Select, bindparam, delete, func, insert, select, tuple_, update

from taskplane.sessions.domain.session import Entry, Session
from taskplane.sessions.sql.guards import FIXED
from taskplane.sessions.tables import entry, session
from taskplane.storage.dialects import Dialect

SESSION_FIELDS: Final = tuple(field.name for field in fields(Session))
ENTRY_FIELDS: Final = tuple(field.name for field in fields(Entry))
# No entries are 0 there and null here, where the number refers to the newest entry.
SESSION_COLUMNS: Final = tuple(
    func.coalesce(session.c.seq, 0).label("seq") if name == "seq" else session.c[name] for name in SESSION_FIELDS
)
KEY_FIELDS: Final = ("tenant", "owner", "context_id")
CHANGING: Final = tuple(name for name in SESSION_FIELDS if name not in FIXED)

_session_values: Final[Callable[[Session], tuple[Any, ...]]] = attrgetter(*SESSION_FIELDS)
_changing_values: Final[Callable[[Session], tuple[Any, ...]]] = attrgetter(*KEY_FIELDS, *CHANGING)
_key_values: Final[Callable[[Session], tuple[str, str, str]]] = attrgetter(*KEY_FIELDS)
_entry_values: Final[Callable[[Entry], tuple[Any, ...]]] = attrgetter(*ENTRY_FIELDS)
_KEY_PARAMETERS: Final = ("of_tenant", "of_owner", "of_context_id")
_CHANGING_PARAMETERS: Final = (*_KEY_PARAMETERS, *CHANGING)


def to_session(values: Sequence[Any]) -> Session:
    """A row of `SESSION_COLUMNS`."""
    return Session(*values)


def to_entry(values: Sequence[Any]) -> Entry:
    """A row of all columns of `entry`."""
    return Entry(*values)


def session_parameters(one: Session) -> dict[str, Any]:
    """For `INSERT_SESSION`."""
    values = dict(zip(SESSION_FIELDS, _session_values(one), strict=True))
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
    return dict(zip(ENTRY_FIELDS, _entry_values(one), strict=True))


def padded(keys: Iterable[Any]) -> list[Any]:
    """The keys, sorted, the last one repeated up to the next power of two, so that a statement has few texts."""
    result = sorted(keys)
    size = 1 << (len(result) - 1).bit_length() if result else 0
    return result + result[-1:] * (size - len(result))


def execute_many(conn: Connection, statement: Any, parameters: Sequence[Mapping[str, Any]]) -> None:
    """One statement for all the rows; nothing is said and nothing is sent where there are none."""
    if parameters:
        conn.execute(statement, parameters)


_of_key: Final = (
    session.c.tenant == bindparam("of_tenant"),
    session.c.owner == bindparam("of_owner"),
    session.c.context_id == bindparam("of_context_id"),
)
INSERT_SESSION: Final = insert(session)
UPDATE_SESSION: Final = update(session).where(*_of_key).values({name: bindparam(name) for name in CHANGING})
# Its entries go with it.
DELETE_SESSION: Final = delete(session).where(*_of_key)
INSERT_ENTRY: Final = insert(entry)

# Which of these ids the owners have stored, without the payload.
STORED_ENTRIES: Final[Select[Any]] = select(
    *(entry.c[name] for name in ENTRY_FIELDS if name != "payload"),
).where(tuple_(entry.c.tenant, entry.c.owner, entry.c.id).in_(bindparam("ids", expanding=True)))


def to_stored(values: Sequence[Any]) -> Entry:
    """A row of `STORED_ENTRIES`."""
    return Entry(*values[:_PAYLOAD], None, *values[_PAYLOAD:])


_PAYLOAD: Final = ENTRY_FIELDS.index("payload")


def locked_sessions(dialect: Dialect) -> Select[Any]:
    """The sessions of these keys, locked in their order, so that no two processes wait for one another."""
    keys = tuple_(*(session.c[name] for name in KEY_FIELDS))
    query = select(*SESSION_COLUMNS).where(keys.in_(bindparam("keys", expanding=True)))
    return dialect.lock(query.order_by(*(session.c[name] for name in KEY_FIELDS)))
