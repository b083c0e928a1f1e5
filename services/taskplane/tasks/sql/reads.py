"""Reads of clients. Every read of a caller's tasks goes through `owned`, which puts the scope into its WHERE."""

from collections.abc import Sequence
from typing import Final, TypeVarTuple

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, literal, select, text, tuple_

from taskplane.runtime.errors import NotFound
from taskplane.runtime.validation import invalid
from taskplane.storage.dialects import dialect_of
from taskplane.storage.lists import one_of
from taskplane.tasks.domain.drafts import task_not_found
from taskplane.tasks.domain.kinds import STATUS_TEXT
from taskplane.tasks.domain.task import Event, Row, Scope, content_size
from taskplane.tasks.pages import MAX_EVENTS, MAX_PAGE_SIZE, MOST_COUNTED, EventFilter, TaskFilter, TaskPage
from taskplane.tasks.sql.contents import Content, contents
from taskplane.tasks.sql.pages import TaskPlace, check_page_size, place_of, token_of
from taskplane.tasks.sql.statements import EVENT_COLUMNS, ROW_COLUMNS, to_event, to_row
from taskplane.tasks.sql.texts import has_nul
from taskplane.tasks.store import ArtifactVersion
from taskplane.tasks.tables import STATUS_MESSAGES, STATUS_TEXTS, event, task

Ts = TypeVarTuple("Ts")

# A page of tasks with their content ends early beyond this many stored bytes.
_PAGE_BYTES: Final = 16 * 1024 * 1024


def owned(query: Select[*Ts]) -> Select[*Ts]:
    """Restrict a query on `task` to the tasks of one caller; execute it with the parameters of `owner`."""
    return query.where(task.c.tenant == bindparam("tenant"), task.c.owner == bindparam("owner"))


def owner(scope: Scope) -> dict[str, object]:
    """Return the parameters of `owned`."""
    return {"tenant": scope.tenant, "owner": scope.owner}


_ROW: Final = owned(select(*ROW_COLUMNS)).where(task.c.id == bindparam("id"))


def get_row(conn: Connection, scope: Scope, task_id: str) -> Row:
    """Implement `TaskLog.row`."""
    if has_nul(task_id):
        raise task_not_found(task_id)
    values = conn.execute(_ROW, {**owner(scope), "id": task_id}).one_or_none()
    if values is None:
        raise task_not_found(task_id)
    return to_row(values)


def get_content(conn: Connection, scope: Scope, task_id: str) -> tuple[Row, Content]:
    """Return the row of a task, and its content, not folded yet. Raise NotFound."""
    row = get_row(conn, scope, task_id)
    return row, contents(conn, [row.uid])[row.uid]


_BEGUN: Final = (
    event.c.task_uid == bindparam("uid"),
    event.c.artifact_id == bindparam("artifact_id"),
    event.c.artifact_id.is_not(None),
    event.c.generation > bindparam("after"),
)
_VERSIONS: Final = select(func.count()).where(*_BEGUN)
_BEGINNINGS: Final = (
    select(event.c.generation).where(*_BEGUN).order_by(event.c.generation).offset(bindparam("older")).limit(2)
)


def artifact_version(
    conn: Connection, scope: Scope, task_id: str, artifact_id: str, version: int
) -> tuple[Row, ArtifactVersion | None]:
    """Implement `TaskLog.artifact_version`."""
    row = get_row(conn, scope, task_id)
    versions = 0
    # A version that a lost attempt made does not count.
    begun = {"uid": row.uid, "artifact_id": artifact_id, "after": row.restart_generation}
    if not has_nul(artifact_id):
        versions = conn.execute(_VERSIONS, begun).scalar_one()
    if not versions and version in (0, 1):
        return row, None
    if version > versions:
        raise NotFound(f"the artifact has no version {version}", reason="VERSION_NOT_FOUND")
    number = version or versions
    first, *later = conn.execute(_BEGINNINGS, {**begun, "older": number - 1}).scalars()
    return row, ArtifactVersion(number, versions, first, later[0] - 1 if later else 0)


def list_tasks(conn: Connection, scope: Scope, query: TaskFilter, page_key: bytes) -> TaskPage:
    """Implement `TaskLog.list`."""
    check_page_size(query.page_size, MAX_PAGE_SIZE)
    place = place_of(query.page_token, page_key, scope, query.bound)
    if has_nul(query.context_id, query.agent):
        return TaskPage((), (), "", 0)
    where, parameters = _filters(scope, query)
    total = place.total if place is not None else _count(conn, where, parameters)
    listing = owned(select(*ROW_COLUMNS)).where(*where).limit(bindparam("limit"))
    at = task.c.created_at if query.by_creation else task.c.status_at
    if place is not None:
        here, after = tuple_(at, task.c.id), tuple_(bindparam("after_at"), bindparam("after_id"))
        listing = listing.where(here > after if query.by_creation else here < after)
        parameters |= {"after_at": place.at, "after_id": place.id}
    listing = listing.order_by(at, task.c.id) if query.by_creation else listing.order_by(at.desc(), task.c.id.desc())
    found = conn.execute(listing, {**parameters, "limit": query.page_size + 1})
    rows = [to_row(values) for values in found]
    page = _that_fit(rows[: query.page_size]) if query.content else rows[: query.page_size]
    token = ""
    if len(page) < len(rows):
        last = page[-1]
        at_last = last.created_at if query.by_creation else last.status_at
        token = token_of(TaskPlace(at_last, last.id, total), page_key, scope, query.bound)
    if not query.content:
        return TaskPage(page, (), token, total)
    tasks = contents(conn, [row.uid for row in page])
    return TaskPage(page, [tasks[row.uid].folded() for row in page], token, total)


def _filters(scope: Scope, query: TaskFilter) -> tuple[list[ColumnElement[bool]], dict[str, object]]:
    where: list[ColumnElement[bool]] = []
    parameters = owner(scope)
    for name in ("context_id", "agent", "state"):
        value = getattr(query, name)
        if value:
            where.append(task.c[name] == bindparam(name))
            parameters[name] = value
    if not query.superseded:
        where.append(task.c.superseded.is_(False))
    if query.status_after:
        where.append(task.c.status_at >= bindparam("status_after"))
        parameters["status_after"] = query.status_after
    return where, parameters


def _count(conn: Connection, where: Sequence[ColumnElement[bool]], parameters: dict[str, object]) -> int:
    found = owned(select(literal(1)).select_from(task)).where(*where).limit(MOST_COUNTED).subquery()
    total: int = conn.execute(select(func.count()).select_from(found), parameters).scalar_one()
    return total


def _that_fit(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the first rows that have at most `_PAGE_BYTES` together, but at least one."""
    size = 0
    for count, row in enumerate(rows):
        size += content_size(row)
        if size > _PAGE_BYTES and count:
            return rows[:count]
    return rows


def list_events(conn: Connection, scope: Scope, task_id: str, query: EventFilter) -> tuple[Row, Sequence[Event]]:
    """Implement `TaskLog.events`."""
    if not 1 <= query.limit <= MAX_EVENTS:
        raise invalid({"limit": f"must be 1 to {MAX_EVENTS:,}"})
    row = get_row(conn, scope, task_id)
    listing = select(*EVENT_COLUMNS).where(
        event.c.task_uid == bindparam("uid"), event.c.generation > bindparam("after")
    )
    parameters: dict[str, object] = {"uid": row.uid, "after": query.after_generation, "limit": query.limit}
    if list(query.kinds) == [STATUS_TEXT]:
        listing = listing.where(text(STATUS_TEXTS))
    elif query.kinds:
        listing = listing.where(one_of(event.c.kind, "kinds"))
        parameters["kinds"] = query.kinds
    if query.status_messages:
        listing = listing.where(text(STATUS_MESSAGES[dialect_of(conn).name]))
    if query.speaking:
        listing = listing.where(event.c.speaks)
    order = event.c.generation.desc() if query.newest_first else event.c.generation
    found = conn.execute(listing.order_by(order).limit(bindparam("limit")), parameters)
    return row, [to_event(values) for values in found]
