"""Changes of the state by events: of their session a row per event, of an owner and of an agent a row per key."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from google.protobuf.struct_pb2 import Struct
from sqlalchemy import Column, ColumnElement, Connection, Table, Text, bindparam, delete, insert, select, update

from taskplane.runtime.errors import Exhausted
from taskplane.sessions.domain.commands import Write
from taskplane.sessions.domain.history import events_in_effect
from taskplane.sessions.domain.session import Scope, Session
from taskplane.sessions.domain.state import APP, USER, Change, fold
from taskplane.sessions.sql.loading import get_session, key_of, read_lines
from taskplane.sessions.sql.statements import key_of as key_of_session
from taskplane.sessions.store import REPLY_BYTES
from taskplane.sessions.tables import app_state, event_delta, user_state
from taskplane.storage.dialects import Dialect

# Number of events with changes in memory at once.
PAGE: Final = 200

_CHANGES: Final = (
    select(event_delta.c.place, event_delta.c.seq, event_delta.c.own)
    .where(
        event_delta.c.tenant == bindparam("of_tenant"),
        event_delta.c.owner == bindparam("of_owner"),
        event_delta.c.context_id == bindparam("of_context_id"),
        event_delta.c.place > bindparam("after"),
    )
    .order_by(event_delta.c.place)
    .limit(PAGE)
)
_OF_USER: Final = select(user_state.c.key, user_state.c.value).where(
    user_state.c.tenant == bindparam("tenant"),
    user_state.c.owner == bindparam("owner"),
    user_state.c.agent == bindparam("agent"),
)
_OF_APP: Final = select(app_state.c.key, app_state.c.value).where(
    app_state.c.tenant == bindparam("tenant"), app_state.c.agent == bindparam("agent")
)


def changes(conn: Connection, of: Session) -> Iterable[Change]:
    """Yield the changes of a session's state by its events, in the order in which they were written, page by page."""
    after = 0
    while True:
        rows = conn.execute(_CHANGES, {**key_of(of), "after": after}).all()
        for row in rows:
            yield row.seq, row.own
        if len(rows) < PAGE:
            return
        after = rows[-1].place


def read_state(conn: Connection, scope: Scope, context_id: str) -> tuple[Session, Struct]:
    """Implement `SessionLog.state`."""
    of = get_session(conn, scope, context_id)
    state = Struct()
    for key, value in fold(changes(conn, of), events_in_effect(read_lines(conn, of))).values.items():
        state.fields[key].CopyFrom(value)
    whose = {"tenant": of.tenant, "owner": of.owner, "agent": of.agent}
    for prefix, query in ((USER, _OF_USER), (APP, _OF_APP)):
        for row in conn.execute(query, whose):
            state.fields[prefix + row.key].MergeFromString(row.value)
    if state.ByteSize() > REPLY_BYTES:
        raise Exhausted(f"the state of session {context_id} does not fit in one reply", reason="STATE_TOO_LARGE")
    return of, state


def write(conn: Connection, writes: Sequence[Write], dialect: Dialect) -> None:
    """Store the changes of the state by the events among `writes`, in their order."""
    rows: list[dict[str, Any]] = []
    of_users: dict[tuple[str, ...], bytes | None] = {}
    of_apps: dict[tuple[str, ...], bytes | None] = {}
    for one in writes:
        tenant, owner, context_id = key_of_session(one.session)
        agent = one.session.agent
        for seq, delta in one.deltas:
            if delta.own:
                key = {"tenant": tenant, "owner": owner, "context_id": context_id}
                rows.append({**key, "place": seq, "seq": seq, "own": delta.own})
            of_users.update({(owner, agent, tenant, name): value for name, value in delta.user.items()})
            of_apps.update({(agent, tenant, name): value for name, value in delta.app.items()})
    if rows:
        conn.execute(insert(event_delta), rows)
    _set(conn, user_state, of_users, dialect)
    _set(conn, app_state, of_apps, dialect)


def _set(conn: Connection, table: Table, values: Mapping[tuple[str, ...], bytes | None], dialect: Dialect) -> None:
    """Set the values of rows by their primary key; None removes a row."""
    if not values:
        return
    columns = list(table.primary_key)
    # In the order of the keys, so that two processes cannot deadlock.
    kept = [(key, value) for key, value in sorted(values.items()) if value is not None]
    gone = [key for key, value in sorted(values.items()) if value is None]
    if kept:
        rows = [_named(columns, key) | {"value": value} for key, value in kept]
        conn.execute(dialect.insert_ignore(table), rows)
        change = update(table).where(*_matches(columns)).values(value=bindparam("new_value"))
        conn.execute(change, [_named(columns, key, "of_") | {"new_value": value} for key, value in kept])
    if gone:
        conn.execute(delete(table).where(*_matches(columns)), [_named(columns, key, "of_") for key in gone])


def _named(columns: Sequence[Column[Any]], key: Sequence[str], prefix: str = "") -> dict[str, Any]:
    return {prefix + column.name: part for column, part in zip(columns, key, strict=True)}


def _matches(columns: Sequence[Column[Any]]) -> list[ColumnElement[bool]]:
    return [column == bindparam(f"of_{column.name}", type_=Text) for column in columns]
