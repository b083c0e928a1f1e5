"""What becomes of one operation on one session: the new row and entries, the answer of a repeat, or why not.

Every rule about writing stands here and nowhere else; the database triggers are a second wall. Of several refusals the
first is given, in this order: not found, key reused, version mismatch. A repeat is answered before a version mismatch.
"""

from collections.abc import Callable
from typing import Any

from taskplane.runtime.errors import Conflict, NotFound, PlaneError, Refused
from taskplane.sessions.domain import operations as ops
from taskplane.sessions.domain.operations import Answer, Found, Operation, Write
from taskplane.sessions.domain.session import (
    Entry,
    Scope,
    Session,
    begins_session_task,
    grown,
    numbered,
)

Outcome = Write | Answer | PlaneError


def decide(found: Found, op: Operation, now: int) -> Outcome:
    """What becomes of `op`, given what was `found`, at `now` (microseconds, UTC). Pure."""
    return _RULES[type(op)](found, op, now)


def session_not_found(context_id: str) -> NotFound:
    """The one answer for a session that does not exist and for one of another owner."""
    return NotFound(f"session {context_id} does not exist", reason="SESSION_NOT_FOUND")


def _key_reused(entry_id: str) -> PlaneError:
    return Refused(
        f"entry {entry_id} is stored already, for another request or in another session",
        reason="KEY_REUSED",
        suggestion="repeat the first request unchanged, or use a new key",
    )


def _version_mismatch(context_id: str, expected: int, version: int) -> PlaneError:
    return Conflict(
        f"session {context_id} is at version {version}, not {expected}",
        reason="VERSION_MISMATCH",
        suggestion="read the session again, then decide again",
        metadata={"version": str(version)},
    )


def _begin(scope: Scope, context_id: str, first: ops.NewSession, now: int) -> Session:
    # Without entries, at version 1.
    tenant, owner, _ = scope
    return Session(tenant, owner, context_id, 0, 1, first.agent, first.title, first.source, False, now, now)


def _create(found: Found, op: ops.Create, now: int) -> Outcome:
    was = found.session
    if was is None:
        begun = _begin(op.scope, op.context_id, ops.NewSession(agent=op.agent, title=op.title, source=op.source), now)
        return Write(session=begun, answer=ops.Created(session=begun, created=True), new=True)
    session = was._replace(agent=op.agent or was.agent, title=op.title or was.title, source=op.source or was.source)
    if session == was:
        return ops.Created(session=was, created=False)
    session = _changed(session, now)
    return Write(session=session, answer=ops.Created(session=session, created=False))


def _update(found: Found, op: ops.Update, now: int) -> Outcome:
    was = found.session
    if was is None:
        return session_not_found(op.context_id)
    session = was._replace(
        title=was.title if op.title is None else op.title,
        agent=was.agent if op.agent is None else op.agent,
    )
    session = _changed(session, now)
    return Write(session=session, answer=session)


def _changed(session: Session, now: int) -> Session:
    return session._replace(version=session.version + 1, updated_at=max(now, session.updated_at))


def _delete(found: Found, op: ops.Delete, _now: int) -> Outcome:
    if found.session is None:
        return session_not_found(op.context_id)
    return Write(session=found.session, answer=found.session, delete=True)


def _append(found: Found, op: ops.Append, now: int) -> Outcome:
    was = found.session
    if was is None and op.create is None:
        return session_not_found(op.context_id)
    known: list[Entry] = []
    given = op.entries
    if found.stored:
        for entry in given:
            stored = found.stored.get(entry.id)
            if stored is None:
                continue
            if not _repeats(stored, entry, op.context_id):
                return _key_reused(entry.id)
            known.append(stored)
        given = [entry for entry in given if entry.id not in found.stored]
    if was is not None and not given:
        return ops.Appended(session=was, appended=0, known=known)
    version = was.version if was is not None else 0
    if op.expected_version and op.expected_version != version:
        return _version_mismatch(op.context_id, op.expected_version, version)
    begun = was or _begin(op.scope, op.context_id, op.create or ops.NewSession(), now)
    now = max(now, begun.updated_at)
    new = [numbered(entry, seq, now) for seq, entry in enumerate(given, begun.seq + 1)]
    has_session_task = begun.has_session_task or any(map(begins_session_task, new))
    session = grown(begun, len(new), has_session_task=has_session_task, now=now)
    answer = ops.Appended(session=session, appended=len(new), known=known)
    return Write(session=session, entries=new, answer=answer, new=was is None)


def _repeats(stored: Entry, entry: Entry, context_id: str) -> bool:
    if stored.context_id != context_id:
        return False
    return not stored.request_hash or not entry.request_hash or stored.request_hash == entry.request_hash


_RULES: dict[type[Operation], Callable[[Found, Any, int], Outcome]] = {
    ops.Create: _create,
    ops.Update: _update,
    ops.Delete: _delete,
    ops.Append: _append,
}
