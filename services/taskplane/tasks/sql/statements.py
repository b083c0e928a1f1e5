"""What the write path reads with.

Rows of the tables become the domain's nouns by position: the columns of a table are the fields of its noun, in order.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    BindParameter,
    LargeBinary,
    Text,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    null,
    or_,
    select,
    tuple_,
    union_all,
)

from taskplane.storage.dialects import Dialect
from taskplane.storage.prepared import Query
from taskplane.tasks.domain.task import ACTIVE, DOCUMENT, MANAGED, Event, Row
from taskplane.tasks.tables import event, task

ROW_COLUMNS: Final = tuple(task.c[name] for name in Row._fields)
EVENT_COLUMNS: Final = tuple(event.c[name] for name in Event._fields)
# A row of `ROW_COLUMNS`, and one of `EVENT_COLUMNS`, as the domain's noun.
to_row: Final[Callable[[Iterable[Any]], Row]] = Row._make
to_event: Final[Callable[[Iterable[Any]], Event]] = Event._make


UIDS: Final[BindParameter[Sequence[str]]] = bindparam("uids", expanding=True)
EXISTING_UIDS: Final = Query(select(task.c.uid).where(task.c.uid.in_(UIDS)), "uids")
IDENTITIES: Final = Query(select(task.c.uid, task.c.tenant, task.c.id).where(task.c.uid.in_(UIDS)), "uids")

_TENANTS: Final[BindParameter[Sequence[str]]] = bindparam("tenants", expanding=True)
_named_tasks: Final = select(
    task.c.tenant.label("tenant"),
    cast(null(), Text).label("owner"),
    task.c.id.label("key"),
    task.c.uid.label("uid"),
    literal_column("0", BigInteger).label("generation"),
    cast(null(), LargeBinary).label("request_hash"),
).where(task.c.id.in_(bindparam("ids", expanding=True)), task.c.tenant.in_(_TENANTS))

_named_turns: Final = select(
    event.c.tenant, event.c.owner, event.c.invocation_id, event.c.task_uid, event.c.generation, event.c.request_hash
).where(
    event.c.invocation_id.in_(bindparam("turns", expanding=True)),
    event.c.invocation_id.is_not(None),
    event.c.tenant.in_(_TENANTS),
)

# Which task has this id, and which event recorded this turn: two lookups, one statement. A task has generation 0. They
# may find a little more than was meant, since no engine looks up pairs by an index, and are compared by the caller.
NAMES: Final = Query(_named_tasks, "ids", "tenants")
NAMES_AND_TURNS: Final = Query(union_all(_named_tasks, _named_turns), "ids", "tenants", "turns")


# The tasks of a session that were not brought in line with this entry of it yet, oldest first, with the turn that a
# document names. One that names none belongs to no turn.
BEHIND: Final = (
    select(task.c.uid, case((task.c.origin == DOCUMENT, task.c.invocation_id), else_=None))
    .where(
        task.c.tenant == bindparam("tenant"),
        task.c.owner == bindparam("owner"),
        task.c.context_id == bindparam("context_id"),
        or_(task.c.origin == MANAGED, task.c.invocation_id.is_not(None)),
        task.c.superseded_seq < bindparam("seq"),
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
# NULL unless the task has to wait: the newest of those it waits for, found by walking back from it.
IN_ITS_WAY: Final = (
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
WAITING: Final = Query(select(task.c.uid).where(task.c.uid.in_(UIDS), IN_ITS_WAY.is_not(None)), "uids")
# Which tasks these turns belong to, whoever owns them.
TASKS_OF_TURNS: Final = Query(
    select(event.c.task_uid).where(
        event.c.invocation_id.in_(bindparam("turns", expanding=True)),
        event.c.invocation_id.is_not(None),
        event.c.tenant.in_(_TENANTS),
    ),
    "turns",
    "tenants",
)
# Which of these turns the owners have used already.
TURNS_OF_OWNERS: Final = Query(
    select(event.c.invocation_id).where(
        event.c.invocation_id.in_(bindparam("turns", expanding=True)),
        event.c.invocation_id.is_not(None),
        event.c.tenant.in_(_TENANTS),
        event.c.owner.in_(bindparam("owners", expanding=True)),
    ),
    "turns",
    "tenants",
    "owners",
)


class Locking:
    """What a dialect has a say in."""

    def __init__(self, dialect: Dialect) -> None:
        self.exclusive = dialect.exclusive
        rows = select(*ROW_COLUMNS).where(task.c.uid.in_(UIDS)).order_by(task.c.uid)
        self.rows_not_held_elsewhere = Query(dialect.skip_locked(rows), "uids")
        self.rows = Query(dialect.lock(rows), "uids")
