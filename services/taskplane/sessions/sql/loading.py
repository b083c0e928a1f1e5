"""Entries with their payloads: a small payload is read with the row, a large payload only if it is needed.

So a page of small entries is one statement, and no statement reads more than some megabytes.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Select, bindparam, case, func, select

from taskplane.sessions.domain.errors import session_not_found
from taskplane.sessions.domain.repeats import HEAD
from taskplane.sessions.domain.replay import Line
from taskplane.sessions.domain.session import Entry, Scope, Session
from taskplane.sessions.sql.statements import ENTRY_FIELDS, SESSION_COLUMNS, SESSION_OF_KEY, to_entry, to_session
from taskplane.sessions.store import PAGE_BYTES
from taskplane.sessions.tables import entry, session
from taskplane.storage.lists import one_of

# A payload up to this many bytes comes with its row.
_SMALL: Final = 16 * 1024
# A log of up to this many entries is read whole where its effective history is asked for.
_SHORT: Final = 512

_WIDTH: Final = len(SESSION_COLUMNS)

OF_SESSION: Final = (
    entry.c.tenant == bindparam("of_tenant"),
    entry.c.owner == bindparam("of_owner"),
    entry.c.context_id == bindparam("of_context_id"),
)
_size: Final = func.coalesce(func.length(entry.c.payload), 0)
_small_payload: Final = case((_size <= _SMALL, entry.c.payload)).label("payload")
ROWS: Final[Select[Any]] = select(
    *(_small_payload if name == "payload" else entry.c[name] for name in ENTRY_FIELDS), _size.label("size")
).where(*OF_SESSION)

# The session, and with a short log all of it.
_SESSION_AND_ROWS: Final = (
    select(*SESSION_COLUMNS, *ROWS.selected_columns)
    .select_from(
        session.outerjoin(
            entry,
            (entry.c.tenant == session.c.tenant)
            & (entry.c.owner == session.c.owner)
            & (entry.c.context_id == session.c.context_id)
            & (session.c.seq <= _SHORT),
        )
    )
    .where(*SESSION_OF_KEY)
    .order_by(entry.c.seq)
)
_ROWS_OF: Final = ROWS.where(one_of(entry.c.seq, "seqs"))
_PAYLOADS_OF: Final = select(entry.c.seq, entry.c.payload).where(*OF_SESSION, one_of(entry.c.seq, "seqs"))
_HEADS_OF: Final = select(entry.c.seq, func.substr(entry.c.payload, 1, HEAD).label("head")).where(
    *OF_SESSION, one_of(entry.c.seq, "seqs")
)
_LINES: Final = select(*(entry.c[name] for name in Line._fields)).where(*OF_SESSION).order_by(entry.c.seq)
_LINES_AND_SIZES: Final = _LINES.add_columns(_size.label("size"))
_SESSION: Final = select(*SESSION_COLUMNS).where(*SESSION_OF_KEY)
_line_fields: Final = attrgetter(*Line._fields)


class Read(NamedTuple):
    """An entry as it was read: without its payload where that is large. `size` is that of the payload."""

    entry: Entry
    size: int


def to_read(values: Sequence[Any]) -> Read:
    """Return a row of `ROWS`."""
    return Read(to_entry(values[:-1]), values[-1])


def get_session(conn: Connection, scope: Scope, context_id: str) -> Session:
    """Return the row. Raise NotFound."""
    key = {"of_tenant": scope.tenant, "of_owner": scope.owner, "of_context_id": context_id}
    found = conn.execute(_SESSION, key).one_or_none()
    if found is None:
        raise session_not_found(context_id)
    return to_session(found)


def key_of(of: Session) -> dict[str, Any]:
    """Return the parameters of `OF_SESSION`."""
    return {"of_tenant": of.tenant, "of_owner": of.owner, "of_context_id": of.context_id}


class Log(NamedTuple):
    """A session's log without most payloads. `sizes`: the sizes of the payloads by entry number. `reads`: the payloads
    that were read."""

    lines: Sequence[Line]
    sizes: Mapping[int, int]
    reads: Mapping[int, Read]


def read_short(conn: Connection, scope: Scope, context_id: str) -> tuple[Session, dict[int, Read] | None]:
    """Return the session, and all its entries by number if they are few, else None. Raise NotFound."""
    key = {"of_tenant": scope.tenant, "of_owner": scope.owner, "of_context_id": context_id}
    rows = conn.execute(_SESSION_AND_ROWS, key).all()
    if not rows:
        raise session_not_found(context_id)
    of = to_session(rows[0][:_WIDTH])
    if of.seq > _SHORT:
        return of, None
    return of, {read.entry.seq: read for read in (to_read(row[_WIDTH:]) for row in rows[: of.seq])}


def read_log(conn: Connection, scope: Scope, context_id: str) -> tuple[Session, Log]:
    """Return the session and its log. Raise NotFound."""
    of, reads = read_short(conn, scope, context_id)
    if reads is None:
        rows = conn.execute(_LINES_AND_SIZES, key_of(of)).all()
        return of, Log([Line._make(row[:-1]) for row in rows], {row[0]: row[-1] for row in rows}, {})
    return of, Log([line_of(read) for read in reads.values()], {seq: one.size for seq, one in reads.items()}, reads)


def read_lines(conn: Connection, of: Session) -> list[Line]:
    """Return all that the history needs to know of the session's entries, which is little of each."""
    return [Line._make(row) for row in conn.execute(_LINES, key_of(of))]


def read_entries(conn: Connection, of: Session, seqs: Iterable[int]) -> dict[int, Read]:
    """Return the entries with these numbers, by number."""
    rows = conn.execute(_ROWS_OF, {**key_of(of), "seqs": seqs})
    return {read.entry.seq: read for read in map(to_read, rows)}


def read_payloads(conn: Connection, of: Session, seqs: Iterable[int]) -> dict[int, bytes]:
    """Return the payloads of the entries with these numbers, of any size."""
    rows = conn.execute(_PAYLOADS_OF, {**key_of(of), "seqs": seqs})
    return {row.seq: row.payload for row in rows}


def read_heads(conn: Connection, of: Session, seqs: Iterable[int]) -> dict[int, bytes]:
    """Return the first `HEAD` bytes of each payload."""
    rows = conn.execute(_HEADS_OF, {**key_of(of), "seqs": seqs})
    return {row.seq: row.head for row in rows}


def complete(conn: Connection, of: Session, reads: Sequence[Read]) -> list[Entry]:
    """Return the entries with the payloads that were too large to come with their rows."""
    large = [read.entry.seq for read in reads if read.size and read.entry.payload is None]
    if not large:
        return [read.entry for read in reads]
    payloads = read_payloads(conn, of, large)
    return [
        read.entry._replace(payload=payloads[read.entry.seq]) if read.entry.seq in payloads else read.entry
        for read in reads
    ]


def fitting(sizes: Iterable[int], most: int) -> int:
    """Return how many make a page: at most `most`, and at most `PAGE_BYTES` together unless the first is larger."""
    count = room = 0
    for size in sizes:
        room += size
        if count == most or (count and room > PAGE_BYTES):
            break
        count += 1
    return count


def line_of(read: Read) -> Line:
    """Return the facts about an entry for the history."""
    return Line._make(_line_fields(read.entry))
