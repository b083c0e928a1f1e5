"""The decision about one operation on one session: the new row and entries, the answer of a repeat, or a refusal.

All rules about writing are here; the database triggers only repeat them. Of several refusals the first is given, in
this order: not found, key reused, task deleted, version mismatch, not allowed by the history. A repeat is answered
before a version mismatch.
"""

from collections.abc import Callable, Sequence, Set
from typing import Any

from taskplane.runtime.validation import NO_SEGMENT, invalid, is_segment
from taskplane.sessions.domain import commands, rewinds
from taskplane.sessions.domain.commands import Found, Operation, Outcome, Write
from taskplane.sessions.domain.errors import (
    key_reused,
    session_not_found,
    task_deleted,
    version_mismatch,
)
from taskplane.sessions.domain.payload import with_message_id
from taskplane.sessions.domain.session import Entry, Scope, Session, grow, repeats


def decide(found: Found, op: Operation, now: int) -> Outcome:
    """Decide `op`, given the data `found` for it, at `now` (microseconds, UTC). No I/O."""
    return _RULES[type(op)](found, op, now)


def _begin(scope: Scope, context_id: str, first: commands.NewSession, now: int) -> Session:
    # Without entries, at version 1.
    tenant, owner, _ = scope
    return Session(
        tenant,
        owner,
        context_id,
        0,
        1,
        first.agent,
        first.title,
        first.source,
        False,
        now,
        now,
        salt=first.salt,
    )


def _create(found: Found, op: commands.Create, now: int) -> Outcome:
    was = found.session
    if was is None:
        if not is_segment(op.context_id):
            return invalid({"context_id": NO_SEGMENT})
        begun = _begin(op.scope, op.context_id, op, now)
        return Write(session=begun, answer=commands.Created(session=begun, created=True), new=True)
    session = was._replace(agent=op.agent or was.agent, title=op.title or was.title, source=op.source or was.source)
    if session == was:
        return commands.Created(session=was, created=False)
    session = _changed(session, now)
    return Write(session=session, answer=commands.Created(session=session, created=False))


def _update(found: Found, op: commands.Update, now: int) -> Outcome:
    was = found.session
    if was is None:
        return session_not_found(op.context_id)
    if op.expected_version and op.expected_version != was.version:
        return version_mismatch(op.context_id, op.expected_version, was.version)
    session = was._replace(
        title=was.title if op.title is None else op.title,
        agent=was.agent if op.agent is None else op.agent,
    )
    session = _changed(session, now)
    return Write(session=session, answer=session)


def _changed(session: Session, now: int) -> Session:
    return session._replace(version=session.version + 1, updated_at=max(now, session.updated_at))


def _touch(found: Found, op: commands.Touch, now: int) -> Outcome:
    was = found.session
    if was is None:
        return session_not_found(op.context_id)
    if op.task_id and found.deletions is not None and op.task_id in found.deletions.tasks:
        return task_deleted(op.task_id)
    session = was._replace(updated_at=max(now, was.updated_at))
    return Write(session=session, answer=session)


def _delete(found: Found, op: commands.Delete, _now: int) -> Outcome:
    was = found.session
    if was is None:
        return session_not_found(op.context_id)
    if op.expected_version and op.expected_version != was.version:
        return version_mismatch(op.context_id, op.expected_version, was.version)
    return Write(session=was, answer=was, delete=True, tasks_until=op.tasks_until)


def _append(found: Found, op: commands.Append, now: int) -> Outcome:
    was = found.session
    if was is None and op.create is None:
        return session_not_found(op.context_id)
    if was is None and not is_segment(op.context_id):
        return invalid({"context_id": NO_SEGMENT})
    known: list[Entry] = []
    given = op.entries
    if found.stored:
        for entry in given:
            stored = found.stored.get(entry.id)
            if stored is None:
                continue
            if not repeats(stored, entry):
                return key_reused(entry.id)
            known.append(stored)
        given = [entry for entry in given if entry.id not in found.stored]
    if found.deletions is not None:
        refused = next(filter(found.deletions.refuse, op.entries), None)
        if refused is not None:
            return task_deleted(refused.id)
    if was is not None and not given:
        return commands.Appended(session=was, appended=0, known=known)
    version = was.version if was is not None else 0
    if op.expected_version and op.expected_version != version:
        return version_mismatch(op.context_id, op.expected_version, version)
    given, renamed = _under_own_ids(found, op, given)
    begun = was or _begin(op.scope, op.context_id, op.create or commands.NewSession(), now)
    if op.title is not None:
        begun = begun._replace(title=op.title)
    session, new = grow(begun, given, now)
    answer = commands.Appended(session=session, appended=len(new), known=known)
    if renamed:
        answer.renamed = op.entries[0].id in renamed
        answer.answer_renamed = op.entries[-1].id in renamed
    deltas = [(entry.seq, op.deltas[entry.id]) for entry in new if entry.id in op.deltas] if op.deltas else ()
    return Write(session=session, entries=new, deltas=deltas, answer=answer, new=was is None)


def _under_own_ids(found: Found, op: commands.Append, given: Sequence[Entry]) -> tuple[Sequence[Entry], Set[str]]:
    """Return the new entries, and the ids of those whose message got a new id because its id was used."""
    if not op.own_ids:
        return given, frozenset()
    used = set(found.said)
    entries: list[Entry] = []
    renamed: set[str] = set()
    for entry in given:
        own = op.own_ids.get(entry.id)
        if own is not None and entry.message_id in used:
            renamed.add(entry.id)
            entry = entry._replace(payload=with_message_id(entry.payload, own), message_id=own)
        if entry.message_id is not None:
            used.add(entry.message_id)
        entries.append(entry)
    return entries, renamed


_RULES: dict[type[Operation], Callable[[Found, Any, int], Outcome]] = {
    commands.Create: _create,
    commands.Update: _update,
    commands.Delete: _delete,
    commands.Append: _append,
    commands.Rewind: rewinds.rewind,
    commands.Undo: rewinds.undo,
    commands.MarkApplied: rewinds.mark_applied,
    commands.Touch: _touch,
}
