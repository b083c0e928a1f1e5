"""Figures of one tenant, from indexes of open tasks and of the newest changes; each count has a limit."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Connection,
    Integer,
    Select,
    Subquery,
    bindparam,
    case,
    func,
    literal_column,
    null,
    select,
    text,
    union_all,
)

from taskplane.storage.lists import one_of
from taskplane.tasks.domain.overview import (
    MINUTE,
    Overview,
    Queued,
    Recent,
    Running,
    capacity_of,
    executors_of,
    first_minute,
    minutes_of,
    percentiles_of,
    queues_of,
    tasks_of,
)
from taskplane.tasks.domain.task import MANAGED, PAUSED, STATES, TERMINAL, WORKING
from taskplane.tasks.sql.clock import LeaseClock
from taskplane.tasks.tables import OF_ANY_OWNER, STATE_CHANGES, UNCOPIED, event, executor, lease, task

# Open tasks of one kind that are counted, and tasks in one state that changed in the last minutes.
MOST_OPEN: Final = 10_000
MOST_RECENT: Final = 50_000
# Number of tasks for the figures of durations.
_SAMPLE: Final = 1_000

_of_tenant: Final = task.c.tenant == bindparam("tenant")
# For tasks that an index of few is to find: no index knows this expression, and SQLite would take one of all tasks of
# the tenant.
_is_of_tenant: Final = func.coalesce(task.c.tenant, "") == bindparam("tenant")
_is_managed: Final = task.c.origin == MANAGED
_now: Final = bindparam("now", type_=BigInteger)
# Not a parameter: a server could not tell that two of them are the same.
_minute: Final = literal_column(str(MINUTE), BigInteger)

_queued: Final = (
    select(task.c.agent, task.c.state, task.c.ready_at)
    .where(task.c.ready_at.is_not(None), _of_tenant)
    .limit(MOST_OPEN)
    .subquery()
)
_WAITING: Final = select(_queued.c.agent, _queued.c.state, func.count(), func.min(_queued.c.ready_at)).group_by(
    _queued.c.agent, _queued.c.state
)

# The tasks of other tenants are a number only.
_leased: Final = (
    select(
        lease.c.owner.label("process_id"),
        case((_of_tenant, task.c.owner), else_=null()).label("owner"),
        case((_of_tenant, task.c.agent), else_="").label("agent"),
        case((_of_tenant, task.c.state), else_=0).label("state"),
        lease.c.lease_until,
    )
    .select_from(lease.join(task, task.c.uid == lease.c.task_uid))
    .subquery()
)
_RUNNING: Final = select(
    _leased.c.process_id,
    _leased.c.owner,
    _leased.c.agent,
    _leased.c.state,
    func.count(),
    func.sum(case((_leased.c.lease_until > _now, 1), else_=0)),
).group_by(_leased.c.process_id, _leased.c.owner, _leased.c.agent, _leased.c.state)

_uncopied: Final = (
    select(task.c.status_at).where(text(UNCOPIED), _is_of_tenant).order_by(task.c.status_at).limit(MOST_OPEN).subquery()
)
_UNCOPIED: Final = select(func.count(), func.min(_uncopied.c.status_at))

_EXECUTORS: Final = select(executor.c.process_id, executor.c.alive_until, executor.c.capacity, executor.c.agents)


def _newest(state: int, limit: int) -> Subquery:
    """Return the tasks of the tenant in one state that changed last, newest first."""
    return (
        select(task.c.uid, task.c.agent, task.c.origin, task.c.created_at, task.c.status_at)
        .where(
            text(OF_ANY_OWNER),
            _of_tenant,
            task.c.state == literal_column(str(state), Integer),
            task.c.status_at >= bindparam("since", type_=BigInteger),
        )
        .order_by(task.c.status_at.desc(), task.c.id.desc())
        .limit(limit)
        .subquery()
    )


def _paused(state: int) -> "Select[*tuple[Any, ...]]":
    newest = (
        select(task.c.agent)
        .where(text(OF_ANY_OWNER), _of_tenant, task.c.state == literal_column(str(state), Integer), _is_managed)
        .order_by(task.c.status_at.desc(), task.c.id.desc())
        .limit(MOST_OPEN)
        .subquery()
    )
    return select(newest.c.agent, literal_column(str(state), Integer), func.count()).group_by(newest.c.agent)


_PAUSED: Final = union_all(*map(_paused, sorted(PAUSED)))


def _recent(state: int) -> "Select[*tuple[Any, ...]]":
    newest = _newest(state, MOST_RECENT)
    created, changed = newest.c.created_at // _minute, newest.c.status_at // _minute
    return select(
        newest.c.agent,
        newest.c.origin,
        literal_column(str(state), Integer),
        created.label("created"),
        changed.label("changed"),
        func.count(),
        func.min(newest.c.status_at),
    ).group_by(newest.c.agent, newest.c.origin, created, changed)


_RECENT: Final = union_all(*map(_recent, sorted(STATES)))


def _ended() -> "Select[*tuple[Any, ...]]":
    newest = [_newest(state, _SAMPLE) for state in sorted(TERMINAL)]
    found = union_all(
        *(select(each.c.uid, each.c.created_at, each.c.status_at).where(each.c.origin == MANAGED) for each in newest)
    ).subquery()
    return select(found.c.uid, found.c.created_at, found.c.status_at).order_by(found.c.status_at.desc()).limit(_SAMPLE)


_ENDED: Final = _ended()
_BEGUN: Final = (
    select(event.c.task_uid, func.min(event.c.created_at))
    .where(one_of(event.c.task_uid, "uids"), text(STATE_CHANGES), event.c.changed_to == WORKING)
    .group_by(event.c.task_uid)
)


def overview(conn: Connection, tenant: str, ttl: float, clock: LeaseClock) -> Overview:
    """Implement `TaskLog.overview`."""
    now = clock.now(conn)
    since = first_minute(now)
    of = {"tenant": tenant, "now": now, "since": since}
    waiting = [Queued._make(values) for values in conn.execute(_WAITING, of)]
    running = [Running._make(values) for values in conn.execute(_RUNNING, of)]
    paused = [(agent, state, count) for agent, state, count in conn.execute(_PAUSED, of)]
    uncopied, oldest = conn.execute(_UNCOPIED, of).one()
    processes: Sequence[Any] = conn.execute(_EXECUTORS).all()
    announced = {process_id: (until, capacity) for process_id, until, capacity, _ in processes}
    serving = [agents for _, until, _, agents in processes if until > now]
    seen: Sequence[Any] = conn.execute(_RECENT, of).all()
    complete = _complete_since(seen, since)
    recent = [Recent(agent, state, *rest) for agent, origin, state, *rest in seen if origin == MANAGED]
    sample: Sequence[Any] = conn.execute(_ENDED, of).all()
    ended: dict[str, tuple[int, int]] = {uid: (created_at, at) for uid, created_at, at in sample}
    begun: dict[str, int] = dict(conn.execute(_BEGUN, {"uids": list(ended)}).all()) if ended else {}
    open_counts = (sum(each.number for each in waiting), sum(count for *_, count in paused), uncopied)
    return Overview(
        at=now,
        tasks=tasks_of(waiting, running, paused, recent),
        queue=queues_of(waiting, serving, now),
        executors=executors_of(announced, running, now, ttl),
        capacity=capacity_of(announced, running, now),
        uncopied=uncopied,
        oldest_uncopied=0.0 if oldest is None else max(0, now - oldest) / 1_000_000,
        minutes=minutes_of(recent, now),
        durations=percentiles_of(at - created_at for created_at, at in ended.values()),
        queued=percentiles_of(at - ended[uid][0] for uid, at in begun.items()),
        since=complete,
        bounded=complete > since or max(open_counts) >= MOST_OPEN,
    )


def _complete_since(seen: Sequence[Any], since: int) -> int:
    """Return from when on no task is missing: where the limit of a state was met, its oldest change that was seen."""
    counts: dict[int, int] = {}
    oldest: dict[int, int] = {}
    for _, _, state, _, _, count, at in seen:
        counts[state] = counts.get(state, 0) + count
        oldest[state] = min(at, oldest.get(state, at))
    return max([since, *(oldest[state] for state, count in counts.items() if count >= MOST_RECENT)])
