"""Indexes of the effective history of long logs: entries never change, so only new ones are read.

Reading a session with thousands of entries takes tens of milliseconds. A cached index is valid for one row of `session`
and one number of entries. The salt distinguishes rows with the same key. A read looks up the salt and the number of
entries of its own transaction. So a cached index is never stale.
"""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Final, NamedTuple

from cachetools import LRUCache
from sqlalchemy import Connection, Text, and_, bindparam, case, func, literal_column, select

from taskplane.sessions.domain.history import Reading
from taskplane.sessions.domain.payload import messages
from taskplane.sessions.domain.repeats import HEAD, id_in, repeats
from taskplane.sessions.domain.replay import Line
from taskplane.sessions.domain.session import MESSAGE, OUTCOME, Session
from taskplane.sessions.sql.loading import OF_SESSION, key_of, read_payloads
from taskplane.sessions.tables import entry

# The maximum number of entries in all cached indexes. An entry takes about half a kilobyte.
_MOST_ENTRIES: Final = 100_000
# The maximum number of indexes of one session: clients that read older pages need the state of their first page.
_MOST_OF_ONE: Final = 4
# Payloads that are read at once.
_SOME: Final = 16

# Tenant, owner, context id and salt.
_Key = tuple[str, str, str, int]


class HistoryIndex(NamedTuple):
    """The effective history, with the ids of its messages and the repeats (`domain.repeats`).

    `pushed`: ids of all messages in the pushed history. `kept`: positions in `pushed` of the shown messages.
    """

    reading: Reading
    ids: Mapping[int, bytes]
    pushed: Sequence[bytes]
    repeated: frozenset[int]
    kept: Sequence[int]


class HistoryIndexCache:
    """A cache of the most recently used indexes. It is safe for threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        # The indexes of each session by their numbers of entries, in the order in which they were made.
        self._sessions: LRUCache[_Key, Mapping[int, HistoryIndex]] = LRUCache(_MOST_ENTRIES, getsizeof=sum)

    def newest(self, of: Session) -> HistoryIndex | None:
        """Return the index with the same number of entries as the session, or else the longest of the shorter
        indexes."""
        with self._lock:
            found = self._sessions.get(_key(of), {})
        return max((one for seq, one in found.items() if seq <= of.seq), key=_seq, default=None)

    def keep(self, of: Session, index: HistoryIndex) -> None:
        """Keep the index of the session in its present state. If the indexes of the session together exceed the
        maximum, keep none."""
        key = _key(of)
        with self._lock:
            kept = dict(self._sessions.pop(key, {}))
            kept.setdefault(index.reading.seq, index)
            if len(kept) > _MOST_OF_ONE:
                # Remove the oldest index, not the shortest, since a client may still read older pages.
                kept.pop(next(iter(kept)))
            if sum(kept) <= self._sessions.maxsize:
                self._sessions[key] = kept


def _key(of: Session) -> _Key:
    return of.tenant, of.owner, of.context_id, of.salt


def _seq(known: HistoryIndex) -> int:
    return known.reading.seq


_NOTHING: Final = literal_column("''", Text)
# Most entries have both ids equal. Then select an empty text: it is cheaper to read.
_first_invocation: Final = case(
    (entry.c.task_invocation_id == entry.c.invocation_id, _NOTHING), else_=entry.c.task_invocation_id
)
# `off`, `target` and `listed` in one column: few entries have them, and each column costs milliseconds in a long log.
_steering: Final = case(
    (
        and_(entry.c.kind != MESSAGE, entry.c.kind != OUTCOME),
        case((entry.c.off, "1"), else_="0").concat(entry.c.target).concat("\n").concat(entry.c.listed),
    )
)
_head: Final = case((entry.c.speaks, func.substr(entry.c.payload, 1, HEAD)))


# The entries in a range of numbers, with the columns that a reading needs, and the beginning of the payload of
# messages.
_LINES_AND_HEADS: Final = (
    select(entry.c.seq, entry.c.kind, entry.c.invocation_id, _first_invocation, entry.c.generation, _steering, _head)
    .where(*OF_SESSION, entry.c.seq > bindparam("after"), entry.c.seq <= bindparam("last"))
    .order_by(entry.c.seq)
)


def read_index(conn: Connection, of: Session, cache: HistoryIndexCache) -> HistoryIndex:
    """Return the index of the session's first `of.seq` entries; read the missing ones."""
    before = cache.newest(of)
    if before is not None and before.reading.seq == of.seq:
        return before
    known = _followed(conn, of, before) if before is not None else None
    if known is None:
        lines, ids = _read(conn, of, 0)
        known = made(conn, of, Reading.of(lines), ids)
    cache.keep(of, known)
    return known


def made(conn: Connection, of: Session, reading: Reading, ids: Mapping[int, bytes]) -> HistoryIndex:
    """Make an index. `ids`: the ids of the messages by the number of their entry."""
    pushed: Sequence[bytes] = ()
    if reading.push:
        (payload,) = read_payloads(conn, of, [reading.push]).values()
        pushed = [message.message_id.encode() for message in messages(payload)]
    return HistoryIndex(reading, ids, pushed, *repeats(reading, ids, pushed))


def _followed(conn: Connection, of: Session, before: HistoryIndex) -> HistoryIndex | None:
    """Return `before` with the new entries; None if a new entry changes the effect of earlier entries."""
    lines, ids = _read(conn, of, before.reading.seq)
    reading = before.reading.followed_by(lines)
    if reading is None:
        return None
    all_ids = {**before.ids, **ids}
    return HistoryIndex(reading, all_ids, before.pushed, *repeats(reading, all_ids, before.pushed))


def _read(conn: Connection, of: Session, after: int) -> tuple[list[Line], dict[int, bytes]]:
    rows = conn.execute(_LINES_AND_HEADS, {**key_of(of), "after": after, "last": of.seq})
    lines: list[Line] = []
    heads: dict[int, bytes] = {}
    for seq, kind, invocation_id, first_invocation_id, generation, steering, head in rows:
        target, off, listed = "", False, ""
        if steering:
            target, _, listed = steering[1:].partition("\n")
            off = steering[0] == "1"
        speaks = head is not None
        if speaks:
            heads[seq] = head
        lines.append(Line(seq, kind, invocation_id, "", first_invocation_id, generation, target, off, speaks, listed))
    return lines, ids_in(conn, of, heads)


def ids_in(conn: Connection, of: Session, heads: Mapping[int, bytes]) -> dict[int, bytes]:
    """Return the ids of messages from the beginnings of their payloads. If a beginning does not contain the id, read
    the whole payload."""
    ids: dict[int, bytes] = {}
    unknown: list[int] = []
    for seq, head in heads.items():
        message_id = id_in(head)
        if message_id is None:
            unknown.append(seq)
        else:
            ids[seq] = message_id
    for first in range(0, len(unknown), _SOME):
        for seq, payload in read_payloads(conn, of, unknown[first : first + _SOME]).items():
            ids[seq] = messages(payload)[0].message_id.encode()
    return ids
