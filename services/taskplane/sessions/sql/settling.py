"""Unfinished turns of all sessions: the turns that may be abandoned, and the time up to which all turns are
finished."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Select, and_, bindparam, case, func, literal, or_, select, text, update

from taskplane.sessions.domain.session import MESSAGE, OUTCOME
from taskplane.sessions.store import AbandonedTurns, UnsettledPage, UnsettledTurn
from taskplane.sessions.tables import OPENS, entry, session_meta

_MARK: Final = select(session_meta.c.settled_until)
_SET_MARK: Final = update(session_meta).values(settled_until=bindparam("until"))

_in_range: Final = (text(OPENS), entry.c.created_at >= bindparam("since"), entry.c.created_at < bindparam("until"))
_TIMES: Final = select(entry.c.created_at).where(*_in_range).order_by(entry.c.created_at).limit(bindparam("count"))

_SHOWN: Final = ("tenant", "owner", "context_id", "invocation_id", "kind", "created_at")
_OPENED: Final = (*_SHOWN, "seq", "task_id")


def _turns(*more: str) -> Select[Any]:
    """Return the query for the turns opened in a range of time that no later entry of their session settles.

    It gives the fields of an `UnsettledTurn`, and `more` of those shown.

    It has scalar subqueries, not joins, for the reason given in `statements`.
    """
    opened = select(*(entry.c[name] for name in _OPENED)).where(*_in_range).subquery("opened")
    other = entry.alias("other")
    of_owner = and_(other.c.owner == opened.c.owner, other.c.tenant == opened.c.tenant)
    # The task of the outcome; empty: answered directly; null: not decided.
    decided = select(other.c.task_id).where(other.c.id == opened.c.invocation_id.concat("-outcome"), of_owner)
    # Not null if there is a later message, of this turn or of the task that it created.
    said = (
        select(literal(1))
        .where(
            other.c.context_id == opened.c.context_id,
            of_owner,
            other.c.seq > opened.c.seq,
            other.c.kind == MESSAGE,
            or_(
                other.c.invocation_id == opened.c.invocation_id,
                other.c.task_invocation_id == opened.c.invocation_id,
            ),
        )
        .limit(1)
    )
    found = select(
        *(opened.c[name] for name in _SHOWN),
        case((opened.c.kind == OUTCOME, opened.c.task_id), else_=decided.scalar_subquery()).label("task_id"),
        said.scalar_subquery().label("said"),
    ).subquery("found")
    return (
        select(
            *(found.c[name] for name in UnsettledTurn._fields[:-1]),
            func.coalesce(found.c.task_id, ""),
            *(found.c[name] for name in more),
        )
        .where(
            found.c.said.is_(None),
            # If there is an outcome, it is listed in place of the message that began the turn.
            or_(found.c.task_id.is_(None), and_(found.c.task_id != "", found.c.kind != MESSAGE)),
        )
        .order_by(found.c.created_at)
    )


_TURNS: Final = _turns()
_TIMED_TURNS: Final = _turns("created_at")
# The maximum number of turns that are read to count the turns of one tenant.
_MOST_LOOKED_AT: Final = 10_000


def list_unsettled(conn: Connection, before: int, limit: int) -> UnsettledPage:
    """Implement `SessionLog.unsettled`. `before`: only turns opened earlier, in microseconds since 1970."""
    since: int = conn.execute(_MARK).scalar_one()
    if since > before:
        # The clock was set back: turns opened until it is there again must not be skipped.
        return UnsettledPage((), before, more=True)
    times = conn.execute(_TIMES, {"since": since, "until": before, "count": limit}).scalars().all()
    if not times:
        return UnsettledPage((), None, more=False)
    more = len(times) == limit
    until = times[-1] + 1 if more else before
    rows = conn.execute(_TURNS, {"since": since, "until": until})
    return UnsettledPage([UnsettledTurn._make(row) for row in rows], until, more)


def count_abandoned(conn: Connection, tenant: str, undecided_before: int, before: int) -> AbandonedTurns:
    """Implement `SessionLog.abandoned`. Turns without an outcome count if they were opened before `undecided_before`,
    other turns if before `before` (microseconds since 1970)."""
    since: int = conn.execute(_MARK).scalar_one()
    times = {"since": since, "until": undecided_before, "count": _MOST_LOOKED_AT}
    opened = conn.execute(_TIMES, times).scalars().all()
    bounded = len(opened) == _MOST_LOOKED_AT
    until = opened[-1] + 1 if bounded else undecided_before
    turns: Sequence[Any] = conn.execute(_TIMED_TURNS, {"since": since, "until": until}).all()
    begun: list[int] = [at for of, _, _, _, task_id, at in turns if of == tenant and (not task_id or at < before)]
    return AbandonedTurns(len(begun), min(begun, default=None), bounded)


def mark_settled(conn: Connection, until: int) -> None:
    """Implement `SessionLog.mark_settled`."""
    conn.execute(_SET_MARK, {"until": until})
