"""What sessions show of their tasks. The number of statements does not depend on the number of tasks."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, Connection, Select, bindparam, case, cast, func, select, text, tuple_

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.errors import Invalid
from taskplane.storage.prepared import KeyQuery, Query, key_table, padded
from taskplane.tasks.domain.figures import Summary
from taskplane.tasks.domain.infos import Brief, Change, Info, changes_of, text_of
from taskplane.tasks.domain.task import DOCUMENT, FAILED, REJECTED, TERMINAL, Scope
from taskplane.tasks.sql.contents import contents
from taskplane.tasks.sql.pages import Place, place_of, token_of
from taskplane.tasks.sql.reads import owned, owner
from taskplane.tasks.sql.sessions import AT_ONCE
from taskplane.tasks.sql.statements import UIDS
from taskplane.tasks.sql.texts import has_nul
from taskplane.tasks.store import MAX_INFOS, InfoFilter, InfoPage, Session
from taskplane.tasks.tables import STATE_CHANGES, among, event, task

_BRIEF: Final = tuple(task.c[name] for name in Brief._fields)
_BY_CREATION: Final = (task.c.created_at, task.c.id)
_OF_SESSION: Final = owned(select(*_BRIEF)).where(task.c.context_id == bindparam("context_id"))
_OF_TASKS: Final = Query(select(*_BRIEF).where(task.c.uid.in_(UIDS)), "uids")
_CHANGES: Final = Query(
    select(event.c.task_uid, event.c.changed_to, event.c.created_at, event.c.generation).where(
        event.c.task_uid.in_(UIDS), text(STATE_CHANGES)
    ),
    "uids",
)
_ENDS: Final = Query(
    select(task.c.uid, event.c.payload)
    .join(event, (event.c.task_uid == task.c.uid) & (event.c.generation == task.c.terminal_generation))
    .where(task.c.uid.in_(UIDS)),
    "uids",
)
_SUMS: Final = (
    owned(select(task.c.context_id, task.c.state, func.count(), func.max(task.c.updated_at)))
    .where(task.c.context_id.in_(bindparam("contexts", expanding=True)), task.c.superseded.is_(False))
    .group_by(task.c.context_id, task.c.state)
)


def list_infos(conn: Connection, scope: Scope, query: InfoFilter, page_key: bytes) -> InfoPage:
    """Implement `TaskLog.infos`."""
    if not 1 <= query.page_size <= MAX_INFOS:
        raise Invalid(
            f"a page has 1 to {MAX_INFOS} tasks",
            reason="BAD_PAGE_SIZE",
            fields={"page_size": f"must be between 1 and {MAX_INFOS}"},
        )
    place = place_of(query.page_token, page_key, scope, query.bound) if query.page_token else None
    if has_nul(query.context_id):
        return InfoPage((), "")
    listing = _OF_SESSION.limit(bindparam("limit"))
    parameters = {**owner(scope), "context_id": query.context_id, "limit": query.page_size + 1}
    if not query.superseded or query.latest_incomplete:
        listing = listing.where(task.c.superseded.is_(False))
    if query.latest_incomplete:
        parameters["limit"] = 1
        listing = listing.where(text(f"NOT {among('state', TERMINAL)}"))
    newest_first = query.newest_first or query.latest_incomplete
    listing = listing.order_by(*([column.desc() for column in _BY_CREATION] if newest_first else _BY_CREATION))
    if place is not None:
        here, after = tuple_(*_BY_CREATION), tuple_(bindparam("after_at"), bindparam("after_id"))
        listing = listing.where(here < after if newest_first else here > after)
        parameters |= {"after_at": place.at, "after_id": place.id}
    found = [Brief._make(values) for values in conn.execute(listing, parameters)]
    page, token = found[: query.page_size], ""
    if len(page) < len(found):
        token = token_of(Place(page[-1].created_at, page[-1].id, 0), page_key, scope, query.bound)
    return InfoPage(_infos(conn, page), token)


def session_infos(conn: Connection, scope: Scope, context_id: str) -> Sequence[Info]:
    """Implement `TaskLog.session`."""
    if has_nul(context_id):
        return ()
    rows = conn.execute(_OF_SESSION.order_by(*_BY_CREATION), {**owner(scope), "context_id": context_id})
    return _infos(conn, [Brief._make(values) for values in rows])


def infos_of(conn: Connection, uids: Sequence[str]) -> Sequence[Info]:
    """Implement `TaskLog.infos_of`."""
    found: list[Info] = []
    for first in range(0, len(uids), AT_ONCE):
        rows = _OF_TASKS.all(conn, uids[first : first + AT_ONCE])
        found += _infos(conn, [Brief._make(values) for values in rows])
    return sorted(found, key=lambda info: (info.task.created_at, info.task.id))


def _infos(conn: Connection, tasks: Sequence[Brief]) -> list[Info]:
    changes: dict[str, list[Change]] = {}
    for first in range(0, len(tasks), AT_ONCE):
        uids = [each.uid for each in tasks[first : first + AT_ONCE]]
        for uid, state, at, generation in _CHANGES.all(conn, uids):
            changes.setdefault(uid, []).append(Change(state, at, generation))
    errors = _errors(conn, tasks)
    return [
        Info(
            each,
            changes_of(each, sorted(changes.get(each.uid, ()), key=_generation)),
            errors.get(each.uid, ""),
        )
        for each in tasks
    ]


def _errors(conn: Connection, tasks: Iterable[Brief]) -> dict[str, str]:
    failed = [each for each in tasks if each.state in (FAILED, REJECTED)]
    managed = [each.uid for each in failed if each.origin != DOCUMENT]
    errors: dict[str, str] = {}
    for first in range(0, len(managed), AT_ONCE):
        for uid, payload in _ENDS.all(conn, managed[first : first + AT_ONCE]):
            errors[uid] = text_of(a2a.StreamResponse.FromString(payload).status_update.status.message)
    documents = [each.uid for each in failed if each.origin == DOCUMENT]
    for first in range(0, len(documents), AT_ONCE):
        for uid, content in contents(conn, documents[first : first + AT_ONCE]).items():
            errors[uid] = text_of(a2a.Task.FromString(content.snapshot).status.message)
    return errors


def summaries(conn: Connection, scope: Scope, context_ids: Sequence[str]) -> Sequence[Summary]:
    """Implement `TaskLog.summaries`."""
    known = [each for each in set(context_ids) if not has_nul(each)]
    states: dict[str, dict[int, int]] = {}
    updated: dict[str, int] = {}
    rows: list[Any] = list(conn.execute(_SUMS, {**owner(scope), "contexts": padded(known)}))
    for context_id, state, count, at in rows:
        states.setdefault(context_id, {})[state] = count
        updated[context_id] = max(at, updated.get(context_id, 0))
    keys = [(scope.tenant, scope.owner, context_id) for context_id in states]
    last: dict[str, int] = {context_id: state for _, _, context_id, state in _LAST_STATES.all(conn, keys)}
    return [Summary(each, states.get(each, {}), last.get(each, 0), updated.get(each, 0)) for each in context_ids]


def fingerprints(conn: Connection, sessions: Sequence[Session]) -> dict[Session, Sequence[int]]:
    """Implement `TaskLog.fingerprints`."""
    found: dict[Session, Sequence[int]] = {}
    for first in range(0, len(sessions), _SESSIONS):
        for tenant, owner_, context_id, *numbers in _FINGERPRINTS.all(conn, sessions[first : first + _SESSIONS]):
            found[tenant, owner_, context_id] = numbers
    return found


def _fingerprints(count: int) -> Select[Any]:
    keys = key_table(count, "abc")
    tenant, owner_, context_id = keys.c
    of_session = (task.c.tenant == tenant) & (task.c.owner == owner_) & (task.c.context_id == context_id)
    sums = (
        task.c.status_at - task.c.created_at,
        case((task.c.superseded.is_(True), 1), else_=0),
        task.c.superseded_seq,
    )
    return (
        select(*keys.c, func.count(task.c.uid), *[cast(func.coalesce(func.sum(each), 0), BigInteger) for each in sums])
        .select_from(keys.outerjoin(task, of_session))
        .group_by(*keys.c)
    )


_FINGERPRINTS: Final = KeyQuery(_fingerprints, "abc")
# Keys of one statement: three parameters each.
_SESSIONS: Final = 1000


def _last_states(count: int) -> Select[Any]:
    keys = key_table(count, "abc")
    tenant, owner_, context_id = keys.c
    newest = (
        select(task.c.state)
        .where(
            task.c.tenant == tenant,
            task.c.owner == owner_,
            task.c.context_id == context_id,
            task.c.superseded.is_(False),
        )
        .order_by(task.c.created_at.desc(), task.c.id.desc())
        .limit(1)
    )
    return select(*keys.c, newest.correlate(keys).scalar_subquery())


_LAST_STATES: Final = KeyQuery(_last_states, "abc")


def _generation(change: Change) -> int:
    return change.generation
