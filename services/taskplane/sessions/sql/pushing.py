"""Comparison of new pushed histories with the messages that their session has."""

from collections.abc import Collection, Container, Iterator
from dataclasses import replace
from typing import Final

from sqlalchemy import Connection

from taskplane.sessions.domain.commands import Append
from taskplane.sessions.domain.payload import messages
from taskplane.sessions.domain.pushing import invocations_in, reducing
from taskplane.sessions.domain.session import PUSHED, Entry, Session
from taskplane.sessions.sql.loading import read_lines, read_payloads

# Payloads in memory at once.
_CHUNK: Final = 64


def compared(conn: Connection, of: Session, op: Append, stored: Container[str]) -> Append:
    """Return the operation with what its pushed histories reduce in the session.

    Those whose ids are `stored` already stay as they are.
    """
    new = {entry.id for entry in op.entries if entry.kind == PUSHED and entry.id not in stored}
    if not new:
        return op
    return replace(op, entries=[_compared(conn, of, each) if each.id in new else each for each in op.entries])


def _compared(conn: Connection, of: Session, entry: Entry) -> Entry:
    names = invocations_in(messages(entry.payload))
    return reducing(entry, _said(conn, of, names)) if names else entry


def _said(conn: Connection, of: Session, names: Collection[str]) -> Iterator[tuple[str, str]]:
    found = {
        line.seq: line.invocation_id for line in read_lines(conn, of) if line.speaks and line.invocation_id in names
    }
    seqs = list(found)
    for first in range(0, len(seqs), _CHUNK):
        for seq, payload in read_payloads(conn, of, seqs[first : first + _CHUNK]).items():
            for message in messages(payload):
                yield found[seq], message.message_id
