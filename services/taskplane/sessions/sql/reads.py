"""The reads: each is one snapshot, bounded in rows and in bytes."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import BindParameter, Connection, Select, Text, bindparam, func, or_, select, text, tuple_

from taskplane.runtime.errors import Exhausted
from taskplane.runtime.page_tokens import Bound
from taskplane.sessions.domain import history
from taskplane.sessions.domain.session import MESSAGE, OUTCOME, PUSHED, Entry, Scope, Session
from taskplane.sessions.sql.deleting import withheld
from taskplane.sessions.sql.loading import (
    ROWS,
    complete,
    fitting,
    get_session,
    key_of,
    read_entries,
    read_lines,
    to_read,
)
from taskplane.sessions.sql.pages import EntryPlace, SessionPlace
from taskplane.sessions.sql.statements import SESSION_COLUMNS, to_session
from taskplane.sessions.store import REPLY_BYTES, EntryFilter, EntryPage, SessionPage, UnappliedSession
from taskplane.sessions.tables import LISTED, UNAPPLIED, entry, session
from taskplane.storage.lists import one_of

_IN_SCOPE: Final = (session.c.tenant == bindparam("tenant"), session.c.owner == bindparam("owner"))
_SESSIONS: Final = (
    select(*SESSION_COLUMNS)
    .where(*_IN_SCOPE, text(LISTED))
    .order_by(session.c.updated_at.desc(), session.c.context_id.desc())
    .limit(bindparam("count"))
)
_AFTER: Final = tuple_(session.c.updated_at, session.c.context_id) < tuple_(
    bindparam("after_at"), bindparam("after_id")
)
# All engines agree on the case of ASCII letters only; for other letters both cases are searched.
_CASES: Final[Sequence[Callable[[str], str]]] = (str, str.lower, str.upper, str.capitalize)
_TITLED: Final = or_(
    *(
        func.lower(session.c.title).like(func.lower(bindparam(f"title{n}", type_=Text)), escape="\\")
        for n in range(len(_CASES))
    )
)
_PLACE: Final = (session.c.updated_at, session.c.tenant, session.c.owner, session.c.context_id)
_UNAPPLIED: Final = (
    select(*(session.c[name] for name in UnappliedSession._fields))
    .where(text(UNAPPLIED), tuple_(*_PLACE) > tuple_(*(bindparam(f"after_{c.name}", type_=c.type) for c in _PLACE)))
    .order_by(*_PLACE)
    .limit(bindparam("count"))
)
_SAID: Final = (MESSAGE, OUTCOME, PUSHED)
_BEYOND: Final = 1 << 62


def list_sessions(
    conn: Connection, scope: Scope, page_size: int, page_token: str, title: str, key: bytes
) -> SessionPage:
    """Implement `SessionLog.list`."""
    bound = (scope.tenant, scope.owner, title) if title else (scope.tenant, scope.owner)
    parameters: dict[str, Any] = {"tenant": scope.tenant, "owner": scope.owner, "count": page_size + 1}
    if page_token:
        place = SessionPlace.read(page_token, key, bound)
        parameters |= {"after_at": place.updated_at, "after_id": place.context_id}
    if title:
        parameters |= {f"title{n}": _pattern(case(title)) for n, case in enumerate(_CASES)}
    query = _sessions_query(bool(page_token), bool(title))
    found = [to_session(row) for row in conn.execute(query, parameters)]
    token = ""
    if len(found) > page_size:
        del found[page_size:]
        token = SessionPlace(found[-1].updated_at, found[-1].context_id).token(key, bound)
    return SessionPage(found, token)


@cache
def _sessions_query(after: bool, titled: bool) -> Select[Any]:
    query = _SESSIONS.where(_AFTER) if after else _SESSIONS
    return query.where(_TITLED) if titled else query


def _pattern(part: str) -> str:
    """Return the LIKE pattern of a text that has the characters of `part` in it."""
    return "%" + re.sub(r"([%_\\])", r"\\\1", part) + "%"


def list_entries(conn: Connection, scope: Scope, context_id: str, query: EntryFilter, key: bytes) -> EntryPage:
    """Implement `SessionLog.entries`, for a listing of the log itself."""
    of = get_session(conn, scope, context_id)
    bound = bound_of(of, query)
    after = _BEYOND if query.newest_first else 0
    if query.page_token:
        after = EntryPlace.read(query.page_token, key, bound).seq
    page, more = _read_page(conn, of, query, after)
    page = withheld(conn, of, page)
    token = EntryPlace(page[-1].seq).token(key, bound) if more else ""
    return EntryPage(of, page, token)


def read_after(conn: Connection, scope: Scope, context_id: str, seq: int, limit: int) -> EntryPage:
    """Implement `SessionLog.after`."""
    of = get_session(conn, scope, context_id)
    page, _ = _read_page(conn, of, EntryFilter(page_size=limit), seq) if of.seq > seq else ((), False)
    return EntryPage(of, withheld(conn, of, page), "")


def _read_page(conn: Connection, of: Session, query: EntryFilter, after: int) -> tuple[Sequence[Entry], bool]:
    """Return the entries that follow number `after` in the order asked for, and whether there are more."""
    rows = conn.execute(
        _page_query(bool(query.kinds), bool(query.task_id), bool(query.message_id), query.newest_first),
        {
            **key_of(of),
            "after": after,
            "count": query.page_size + 1,
            **({"kinds": query.kinds} if query.kinds else {}),
            **({"task_id": query.task_id} if query.task_id else {}),
            **({"message_id": query.message_id} if query.message_id else {}),
        },
    )
    found = [to_read(row) for row in rows]
    page = found[: fitting((read.size for read in found), query.page_size)]
    return complete(conn, of, page), len(page) < len(found)


@cache
def _page_query(kinds: bool, task: bool, message: bool, newest_first: bool) -> Select[Any]:
    after: BindParameter[int] = bindparam("after")
    query = ROWS.where(entry.c.seq < after if newest_first else entry.c.seq > after)
    if kinds:
        query = query.where(one_of(entry.c.kind, "kinds"))
    if task:
        query = query.where(entry.c.task_id == bindparam("task_id"))
    if message:
        query = query.where(entry.c.message_id == bindparam("message_id"))
    return query.order_by(entry.c.seq.desc() if newest_first else entry.c.seq).limit(bindparam("count"))


def bound_of(of: Session, query: EntryFilter) -> Bound:
    """Return the listing that a page token of the session's entries is bound to."""
    # A session that was deleted and created again is a different session.
    session_is = (of.tenant, of.owner, of.context_id, of.created_at, of.salt)
    return (
        *session_is,
        query.effective,
        tuple(query.kinds),
        query.task_id,
        query.newest_first,
        query.distinct,
        query.message_id,
    )


def list_cut(conn: Connection, scope: Scope, context_id: str) -> tuple[Session, history.CutTurns]:
    """Implement `SessionLog.cut`."""
    of = get_session(conn, scope, context_id)
    return of, history.cut(read_lines(conn, of), of.applied_seq) if of.seq else history.CutTurns()


def list_unapplied(conn: Connection, limit: int, after: UnappliedSession | None) -> Sequence[UnappliedSession]:
    """Implement `SessionLog.unapplied`."""
    place = after or UnappliedSession("", "", "", 0)
    parameters = {f"after_{name}": value for name, value in place._asdict().items()}
    return [UnappliedSession._make(row) for row in conn.execute(_UNAPPLIED, {**parameters, "count": limit})]


def read_stored(conn: Connection, scope: Scope, context_id: str, seqs: Sequence[int]) -> dict[int, Entry]:
    """Return these entries with their payloads, by number.

    NotFound: the session is gone. Exhausted `HISTORY_TOO_LARGE`.
    """
    of = get_session(conn, scope, context_id)
    reads = list(read_entries(conn, of, seqs).values())
    check_reply(sum(read.size for read in reads), context_id)
    return {one.seq: one for one in withheld(conn, of, complete(conn, of, reads))}


def check_reply(size: int, context_id: str) -> None:
    """Raise Exhausted `HISTORY_TOO_LARGE` if this number of bytes does not fit in one reply."""
    if size > REPLY_BYTES:
        raise Exhausted(
            f"the history of session {context_id} has {size} bytes and does not fit in one reply",
            reason="HISTORY_TOO_LARGE",
            suggestion="read it in pages with ListEntries",
        )
