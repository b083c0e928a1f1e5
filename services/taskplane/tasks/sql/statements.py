"""The statements that the write path reads with.

Rows become domain objects by position: a table has the columns of its class, in the same order.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    LargeBinary,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    null,
    select,
    tuple_,
    union_all,
)

from taskplane.storage.dialects import Dialect
from taskplane.storage.lists import one_of
from taskplane.storage.prepared import PreparedQuery
from taskplane.tasks.domain.kinds import ARTIFACT
from taskplane.tasks.domain.task import ACTIVE, DOCUMENT, MANAGED, Event, Row
from taskplane.tasks.sql.packing import unpack_piece
from taskplane.tasks.tables import event, lease, task

ROW_COLUMNS: Final = tuple(task.c[name] for name in Row._fields)
EVENT_COLUMNS: Final = tuple(event.c[name] for name in Event._fields)
# Convert a row of `ROW_COLUMNS` to a domain object.
to_row: Final[Callable[[Iterable[Any]], Row]] = Row._make
_make_event: Final[Callable[[Iterable[Any]], Event]] = Event._make


def to_event(values: Iterable[Any]) -> Event:
    """Convert a row of `EVENT_COLUMNS` to a domain object."""
    stored = _make_event(values)
    if stored.kind != ARTIFACT:
        return stored
    payload = unpack_piece(stored.payload)
    return stored if payload is stored.payload else stored._replace(payload=payload)


# The tasks, and the turns, that a statement is about: by lists of uids, or of invocations and tenants.
IN_UIDS: Final = one_of(task.c.uid, "uids")
_IN_TURNS: Final = (
    one_of(event.c.invocation_id, "turns"),
    event.c.invocation_id.is_not(None),
    one_of(event.c.tenant, "tenants"),
)
_LEASES: Final = one_of(lease.c.task_uid, "uids")

EXISTING_UIDS: Final = select(task.c.uid).where(IN_UIDS)
EXISTING_LEASES: Final = select(lease.c.task_uid).where(_LEASES)
IDENTITIES: Final = select(task.c.uid, task.c.tenant, task.c.id).where(IN_UIDS)

_named_tasks: Final = select(
    task.c.tenant.label("tenant"),
    cast(null(), Text).label("owner"),
    task.c.id.label("key"),
    task.c.uid.label("uid"),
    literal_column("0", BigInteger).label("generation"),
    cast(null(), LargeBinary).label("request_hash"),
).where(one_of(task.c.id, "ids"), one_of(task.c.tenant, "tenants"))

_named_turns: Final = select(
    event.c.tenant, event.c.owner, event.c.invocation_id, event.c.task_uid, event.c.generation, event.c.request_hash
).where(*_IN_TURNS)

# Which task has this id, and which event recorded this turn: two lookups, one statement. A task has generation 0. They
# may find a little more than was meant, since no engine looks up pairs by an index, and are compared by the caller.
NAMES: Final = PreparedQuery(_named_tasks)
NAMES_AND_TURNS: Final = PreparedQuery(union_all(_named_tasks, _named_turns))


# The tasks of a session that were not brought in line with this entry of it yet, oldest first, with the turn that a
# document names last: one that names none belongs to no turn. Documents that were are among them, since they may name
# other turns by now.
BEHIND: Final = (
    select(task.c.uid, case((task.c.origin == DOCUMENT, task.c.invocation_id), else_=None))
    .where(
        task.c.tenant == bindparam("tenant"),
        task.c.owner == bindparam("owner"),
        task.c.context_id == bindparam("context_id"),
        case(
            (task.c.origin == MANAGED, task.c.superseded_seq < bindparam("seq")),
            else_=and_(task.c.invocation_id.is_not(None), task.c.superseded_seq <= bindparam("seq")),
        ),
    )
    .order_by(task.c.created_at, task.c.id)
)
_active_of_session: Final = (
    task.c.tenant == bindparam("tenant"),
    task.c.owner == bindparam("owner"),
    task.c.context_id == bindparam("context_id"),
    task.c.agent == bindparam("agent"),
    task.c.origin == MANAGED,
    task.c.state.in_(sorted(ACTIVE)),
)
# The tasks of an agent in a session that are SUBMITTED or WORKING, and when the newest of them was created.
ACTIVE_OF_SESSION: Final = select(task.c.uid).where(*_active_of_session).order_by(task.c.created_at, task.c.id)
NEWEST_ACTIVE: Final = select(func.max(task.c.created_at)).where(*_active_of_session)

_earlier = task.alias("earlier")
# The newest earlier task that this one waits for; NULL if it need not wait.
EARLIER_TASK: Final = (
    select(_earlier.c.uid)
    .where(
        _earlier.c.tenant == task.c.tenant,
        _earlier.c.owner == task.c.owner,
        _earlier.c.context_id == task.c.context_id,
        tuple_(_earlier.c.created_at, _earlier.c.id) < tuple_(task.c.created_at, task.c.id),
        _earlier.c.agent == task.c.agent,
        _earlier.c.origin == MANAGED,
        _earlier.c.state.in_(sorted(ACTIVE)),
    )
    .order_by(_earlier.c.created_at.desc(), _earlier.c.id.desc())
    .limit(1)
    .correlate(task)
    .scalar_subquery()
)
WAITING: Final = select(task.c.uid).where(IN_UIDS, EARLIER_TASK.is_not(None))
# The tasks of these turns, of all owners.
TASKS_OF_TURNS: Final = select(event.c.task_uid).where(*_IN_TURNS)
# The turns of these that the owner has used.
TURNS_OF_OWNER: Final = select(event.c.invocation_id).where(*_IN_TURNS, event.c.owner == bindparam("owner"))


class Locking:
    """Statements that lock rows, in a dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.exclusive = dialect.exclusive
        rows = select(*ROW_COLUMNS).where(IN_UIDS).order_by(task.c.uid)
        self.free_rows = PreparedQuery(dialect.skip_locked(rows))
        leases = select(lease.c.task_uid, lease.c.lease_until).where(_LEASES).order_by(lease.c.task_uid)
        self.free_leases = PreparedQuery(dialect.skip_locked(leases))
