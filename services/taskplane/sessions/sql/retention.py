"""What retention looks for, and what is left of an owner when all sessions are gone."""

from typing import Final

from sqlalchemy import Connection, bindparam, delete, select, tuple_

from taskplane.sessions.domain.session import Scope
from taskplane.sessions.store import ExpiredSession
from taskplane.sessions.tables import session, user_state

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
_DELETE_STATE: Final = delete(user_state).where(
    user_state.c.owner == bindparam("of_owner"), user_state.c.tenant == bindparam("of_tenant")
)


def list_expired(conn: Connection, before: int, after: ExpiredSession | None, limit: int) -> list[ExpiredSession]:
    """See `SessionLog.expired`. `before`: of sessions unchanged since then, in microseconds since 1970."""
    place = after or ExpiredSession("", "", "", 0, 0)
    parameters = {f"after_{column.name}": getattr(place, column.name) for column in _KEY}
    rows = conn.execute(_EXPIRED, {**parameters, "before": before, "count": limit})
    return [ExpiredSession._make(row) for row in rows]


def delete_user_state(conn: Connection, scope: Scope) -> int:
    """See `SessionLog.delete_user_state`."""
    return conn.execute(_DELETE_STATE, {"of_owner": scope.owner, "of_tenant": scope.tenant}).rowcount
