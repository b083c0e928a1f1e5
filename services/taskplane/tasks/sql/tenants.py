"""Tasks of all owners of one tenant, for its operators: one task, or a list along an index of state and time."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    LargeBinary,
    Select,
    Subquery,
    bindparam,
    case,
    func,
    literal_column,
    select,
    text,
    tuple_,
    union_all,
)

from taskplane.tasks.domain.asked import BEGINNING, MOST_READ, asked_of
from taskplane.tasks.domain.drafts import task_not_found
from taskplane.tasks.domain.infos import NO_FAILURE, Brief
from taskplane.tasks.domain.kinds import CREATED
from taskplane.tasks.domain.task import MANAGED, Row, Scope
from taskplane.tasks.pages import MAX_TENANT_TASKS, TenantFilter, TenantPage, TenantTask
from taskplane.tasks.sql.infos import failures_of
from taskplane.tasks.sql.pages import TaskPlace, check_page_size, place_of, token_of
from taskplane.tasks.sql.statements import IN_UIDS, ROW_COLUMNS, to_row
from taskplane.tasks.sql.texts import has_nul
from taskplane.tasks.tables import OF_ANY_OWNER, event, lease, task

MOST_LOOKED_AT: Final = 10_000
"""The maximum number of tasks that are read for one page if no index fits the filter."""

# That of a document is in its content, like its error.
_created: Final = (event.c.task_uid == task.c.uid) & (event.c.generation == 1) & (event.c.kind == CREATED)
_beginning: Final = case(
    (func.length(event.c.payload) <= MOST_READ, func.substr(event.c.payload, 1, BEGINNING, type_=LargeBinary)),
    else_=b"",
)
_leased: Final = select(*ROW_COLUMNS, lease.c.lease_until, _beginning).select_from(
    task.outerjoin(lease, lease.c.task_uid == task.c.uid).outerjoin(event, _created)
)
_ROWS: Final = _leased.where(IN_UIDS)
_ONE: Final = _leased.where(task.c.tenant == bindparam("tenant"), task.c.id == bindparam("id"))
_NEWEST_FIRST: Final = (task.c.status_at.desc(), task.c.id.desc())
_KEY: Final = (task.c.uid, task.c.status_at, task.c.id, task.c.agent)
_before: Final = tuple_(task.c.status_at, task.c.id) < tuple_(
    bindparam("before_at", type_=BigInteger), bindparam("before_id")
)
# Later than any time, and so before every task.
_NOW: Final = TaskPlace((1 << 63) - 1, "", 0)


def get_tenant_task(conn: Connection, tenant: str, task_id: str) -> TenantTask:
    """Implement `TaskLog.tenant_task`."""
    found = None if has_nul(task_id) else conn.execute(_ONE, {"tenant": tenant, "id": task_id}).one_or_none()
    if found is None:
        raise task_not_found(task_id)
    return _tasks(conn, [found])[0]


def list_tenant_tasks(conn: Connection, scope: Scope, query: TenantFilter, page_key: bytes) -> TenantPage:
    """Implement `TaskLog.tenant_tasks`. The number of statements does not depend on that of tasks."""
    check_page_size(query.page_size, MAX_TENANT_TASKS)
    place = place_of(query.page_token, page_key, scope, query.bound) or _NOW
    if has_nul(query.agent, query.owner, query.executor):
        return TenantPage((), "")
    parameters: dict[str, object] = {
        "tenant": scope.tenant,
        "owner": query.owner,
        "agent": query.agent,
        "executor": query.executor,
        "before_at": place.at,
        "before_id": place.id,
        "limit": query.page_size + 1,
    }
    seen = _held(query) if query.executor else _newest(query)
    keys = conn.execute(_page(seen, query), parameters).all()
    shown, last = keys[: query.page_size], None
    if len(keys) > len(shown):
        last = shown[-1]
    elif query.agent and not query.executor:
        last = conn.execute(_end(seen), parameters).one_or_none()
    token = "" if last is None else token_of(TaskPlace(last.status_at, last.id, 0), page_key, scope, query.bound)
    found = {row.uid: row for row in conn.execute(_ROWS, {"uids": [key.uid for key in shown]})} if shown else {}
    return TenantPage(_tasks(conn, [found[key.uid] for key in shown]), token)


def _newest(query: TenantFilter) -> Subquery:
    """Return the keys of the tasks that changed last, of each state along an index of its own."""
    looked_at: ColumnElement[int] = bindparam("limit", type_=Integer)
    if query.agent:
        looked_at = literal_column(str(MOST_LOOKED_AT), Integer)
    of = [task.c.owner == bindparam("owner")] if query.owner else [text(OF_ANY_OWNER)]
    branches = [
        select(*_KEY)
        .where(
            task.c.tenant == bindparam("tenant"),
            task.c.state == literal_column(str(state), Integer),
            *of,
            _before,
        )
        .order_by(*_NEWEST_FIRST)
        .limit(looked_at)
        .subquery()
        for state in query.states
    ]
    together = union_all(*(select(*branch.c) for branch in branches)).subquery()
    return _ordered(select(*together.c), together).limit(looked_at).subquery()


def _held(query: TenantFilter) -> Subquery:
    """Return the keys of the tasks that a process holds the leases of."""
    # No index knows these expressions: the leases are to be looked up, not the tasks of the tenant.
    names = ("tenant", "owner") if query.owner else ("tenant",)
    return (
        select(*_KEY)
        .select_from(lease.join(task, task.c.uid == lease.c.task_uid))
        .where(
            lease.c.owner == bindparam("executor"),
            task.c.state.in_([literal_column(str(state), Integer) for state in query.states]),
            *(func.coalesce(task.c[name], "") == bindparam(name) for name in names),
            _before,
        )
        .subquery()
    )


def _page(seen: Subquery, query: TenantFilter) -> "Select[*tuple[Any, ...]]":
    found = select(*seen.c)
    if query.agent:
        found = found.where(seen.c.agent == bindparam("agent"))
    return _ordered(found, seen).limit(bindparam("limit"))


def _end(seen: Subquery) -> "Select[*tuple[Any, ...]]":
    """Return the query for the last of the tasks that were looked at, if there may be more."""
    return _ordered(select(seen.c.status_at, seen.c.id), seen).offset(MOST_LOOKED_AT - 1).limit(1)


def _ordered(query: "Select[*tuple[Any, ...]]", keys: Subquery) -> "Select[*tuple[Any, ...]]":
    return query.order_by(keys.c.status_at.desc(), keys.c.id.desc())


def _tasks(conn: Connection, found: Sequence[Any]) -> list[TenantTask]:
    rows = [to_row(values[:-2]) for values in found]
    # That of a document is in its content, which may be large, and is not read for a list.
    failures = failures_of(conn, [_brief(row) for row in rows if row.origin == MANAGED])
    return [
        TenantTask(row, lease_until, failures.get(row.uid, NO_FAILURE), asked_of(beginning or b""))
        for row, (*_, lease_until, beginning) in zip(rows, found, strict=True)
    ]


def _brief(row: Row) -> Brief:
    return Brief._make([getattr(row, name) for name in Brief._fields])
