"""Renewals of leases, and queries about leases and the processes that hold them.

Statements that give or take a lease also change the task; they are in `apply`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Connection,
    Integer,
    Text,
    Update,
    and_,
    bindparam,
    case,
    cast,
    delete,
    func,
    select,
    update,
)

from taskplane.runtime.failpoints import fp
from taskplane.runtime.sharing import Owner
from taskplane.storage.dialects import Dialect
from taskplane.storage.lists import one_of, table_of
from taskplane.tasks.domain.serving import packed, unserved
from taskplane.tasks.domain.task import Lease
from taskplane.tasks.sql.clock import LeaseClock
from taskplane.tasks.store import Held, Renewed
from taskplane.tasks.tables import executor, lease, task

# Microseconds for which the row of a dead process is kept.
_REMEMBERED: Final = 3600 * 1_000_000

_until: Final = bindparam("until", type_=BigInteger)
_process: Final = bindparam("process", type_=Text)
_named: Final = table_of("named", "uids", "fences")
_is_named: Final = and_(lease.c.task_uid == _named.c.uids, lease.c.fence == cast(_named.c.fences, BigInteger))

_TIME_LEFT: Final = select(lease.c.lease_until).where(
    lease.c.task_uid == bindparam("uid"), lease.c.fence == bindparam("fence")
)
_LOADS: Final = (
    select(executor.c.process_id, task.c.tenant, task.c.owner, func.count(task.c.uid))
    .select_from(executor)
    .outerjoin(lease, lease.c.owner == executor.c.process_id)
    .outerjoin(task, task.c.uid == lease.c.task_uid)
    .where(one_of(executor.c.process_id, "process_ids"), executor.c.alive_until > bindparam("now"))
    .group_by(executor.c.process_id, task.c.tenant, task.c.owner)
)
# DISTINCT, because replicas of an executor report the same agents.
_SERVING: Final = select(executor.c.agents).where(executor.c.alive_until > bindparam("now")).distinct()
_EXPIRED: Final = (
    select(lease).where(lease.c.lease_until <= bindparam("now")).order_by(lease.c.lease_until).limit(bindparam("limit"))
)
_ALL: Final = select(lease).order_by(lease.c.owner)
_HELD: Final = select(lease).where(lease.c.owner == _process)
_RESTART: Final = update(lease).values(lease_until=_until)
# Finds leases of this process that were not renewed (their rows were locked), but are still held under the same fence.
_STILL_HELD: Final = (
    select(task.c.uid, task.c.fence)
    .select_from(_named)
    .join(
        task,
        and_(
            task.c.uid == _named.c.uids,
            task.c.fence == cast(_named.c.fences, BigInteger),
            task.c.lease_owner == _process,
        ),
    )
)


class Renewing:
    """The SQL statements for renewing leases and announcing processes, for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        alive = select(executor.c.process_id).where(executor.c.process_id == _process)
        self._alive = (
            update(executor)
            .where(executor.c.process_id.in_(dialect.skip_locked(alive)))
            .values(alive_until=_later(executor.c.alive_until))
        )
        mine = select(lease.c.task_uid).join(_named, _is_named).where(lease.c.owner == _process)
        renewed = (
            update(lease)
            .where(lease.c.task_uid.in_(dialect.skip_locked(mine, lease)))
            .values(lease_until=_later(lease.c.lease_until))
            .returning(
                lease.c.task_uid,
                lease.c.fence,
                select(task.c.input_generation).where(task.c.uid == lease.c.task_uid).scalar_subquery(),
            )
        )
        # PostgreSQL executes both updates in one statement. SQLite cannot nest an UPDATE.
        self._renewed: Update = renewed if dialect.alone else renewed.add_cte(self._alive.cte("alive"))
        old = select(executor.c.process_id).where(executor.c.alive_until < bindparam("long_ago", type_=BigInteger))
        self._insert_process = dialect.insert_ignore(executor)
        # Unlike a renewal, this update does not skip a locked row: the announcement must not be lost.
        self._update_process = (
            update(executor)
            .where(executor.c.process_id == _process)
            .values(
                alive_until=_later(executor.c.alive_until),
                capacity=bindparam("slots", type_=Integer),
                agents=bindparam("serves", type_=Text),
            )
        )
        self._delete_old = delete(executor).where(executor.c.process_id.in_(dialect.skip_locked(old)))

    def renew(self, conn: Connection, process_id: str, held: Sequence[Held], until: int) -> Sequence[Renewed]:
        """Implement `TaskLog.renew`."""
        process = {"process": process_id, "until": until}
        named = {"uids": [uid for uid, _ in held], "fences": [str(fence) for _, fence in held]}
        found: Sequence[Any] = ()
        if held:
            found = conn.execute(self._renewed, {**process, **named}).all()
        if not held or self._dialect.alone:
            conn.execute(self._alive, process)
        fp("renew.before_commit")
        inputs: dict[Held, int] = {(uid, fence): generation for uid, fence, generation in found}
        if inputs.keys() >= set(held):
            return [Renewed(True, inputs[each]) for each in held]
        skipped = () if self._dialect.alone else conn.execute(_STILL_HELD, {"process": process_id, **named}).all()
        unknown: set[Held] = {(uid, fence) for uid, fence in skipped}
        return [
            Renewed(True, inputs[each]) if each in inputs else Renewed(None if each in unknown else False)
            for each in held
        ]

    def announce(
        self,
        conn: Connection,
        process_id: str,
        until: int,
        capacity: int,
        agents: Collection[str] | None,
        clock: LeaseClock,
    ) -> None:
        """Implement `TaskLog.announce`."""
        # A process without a slot runs nothing.
        serves = packed(agents if capacity else ())
        new = {"process_id": process_id, "alive_until": until, "capacity": capacity, "agents": serves}
        conn.execute(self._delete_old, {"long_ago": clock.now(conn) - _REMEMBERED})
        conn.execute(self._insert_process, new)
        conn.execute(self._update_process, {"process": process_id, "until": until, "slots": capacity, "serves": serves})


def _later(column: Any) -> Any:
    return case((column < _until, _until), else_=column)


def loads(conn: Connection, process_ids: Sequence[str], clock: LeaseClock) -> Mapping[str, Mapping[Owner, int]]:
    """Implement `TaskLog.loads`."""
    found: dict[str, dict[Owner, int]] = {}
    for process_id, tenant, owner, count in conn.execute(_LOADS, {"process_ids": process_ids, "now": clock.now(conn)}):
        held = found.setdefault(process_id, {})
        if tenant is not None:
            held[tenant, owner] = count
    return found


def unserved_of(conn: Connection, agents: Iterable[str], clock: LeaseClock) -> frozenset[str]:
    """Implement `TaskLog.unserved`."""
    return unserved(agents, conn.execute(_SERVING, {"now": clock.now(conn)}).scalars())


def lease_left(conn: Connection, uid: str, fence: int, clock: LeaseClock) -> float:
    """Implement `TaskLog.lease_left`."""
    until = conn.execute(_TIME_LEFT, {"uid": uid, "fence": fence}).scalar_one_or_none()
    return 0.0 if until is None else max(0.0, (until - clock.now(conn)) / 1_000_000)


def restart(conn: Connection, until: int) -> None:
    """Implement `TaskLog.restart_leases`."""
    conn.execute(_RESTART, {"until": until})


def expired(conn: Connection, clock: LeaseClock, limit: int) -> Sequence[Lease]:
    """Implement `TaskLog.expired`."""
    return [Lease._make(values) for values in conn.execute(_EXPIRED, {"now": clock.now(conn), "limit": limit})]


def held(conn: Connection, process_id: str | None) -> Sequence[Lease]:
    """Implement `TaskLog.held`."""
    if process_id is None:
        return [Lease._make(values) for values in conn.execute(_ALL)]
    return [Lease._make(values) for values in conn.execute(_HELD, {"process": process_id})]
