"""The part of its tasks that a session shows. The number of statements does not depend on the number of tasks."""

from collections.abc import Iterable, Sequence
from typing import Any, Final
from typing import cast as typed

from sqlalchemy import BigInteger, Connection, bindparam, case, cast, func, select, text, tuple_

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.storage.lists import one_of, table_of
from taskplane.tasks.domain.figures import Summary
from taskplane.tasks.domain.infos import NO_FAILURE, Brief, Change, Failure, Info, changes_of, failure_of
from taskplane.tasks.domain.task import DOCUMENT, FAILED, REJECTED, TERMINAL, Scope
from taskplane.tasks.pages import MAX_INFOS, InfoFilter, InfoPage
from taskplane.tasks.sql.contents import contents
from taskplane.tasks.sql.pages import TaskPlace, check_page_size, place_of, token_of
from taskplane.tasks.sql.reads import owned, owner
from taskplane.tasks.sql.statements import IN_UIDS
from taskplane.tasks.sql.texts import has_nul
from taskplane.tasks.store import Session
from taskplane.tasks.tables import STATE_CHANGES, among, event, task

_BRIEF: Final = tuple(task.c[name] for name in Brief._fields)
_BY_CREATION: Final = (task.c.created_at, task.c.id)
_OF_SESSION: Final = owned(select(*_BRIEF)).where(task.c.context_id == bindparam("context_id"))
_OF_TASKS: Final = select(*_BRIEF).where(IN_UIDS).order_by(*_BY_CREATION)
_CHANGES: Final = select(event.c.task_uid, event.c.changed_to, event.c.created_at, event.c.generation).where(
    one_of(event.c.task_uid, "uids"), text(STATE_CHANGES)
)
_ENDS: Final = (
    select(task.c.uid, event.c.payload)
    .join(event, (event.c.task_uid == task.c.uid) & (event.c.generation == task.c.terminal_generation))
    .where(IN_UIDS)
)
_SUMS: Final = (
    owned(select(task.c.context_id, task.c.state, func.count(), func.max(task.c.updated_at)))
    .where(one_of(task.c.context_id, "contexts"), task.c.superseded.is_(False))
    .group_by(task.c.context_id, task.c.state)
)
# The state of the newest task of each of these sessions of one owner.
_contexts: Final = table_of("contexts", "context_id")
_newest: Final = (
    owned(select(task.c.state))
    .where(task.c.context_id == _contexts.c.context_id, task.c.superseded.is_(False))
    .order_by(task.c.created_at.desc(), task.c.id.desc())
    .limit(1)
)
_LAST_STATES: Final = select(_contexts.c.context_id, _newest.correlate(_contexts).scalar_subquery())
_keys: Final = table_of("keys", "tenant", "owner", "context_id")
_FINGERPRINTS: Final = (
    select(
        *_keys.c,
        func.count(task.c.uid),
        *(
            cast(func.coalesce(func.sum(each), 0), BigInteger)
            for each in (
                task.c.status_at - task.c.created_at,
                case((task.c.superseded.is_(True), 1), else_=0),
                task.c.superseded_seq,
                case((task.c.origin == DOCUMENT, task.c.generation), else_=0),
            )
        ),
    )
    .select_from(
        _keys.outerjoin(
            task,
            (task.c.tenant == _keys.c.tenant)
            & (task.c.owner == _keys.c.owner)
            & (task.c.context_id == _keys.c.context_id),
        )
    )
    .group_by(*_keys.c)
)
# Keys of one statement.
_AT_ONCE: Final = 1000


def list_infos(conn: Connection, scope: Scope, query: InfoFilter, page_key: bytes) -> InfoPage:
    """Implement `TaskLog.infos`."""
    check_page_size(query.page_size, MAX_INFOS)
    place = place_of(query.page_token, page_key, scope, query.bound)
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
        token = token_of(TaskPlace(page[-1].created_at, page[-1].id, 0), page_key, scope, query.bound)
    return InfoPage(_infos(conn, page), token)


def session_infos(conn: Connection, scope: Scope, context_id: str) -> Sequence[Info]:
    """Implement `TaskLog.session`."""
    if has_nul(context_id):
        return ()
    rows = conn.execute(_OF_SESSION.order_by(*_BY_CREATION), {**owner(scope), "context_id": context_id})
    return _infos(conn, [Brief._make(values) for values in rows])


def infos_of(conn: Connection, uids: Sequence[str]) -> Sequence[Info]:
    """Implement `TaskLog.infos_of`."""
    return _infos(conn, [Brief._make(values) for values in conn.execute(_OF_TASKS, {"uids": uids})])


def _infos(conn: Connection, tasks: Sequence[Brief]) -> list[Info]:
    changes: dict[str, list[Change]] = {}
    for uid, state, at, generation in conn.execute(_CHANGES, {"uids": [each.uid for each in tasks]}):
        changes.setdefault(uid, []).append(Change(state, at, generation))
    failures = failures_of(conn, tasks)
    return [
        Info(
            each,
            changes_of(each, sorted(changes.get(each.uid, ()), key=_generation)),
            failures.get(each.uid, NO_FAILURE),
        )
        for each in tasks
    ]


def failures_of(conn: Connection, tasks: Iterable[Brief]) -> dict[str, Failure]:
    """Return the failure of each of these tasks that failed or was rejected, by uid; others are left out."""
    failed = [each for each in tasks if each.state in (FAILED, REJECTED)]
    managed = [each.uid for each in failed if each.origin != DOCUMENT]
    failures: dict[str, Failure] = {}
    if managed:
        for uid, payload in conn.execute(_ENDS, {"uids": managed}):
            failures[uid] = failure_of(a2a.StreamResponse.FromString(payload).status_update.status.message)
    documents = [each.uid for each in failed if each.origin == DOCUMENT]
    if documents:
        for uid, content in contents(conn, documents).items():
            failures[uid] = failure_of(content.folded().status.message)
    return failures


def summaries(conn: Connection, scope: Scope, context_ids: Sequence[str]) -> Sequence[Summary]:
    """Implement `TaskLog.summaries`."""
    known = [each for each in set(context_ids) if not has_nul(each)]
    states: dict[str, dict[int, int]] = {}
    updated: dict[str, int] = {}
    for context_id, state, count, at in conn.execute(_SUMS, {**owner(scope), "contexts": known}):
        states.setdefault(context_id, {})[state] = count
        updated[context_id] = max(at, updated.get(context_id, 0))
    newest = conn.execute(_LAST_STATES, {**owner(scope), "context_id": list(states)})
    last: dict[str, int] = dict(newest.all())
    return [Summary(each, states.get(each, {}), last.get(each, 0), updated.get(each, 0)) for each in context_ids]


def fingerprints(conn: Connection, sessions: Sequence[Session]) -> dict[Session, Sequence[int]]:
    """Implement `TaskLog.fingerprints`."""
    found: dict[Session, Sequence[int]] = {}
    for first in range(0, len(sessions), _AT_ONCE):
        tenants, owners, contexts = zip(*sessions[first : first + _AT_ONCE], strict=True)
        keys = {"tenant": tenants, "owner": owners, "context_id": contexts}
        rows = typed("Iterable[Any]", conn.execute(_FINGERPRINTS, keys))
        for tenant, owner_, context_id, *numbers in rows:
            found[tenant, owner_, context_id] = numbers
    return found


def _generation(change: Change) -> int:
    return change.generation
