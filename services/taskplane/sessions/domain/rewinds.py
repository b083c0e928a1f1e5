"""The rules for rewinds, undos, and `applied_seq`: the newest entry that the tasks reflect. No I/O."""

from taskplane.runtime.errors import PlaneError
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.commands import Found, Outcome, Write
from taskplane.sessions.domain.errors import (
    beyond_head,
    invocation_not_found,
    key_reused,
    nothing_to_undo,
    session_not_found,
    too_late_to_undo,
    version_mismatch,
)
from taskplane.sessions.domain.history import can_rewind_to, events_in_effect, rewind_line, undo_error
from taskplane.sessions.domain.session import REWIND, UNDO, Entry, Session, grow, repeats
from taskplane.sessions.domain.state import restoring_change

_ERRORS = {"NOTHING_TO_UNDO": nothing_to_undo, "TOO_LATE_TO_UNDO": too_late_to_undo}


def rewind(found: Found, op: commands.Rewind, now: int) -> Outcome:
    """Decide a rewind. A rewind to an unknown invocation is stored as refused, so a repeat is refused, too. Other
    refusals are not stored."""
    was = _check(found, op, REWIND)
    if not isinstance(was, Session):
        return was
    stored = found.stored.get(op.entry.id)
    if stored is not None:
        refusal = invocation_not_found(stored.target)
        return refusal if stored.off else commands.Rewound(seq=stored.seq, session=was, done=False)
    if can_rewind_to(found.lines, op.entry.target):
        return _write(was, op.entry._replace(payload=_restoring(found, op.entry)), now)
    write = _write(was, op.entry._replace(off=True), now)
    write.answer = invocation_not_found(op.entry.target)
    return write


def _restoring(found: Found, entry: Entry) -> bytes | None:
    """Return the payload of a rewind, with the change that brings the earlier state back."""
    after = [*found.lines, rewind_line(entry.target, found.lines)]
    restored = restoring_change(found.changes, events_in_effect(found.lines), events_in_effect(after))
    return ((entry.payload or b"") + restored) or None


def undo(found: Found, op: commands.Undo, now: int) -> Outcome:
    """Decide an undo. A refused undo is not stored."""
    was = _check(found, op, UNDO)
    if not isinstance(was, Session):
        return was
    stored = found.stored.get(op.entry.id)
    if stored is not None:
        return commands.Rewound(seq=stored.seq, session=was, done=False)
    reason = undo_error(found.lines)
    return _ERRORS[reason](op.context_id) if reason else _write(was, op.entry, now)


def mark_applied(found: Found, op: commands.MarkApplied, _now: int) -> Outcome:
    """Return the session with a higher `applied_seq`. The number never decreases. The version stays: clients do not see
    the number."""
    was = found.session
    if was is None:
        return session_not_found(op.context_id)
    if op.seq > was.seq:
        return beyond_head(op.context_id, was.seq)
    applied = min(op.seq, was.steered_seq)
    if applied <= was.applied_seq:
        return was
    session = was._replace(applied_seq=applied)
    return Write(session=session, answer=session)


def _check(found: Found, op: commands.Rewind | commands.Undo, kind: int) -> Session | PlaneError:
    """Return the session, or an error. Also return the session if an earlier call has done the same request."""
    was = found.session
    if was is None:
        return session_not_found(op.context_id)
    stored = found.stored.get(op.entry.id)
    if stored is None:
        if op.expected_version and op.expected_version != was.version:
            return version_mismatch(op.context_id, op.expected_version, was.version)
        return was
    if stored.kind != kind or stored.target != op.entry.target or not repeats(stored, op.entry):
        return key_reused(stored.id)
    return was


def _write(was: Session, entry: Entry, now: int) -> Write:
    session, entries = grow(was, [entry], now)
    return Write(session=session, entries=entries, answer=commands.Rewound(seq=session.seq, session=session, done=True))
