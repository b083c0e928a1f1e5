"""Forks: sessions with copies of the entries of another session. No I/O."""

import hashlib
from collections.abc import Sequence

from taskplane.sessions.domain.commands import Fork
from taskplane.sessions.domain.history import InEffect, can_rewind_to, effective, rewind_line
from taskplane.sessions.domain.payload import keep_messages, message_id_in, messages, move_messages
from taskplane.sessions.domain.replay import Line
from taskplane.sessions.domain.session import EVENT, PUSHED, REDUCED, Entry, Session


def origin(op: Fork) -> str:
    """Return a name of the fork that a repeat of it has, and no other fork; for `Session.forked_from`."""
    return _digest(op.context_id, op.before)


def to_copy(lines: Sequence[Line], before: str) -> list[InEffect] | None:
    """Return the entries to copy, in reading order: the entries in effect before an invocation, or all entries in
    effect for "".

    None: the invocation is not in effect.
    """
    if not before:
        return effective(lines)
    return effective([*lines, rewind_line(before, lines)]) if can_rewind_to(lines, before) else None


def forked(of: Session, op: Fork, copies: Sequence[InEffect], now: int) -> Session:
    """Return the new session. It has no tasks, so there is nothing to apply to them."""
    pushed = 1 if copies and copies[0].kind == PUSHED else 0
    return of._replace(
        context_id=op.new_context_id,
        seq=len(copies),
        version=len(copies) + 1,
        title=op.title or of.title,
        has_session_task=True,
        created_at=now,
        updated_at=now,
        steered_seq=pushed,
        applied_seq=pushed,
        forked_from=origin(op),
        salt=op.salt,
    )


def copy_of(stored: Entry, one: InEffect, into: Session, seq: int) -> Entry:
    """Return entry `seq` of the new session, a copy of a stored entry.

    It keeps its turn and its generation, but not its task and its request, since the turn is over. Its messages name
    the new session, so that no answer goes to the old session.
    """
    payload, listed, message_id = stored.payload, stored.listed, stored.message_id
    if one.kind == PUSHED:
        names = listed.replace(REDUCED, "").split("\n")
        payload, listed = keep_messages(payload, one.kept), "".join(f"{names[index]}\n" for index in one.kept)
    if one.kind != EVENT:
        payload = move_messages(payload, into.context_id, stored.created_at)
    if stored.speaks and message_id is None:
        # It may be older than this field.
        message_id = next(map(message_id_in, messages(payload)), None)
    return stored._replace(
        context_id=into.context_id,
        seq=seq,
        id=_digest(into.context_id, stored.id)[:32],
        task_id="",
        request_hash=None,
        listed=listed,
        payload=payload,
        created_at=into.created_at,
        message_id=message_id,
    )


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
