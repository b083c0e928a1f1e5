"""Comparison of new pushed histories with the messages that their session has."""

from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import Connection, bindparam, select, union_all

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.sessions.domain import pushing
from taskplane.sessions.domain.commands import Append
from taskplane.sessions.domain.payload import invocations_in, message_id_in, messages, timed_messages, unpack_pushed
from taskplane.sessions.domain.replay import Line
from taskplane.sessions.domain.session import PUSHED, Entry, Session
from taskplane.sessions.sql.loading import OF_SESSION, key_of, read_lines, read_payloads
from taskplane.sessions.tables import entry
from taskplane.storage.lists import table_of

# Payloads in memory at once.
_CHUNK: Final = 64

_STORED: Final = select(entry.c.payload, entry.c.created_at).where(*OF_SESSION)
# The messages with some ids, by an index of those that have one, and a pushed history, which is not in that index.
_wanted: Final = table_of("wanted", "message_id")
_KNOWN: Final = union_all(
    _STORED.where(entry.c.message_id == _wanted.c.message_id, entry.c.message_id.is_not(None)),
    _STORED.where(entry.c.seq == bindparam("pushed")),
)


def compared(conn: Connection, of: Session, op: Append, stored: Container[str]) -> Append:
    """Return the operation with the stored forms of its pushed histories: with their reductions in the session, and the
    times of known messages.

    Entries with ids in `stored` are not changed.
    """
    new = {each.id for each in op.entries if each.kind == PUSHED and each.id not in stored}
    if not new:
        return op
    lines = read_lines(conn, of)
    return replace(op, entries=[_compared(conn, of, each, lines) if each.id in new else each for each in op.entries])


def _compared(conn: Connection, of: Session, pushed: Entry, lines: Sequence[Line]) -> Entry:
    history = unpack_pushed(pushed.payload)
    names = frozenset(invocations_in(history)) - {""}
    before = max((line.seq for line in lines if line.kind == PUSHED), default=0)
    said = _said(conn, of, [line for line in lines if line.speaks and line.invocation_id in names])
    ids = list(filter(None, map(message_id_in, history.messages)))
    return pushing.compared(pushed, said, _known(conn, of, ids, before))


def _said(conn: Connection, of: Session, lines: Sequence[Line]) -> Iterator[tuple[str, str]]:
    found = {line.seq: line.invocation_id for line in lines}
    seqs = list(found)
    for first in range(0, len(seqs), _CHUNK):
        for seq, payload in read_payloads(conn, of, seqs[first : first + _CHUNK]).items():
            for message in messages(payload):
                yield found[seq], message.message_id


def _known(conn: Connection, of: Session, message_ids: Collection[str], pushed: int) -> Iterator[a2a.Message]:
    """Yield the messages with these ids, and the messages of the pushed history that is the entry with this number."""
    asked = {**key_of(of), "message_id": message_ids, "pushed": pushed}
    for payload, created_at in conn.execute(_KNOWN, asked):
        yield from timed_messages(payload, created_at)
