"""Reads and deletions of retention: expired sessions, tasks of deleted sessions, and the state of an erased owner."""

from typing import Final

from sqlalchemy import Connection, Delete, Table, bindparam, delete, select, tuple_

from taskplane.sessions.domain.session import Scope
from taskplane.sessions.store import ExpiredSession, Remains
from taskplane.sessions.tables import session, session_remains, user_state

_KEY: Final = (session.c.created_at, session.c.context_id, session.c.owner, session.c.tenant)
_after: Final = tuple_(*(bindparam(f"after_{column.name}", type_=column.type) for column in _KEY))
_EXPIRED: Final = (
    select(*(session.c[name] for name in ExpiredSession._fields))
    .where(
        session.c.created_at < bindparam("before"),
        session.c.updated_at < bindparam("before"),
        tuple_(*_KEY) > _after,
    )
    .order_by(*_KEY)
    .limit(bindparam("count"))
)
_REMAINS: Final = select(*(session_remains.c[name] for name in Remains._fields)).limit(bindparam("count"))


def _delete_all(table: Table) -> Delete:
    return delete(table).where(table.c.owner == bindparam("of_owner"), table.c.tenant == bindparam("of_tenant"))


_DELETE_STATE: Final = _delete_all(user_state)
_DELETE_REMAINS: Final = _delete_all(session_remains)
_DROP_REMAINS: Final = _DELETE_REMAINS.where(
    session_remains.c.context_id == bindparam("of_context_id"),
    session_remains.c.tasks_until <= bindparam("until"),
)


def list_expired(conn: Connection, before: int, after: ExpiredSession | None, limit: int) -> list[ExpiredSession]:
    """Implement `SessionLog.expired`. `before`: sessions unchanged since then, in microseconds since 1970."""
    place = after or ExpiredSession("", "", "", 0, 0)
    parameters = {f"after_{column.name}": getattr(place, column.name) for column in _KEY}
    rows = conn.execute(_EXPIRED, {**parameters, "before": before, "count": limit})
    return [ExpiredSession._make(row) for row in rows]


def list_remains(conn: Connection, limit: int) -> list[Remains]:
    """Implement `SessionLog.remains`."""
    return [Remains._make(row) for row in conn.execute(_REMAINS, {"count": limit})]


def drop_remains(conn: Connection, scope: Scope, context_id: str, until: int) -> None:
    """Implement `SessionLog.drop_remains`."""
    conn.execute(_DROP_REMAINS, {**_owner(scope), "of_context_id": context_id, "until": until})


def delete_user_state(conn: Connection, scope: Scope) -> int:
    """Implement `SessionLog.delete_user_state`."""
    conn.execute(_DELETE_REMAINS, _owner(scope))
    return conn.execute(_DELETE_STATE, _owner(scope)).rowcount


def _owner(scope: Scope) -> dict[str, str]:
    return {"of_owner": scope.owner, "of_tenant": scope.tenant}
