"""Reads of the effective history. It is decided without payloads; a page reads only those of its own entries."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import Connection, Select, bindparam, or_, select

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.sessions.domain.history import Reading, conversation, effective
from taskplane.sessions.domain.payload import keep_messages, messages, timed_messages
from taskplane.sessions.domain.session import EVENT, MESSAGE, OUTCOME, PUSHED, Entry, Scope, Session
from taskplane.sessions.sql.deleting import withheld
from taskplane.sessions.sql.history_index import HistoryIndex, HistoryIndexCache, ids_in, made, read_index
from taskplane.sessions.sql.loading import (
    OF_SESSION,
    Read,
    complete,
    fitting,
    key_of,
    line_of,
    read_entries,
    read_heads,
    read_log,
    read_short,
)
from taskplane.sessions.sql.pages import EffectivePlace
from taskplane.sessions.sql.reads import bound_of, check_reply
from taskplane.sessions.store import EntryFilter, EntryPage, MessageIds
from taskplane.sessions.tables import entry

# The unit that a page counts: an entry, by its number, or the message of a pushed history with this index.
_Unit = tuple[int, int]

_WHOLE: Final = -1
_SAID: Final = (MESSAGE, OUTCOME, PUSHED)
_OF_TASK: Final[Select[Any]] = select(entry.c.seq).where(*OF_SESSION, entry.c.task_id == bindparam("task_id"))
# An entry that may change the effect of earlier entries (see `Line.changes_history`).
_CHANGES: Final[Select[Any]] = (
    select(entry.c.seq)
    .where(*OF_SESSION, entry.c.seq > bindparam("after"), entry.c.seq <= bindparam("last"))
    .where(entry.c.kind.not_in((MESSAGE, OUTCOME)), or_(entry.c.kind != EVENT, entry.c.target != ""))
    .limit(1)
)


def list_effective(
    conn: Connection, scope: Scope, context_id: str, query: EntryFilter, key: bytes, cache: HistoryIndexCache
) -> EntryPage:
    """Implement `SessionLog.entries`, for a list of entries in effect."""
    of, reads = read_short(conn, scope, context_id)
    now = of
    bound = bound_of(of, query)
    place = EffectivePlace(of.seq, of.version, 0)
    if query.page_token:
        place = EffectivePlace.read(query.page_token, key, bound)
        of = of._replace(seq=place.seq, version=place.version)
    if reads is None:
        known = read_index(conn, of, cache)
    else:
        known = _known(conn, of, [reads[seq] for seq in range(1, of.seq + 1)], distinct=query.distinct)
    of_task = set(conn.execute(_OF_TASK, {**key_of(of), "task_id": query.task_id}).scalars()) if query.task_id else None
    listing = _Listing(known, query, of_task)
    unchanged = 0
    if query.known and not query.page_token:
        unchanged = listing.unchanged_since(_unchanged_seq(conn, of, EffectivePlace.known(query.known, key, bound)))
    place = place._replace(offset=place.offset + query.skip + unchanged)
    wanted = listing.page(place.offset)
    if reads is None:
        reads = read_entries(conn, of, {seq for seq, _ in wanted})
    page = _Page(conn, now, known.reading, reads, deleted_since=of.seq)
    count = fitting((page.size(one) for one in wanted), query.page_size)
    token = ""
    if place.offset + count < listing.total:
        token = place._replace(offset=place.offset + count).token(key, bound)
    return EntryPage(
        of,
        list(page.entries(wanted[:count])),
        token,
        known.reading.has_events,
        place._replace(offset=0).token(key, bound),
        unchanged,
    )


def _unchanged_seq(conn: Connection, of: Session, known: EffectivePlace | None) -> int:
    """Return the number of entries at the beginning of the log with the same effect as in a `known` listing, or 0."""
    if known is None or known.seq > of.seq:
        return 0
    changed = conn.execute(_CHANGES, {**key_of(of), "after": known.seq, "last": of.seq}).first()
    return 0 if changed is not None else known.seq


def _known(conn: Connection, of: Session, reads: Sequence[Read], *, distinct: bool) -> HistoryIndex:
    """Return the reading of a log that was read whole; repetitions are found only if `distinct` asks for them."""
    reading = Reading.of(map(line_of, reads))
    if not distinct:
        return HistoryIndex(reading, {}, (), frozenset(), ())
    said = [read for read in reads if read.entry.speaks]
    large = read_heads(conn, of, [read.entry.seq for read in said if read.entry.payload is None])
    heads = {read.entry.seq: read.entry.payload or large[read.entry.seq] for read in said}
    return made(conn, of, reading, ids_in(conn, of, heads))


class _Listing:
    """The units that a query lists, in reading order, and their `total`."""

    def __init__(self, known: HistoryIndex, query: EntryFilter, of_task: AbstractSet[int] | None) -> None:
        """List the units of a query. `of_task`: the numbers of the entries that may be listed; None: all."""
        reading = known.reading
        kinds = set(query.kinds or _SAID)
        self._query = query
        self._known = known
        self._first: Sequence[_Unit] = ()
        if reading.push and PUSHED in kinds and of_task is None:
            indexes = known.kept if query.distinct else (_WHOLE,)
            self._first = [(reading.push, index) for index in indexes]
        self._places = reading.places
        repeated = known.repeated if query.distinct else ()
        everything = kinds.issuperset(_SAID if not reading.has_events else (*_SAID, EVENT))
        if repeated or of_task is not None or not everything:
            self._places = [
                place
                for place in reading.places
                if place[3] in kinds and place[2] not in repeated and (of_task is None or place[2] in of_task)
            ]
        self.total = len(self._first) + len(self._places)

    def unchanged_since(self, seq: int) -> int:
        """Return the number of units at the beginning that a listing had when the log had `seq` entries.

        No later entry changes their effect.
        """
        if not seq:
            return 0
        before = next((at for at, place in enumerate(self._places) if place[2] > seq), len(self._places))
        return len(self._first) + before

    def page(self, offset: int) -> Sequence[_Unit]:
        """Return as many units as a page may hold, from `offset` on, in the order that was asked for."""
        end = min(offset + self._query.page_size, self.total)
        if self._query.newest_first:
            return [self._unit(self.total - 1 - at) for at in range(offset, end)]
        return [self._unit(at) for at in range(offset, end)]

    def _unit(self, at: int) -> _Unit:
        after = at - len(self._first)
        return self._first[at] if after < 0 else (self._places[after][2], _WHOLE)


class _Page:
    """The listed units as entries. Entries deleted since an earlier page was read are listed without their words."""

    def __init__(
        self, conn: Connection, of: Session, reading: Reading, reads: Mapping[int, Read], *, deleted_since: int
    ) -> None:
        """`of`: the session as it is now. `deleted_since`: the number of its entries when it was listed first."""
        self._conn = conn
        self._of = of
        self._since = deleted_since
        self._reading = reading
        self._reads = reads
        self._pushed: Sequence[a2a.Message] | None = None

    def size(self, unit: _Unit) -> int:
        """Return roughly the bytes of a unit."""
        seq, index = unit
        return self._reads[seq].size if index == _WHOLE else self._message(seq, index).ByteSize()

    def entries(self, units: Sequence[_Unit]) -> Iterator[Entry]:
        """Yield the units as entries, in order; successive messages of the pushed history are one entry."""
        reads = {seq: self._reads[seq] for seq, _ in units}
        found = withheld(self._conn, self._of, complete(self._conn, self._of, list(reads.values())), self._since)
        complete_ = dict(zip(reads, found, strict=True))
        for seq, group in groupby(units, key=itemgetter(0)):
            stored = complete_[seq]
            if seq == self._reading.push:
                indexes = sorted(index for _, index in group)
                kept = self._reading.kept if indexes == [_WHOLE] else indexes
                stored = stored._replace(payload=keep_messages(stored.payload, kept))
            yield stored

    def _message(self, seq: int, index: int) -> a2a.Message:
        if self._pushed is None:
            (stored,) = complete(self._conn, self._of, [self._reads[seq]])
            self._pushed = messages(stored.payload)
        return self._pushed[index]


def list_message_ids(
    conn: Connection,
    scope: Scope,
    context_id: str,
    events: bool,
    page_token: str,
    key: bytes,
    cache: HistoryIndexCache,
) -> MessageIds:
    """Implement `SessionLog.message_ids`."""
    of, reads = read_short(conn, scope, context_id)
    kinds = (*_SAID, EVENT) if events else _SAID
    bound = bound_of(of, EntryFilter(effective=True, distinct=True, kinds=kinds))
    if page_token:
        then = EffectivePlace.read(page_token, key, bound)
        of = of._replace(seq=then.seq, version=then.version)
    if reads is None:
        known = read_index(conn, of, cache)
    else:
        known = _known(conn, of, [reads[seq] for seq in range(1, of.seq + 1)], distinct=True)
    ids = [known.pushed[index].decode() for index in known.kept]
    # The index in `ids` of each message, and the number of messages up to each place.
    said = list(range(len(ids)))
    pushed = len(ids)
    ends: dict[int, int] = {}
    for place, _, seq, kind in known.reading.places:
        if kind != EVENT:
            if seq not in known.repeated:
                said.append(len(ids))
                ids.append(known.ids.get(seq, b"").decode())
            ends[place] = len(said)
        elif events:
            ids.append(f"\0{seq}")
    said.append(len(ids))
    seen = known.reading.seen
    places = sorted(ends)
    return MessageIds(
        of,
        ids,
        # A turn without messages ends where the turn before it ends.
        {
            name: said[ends[places[before - 1]] if (before := bisect_right(places, place)) else pushed]
            for name, place in seen.items()
            if isinstance(name, str)
        },
        EffectivePlace(of.seq, of.version, 0).token(key, bound),
        known.reading.has_events,
    )


def read_conversation(conn: Connection, scope: Scope, context_id: str) -> tuple[Session, Sequence[a2a.Message]]:
    """Implement `SessionLog.conversation`."""
    of, log = read_log(conn, scope, context_id)
    said = [one for one in effective(log.lines) if one.kind in _SAID]
    check_reply(sum(log.sizes[one.seq] for one in said), context_id)
    missing = [one.seq for one in said if one.seq not in log.reads]
    reads = {**log.reads, **read_entries(conn, of, missing)} if missing else log.reads
    entries = complete(conn, of, [reads[one.seq] for one in said])
    shown = [
        stored._replace(payload=keep_messages(stored.payload, one.kept)) if one.kind == PUSHED else stored
        for one, stored in zip(said, entries, strict=True)
    ]
    return of, conversation(message for one in shown for message in timed_messages(one.payload, one.created_at))
