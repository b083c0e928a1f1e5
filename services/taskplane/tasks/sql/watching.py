"""Reads of the store's own parts: the log after a generation, and the searches of the queue and the sweeps."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, Connection, bindparam, func, select, text, tuple_

from taskplane.runtime.errors import NotFound, OutOfRange
from taskplane.tasks.domain.drafts import trimmed
from taskplane.tasks.domain.kinds import ARTIFACT
from taskplane.tasks.domain.task import Event, Row
from taskplane.tasks.pages import Page
from taskplane.tasks.sql.clock import LeaseClock
from taskplane.tasks.sql.packing import unpacked_size
from taskplane.tasks.sql.statements import EVENT_COLUMNS, IN_UIDS, ROW_COLUMNS, to_event, to_row
from taskplane.tasks.tables import UNCOPIED, event, task

_KIND: Final = Event._fields.index("kind")
_PAYLOAD: Final = Event._fields.index("payload")
_ROW: Final = select(*ROW_COLUMNS).where(task.c.uid == bindparam("uid"))

_AFTER: Final = (
    select(*EVENT_COLUMNS)
    .where(event.c.task_uid == bindparam("uid"), event.c.generation > bindparam("after"))
    .order_by(event.c.generation)
    .limit(bindparam("limit"))
)
# The number of events that fit a page as they are stored; both engines know the size of a payload without reading it.
_sizes: Final = (
    select(event.c.generation, func.length(event.c.payload).label("size"))
    .where(event.c.task_uid == bindparam("uid"), event.c.generation > bindparam("after"))
    .order_by(event.c.generation)
    .limit(bindparam("limit"))
    .subquery()
)
_sums: Final = select(func.sum(_sizes.c.size).over(order_by=_sizes.c.generation).label("together")).subquery()
_FITTING: Final = select(func.count()).select_from(_sums).where(_sums.c.together <= bindparam("max_bytes"))

_HEADS: Final = select(task.c.uid, task.c.generation).where(IN_UIDS)

_uncopied = (
    select(*ROW_COLUMNS)
    .where(
        text(UNCOPIED),
        tuple_(task.c.status_at, task.c.uid) > tuple_(bindparam("after_at", type_=BigInteger), bindparam("after_uid")),
    )
    .order_by(task.c.status_at, task.c.uid)
    .limit(bindparam("limit"))
)
_UNCOPIED: Final = _uncopied
_UNCOPIED_IN_CONTEXT: Final = _uncopied.where(
    task.c.tenant == bindparam("tenant"),
    task.c.owner == bindparam("owner"),
    task.c.context_id == bindparam("context_id"),
)
_OVERDUE: Final = (
    select(task.c.uid)
    .where(task.c.limit_at.is_not(None), task.c.limit_at <= bindparam("now"))
    .order_by(task.c.limit_at)
    .limit(bindparam("limit"))
)
_IN_TURN: Final = select(task.c.uid).where(task.c.ready_at.is_not(None), task.c.in_turn)


def get_row_by_uid(conn: Connection, uid: str) -> Row:
    """Implement `TaskLog.row_by_uid`."""
    values = conn.execute(_ROW, {"uid": uid}).one_or_none()
    if values is None:
        raise NotFound("the task does not exist", reason="TASK_NOT_FOUND")
    return to_row(values)


def read_after(conn: Connection, uid: str, generation: int, limit: int, max_bytes: int, gaps: bool = False) -> Page:
    """Implement `TaskLog.read_after`."""
    row = get_row_by_uid(conn, uid)
    if generation > row.generation:
        raise OutOfRange(
            f"the log ends at generation {row.generation}",
            reason="CURSOR_AHEAD",
            metadata={"generation": str(row.generation)},
        )
    if generation < row.trimmed_generation and not gaps:
        raise trimmed(row.trimmed_generation)
    if generation == row.generation or limit < 1:
        return Page(row, ())
    place: dict[str, object] = {"uid": uid, "after": generation, "limit": limit}
    if row.event_bytes > max_bytes:
        fitting: int = conn.execute(_FITTING, {**place, "max_bytes": max_bytes}).scalar_one()
        place["limit"] = max(fitting, 1)
    found = conn.execute(_AFTER, place).all()
    return Page(row, [to_event(values) for values in found[: _fitting(found, max_bytes)]])


def _fitting(found: Sequence[Sequence[Any]], max_bytes: int) -> int:
    """Return the number of events that have at most `max_bytes` together when unpacked, but at least one."""
    size = 0
    for count, values in enumerate(found):
        size += unpacked_size(values[_PAYLOAD]) if values[_KIND] == ARTIFACT else len(values[_PAYLOAD])
        if size > max_bytes and count:
            return count
    return len(found)


def heads(conn: Connection, uids: Sequence[str]) -> dict[str, int]:
    """Implement `TaskLog.heads`."""
    return dict(conn.execute(_HEADS, {"uids": uids}).all())


def uncopied(
    conn: Connection, context: tuple[str, str, str] | None, limit: int, after: tuple[int, str] | None
) -> Sequence[Row]:
    """Implement `TaskLog.uncopied`."""
    after_at, after_uid = after or (0, "")
    place: dict[str, object] = {"limit": limit, "after_at": after_at, "after_uid": after_uid}
    if context is None:
        found = conn.execute(_UNCOPIED, place)
    else:
        tenant, owner, context_id = context
        found = conn.execute(
            _UNCOPIED_IN_CONTEXT, {**place, "tenant": tenant, "owner": owner, "context_id": context_id}
        )
    return [to_row(values) for values in found]


def overdue(conn: Connection, clock: LeaseClock, limit: int) -> Sequence[str]:
    """Implement `TaskLog.overdue`."""
    return list(conn.execute(_OVERDUE, {"now": clock.now(conn), "limit": limit}).scalars())


def in_turn(conn: Connection) -> Sequence[str]:
    """Implement `TaskLog.in_turn`."""
    return list(conn.execute(_IN_TURN).scalars())
