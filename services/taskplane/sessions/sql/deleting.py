"""Deleted tasks: their entries are looked up, completed as a void is written, and kept out of every read.

A session without a rewind or a deletion has nothing of that, which its row says: no statement is executed for it.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import Connection, select, text

from taskplane.runtime.titles import is_made_of, title_of
from taskplane.sessions.domain.commands import Append
from taskplane.sessions.domain.deleting import DeletedWords, Deletions, Digests, is_deletion
from taskplane.sessions.domain.history import Reading
from taskplane.sessions.domain.payload import (
    deleted_words,
    first_words,
    leave_out,
    pushed_digests,
    said_digests,
    unpack_pushed,
    with_hidden,
    without_state,
    without_words,
)
from taskplane.sessions.domain.replay import Line
from taskplane.sessions.domain.session import EVENT, MESSAGE, OUTCOME, PUSHED, REDUCED, REWIND, Entry, Session
from taskplane.sessions.sql.loading import OF_SESSION, key_of, read_lines, read_payloads
from taskplane.sessions.tables import DELETES, entry

# Payloads in memory at once.
_CHUNK: Final = 64

_DELETIONS: Final = select(entry.c.listed, entry.c.task_id).where(*OF_SESSION, text(DELETES)).order_by(entry.c.seq)
_WORDS: Final = select(entry.c.payload).where(*OF_SESSION, text(DELETES)).order_by(entry.c.seq)


def read_deletions(conn: Connection, of: Session) -> Deletions | None:
    """Return the deletions of a session's tasks; None if there are none."""
    if not of.steered_seq:
        return None
    rows = conn.execute(_DELETIONS, key_of(of)).all()
    return Deletions.of((row.listed for row in rows), (row.task_id for row in rows)) if rows else None


def without_deleted(conn: Connection, of: Session, op: Append, stored: Collection[str]) -> Append:
    """Return an append to a session with deletions, with pushed histories without words of deleted tasks."""
    new = {each.id for each in op.entries if each.kind == PUSHED and each.id not in stored}
    if not new:
        return op
    words = deleted_words(conn.execute(_WORDS, key_of(of)).scalars())
    lines = read_lines(conn, of)
    return replace(
        op, entries=[_without(conn, of, each, words, lines) if each.id in new else each for each in op.entries]
    )


def _without(conn: Connection, of: Session, pushed: Entry, words: DeletedWords, lines: Sequence[Line]) -> Entry:
    gone = set(_deleted_in(conn, of, pushed.payload, words, lines))
    if not gone:
        return pushed
    payload, listing = leave_out(pushed.payload, gone)
    return pushed._replace(payload=payload, listed=listing)


def _deleted_in(
    conn: Connection, of: Session, payload: bytes | None, words: DeletedWords, lines: Sequence[Line]
) -> list[int]:
    """Return the indexes of the messages with deleted words in a pushed history."""
    pushed = pushed_digests(unpack_pushed(payload))
    suspects = words.suspects(pushed)
    unsure = any(pushed[index][0] not in words.turns for index in suspects)
    live = set(_live(conn, of, lines, words)) if unsure else set[Digests]()
    return words.deleted_among(pushed, suspects, live)


def _live(conn: Connection, of: Session, lines: Sequence[Line], words: DeletedWords) -> Iterator[Digests]:
    """Yield the digests of messages in turns that are not deleted."""
    turns = words.turns
    seqs = [line.seq for line in lines if line.speaks and line.name not in turns and line.group not in turns]
    for payload in _payloads(conn, of, seqs):
        yield from said_digests(payload)


def _payloads(conn: Connection, of: Session, seqs: Sequence[int]) -> Iterator[bytes]:
    for first in range(0, len(seqs), _CHUNK):
        yield from read_payloads(conn, of, seqs[first : first + _CHUNK]).values()


def completed(conn: Connection, of: Session, op: Append, stored: Collection[str]) -> Append:
    """Return the append of voids of deleted tasks with the hidden parts of earlier pushed histories, and with the title
    that the session gets if its own has their words."""
    new = [each for each in op.entries if is_deletion(each) and each.id not in stored]
    if not new:
        return op
    lines = read_lines(conn, of)
    done = {each.id: _completed(conn, of, each, lines) for each in new}
    title = None
    if any(is_made_of(of.title, opening) for opening in op.openings):
        after = [_line(each, seq) for seq, each in enumerate(done.values(), of.seq + 1)]
        title = _title(conn, of, Reading.of([*lines, *after]))
    return replace(op, entries=[done.get(each.id, each) for each in op.entries], title=title)


def _completed(conn: Connection, of: Session, void: Entry, lines: Sequence[Line]) -> Entry:
    words = deleted_words([void.payload])
    hidden: list[tuple[int, int]] = []
    for line in lines:
        if line.kind == PUSHED:
            (payload,) = read_payloads(conn, of, [line.seq]).values()
            hidden += [(line.seq, index) for index in _deleted_in(conn, of, payload, words, lines)]
    return with_hidden(void, hidden)


def _line(void: Entry, seq: int) -> Line:
    return Line(seq, void.kind, void.invocation_id, void.task_id, target=void.target, listed=void.listed)


def _title(conn: Connection, of: Session, reading: Reading) -> str:
    """Return the title from the first text in effect; "" if there is no text."""
    if reading.push and reading.kept:
        (payload,) = read_payloads(conn, of, [reading.push]).values()
        return title_of(first_words(payload, reading.kept))
    for _, _, seq, kind in reading.places:
        if kind in (MESSAGE, OUTCOME):
            (payload,) = read_payloads(conn, of, [seq]).values()
            return title_of(first_words(payload))
    return ""


def withheld(conn: Connection, of: Session, entries: Sequence[Entry], since: int = 0) -> Sequence[Entry]:
    """Return entries of the log without the words of deleted tasks. `since`: only of tasks deleted after this entry."""
    if of.steered_seq <= since or not entries:
        return entries
    deletions = read_deletions(conn, of)
    return entries if deletions is None else [_withheld(each, deletions) for each in entries]


def _withheld(stored: Entry, deletions: Deletions) -> Entry:
    if stored.kind == PUSHED:
        names = stored.listed.split("\n")[:-1]
        hidden = [
            index
            for index, name in enumerate(names)
            if name.removeprefix(REDUCED) in deletions.turns or (stored.seq, index) in deletions.hidden
        ]
        return without_words(stored, hidden) if hidden else stored
    if stored.kind in (MESSAGE, OUTCOME, EVENT) and stored.payload is not None and deletions.has(stored):
        return without_words(stored)
    if stored.kind == REWIND and stored.payload is not None:
        return without_words(stored) if stored.id in deletions.entries else without_state(stored)
    return stored
