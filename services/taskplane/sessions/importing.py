"""Import of exported sessions: builds an entry from each line, and checks that the lines fit together. No I/O."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.runtime.errors import AlreadyExists, Invalid
from taskplane.runtime.times import micros
from taskplane.runtime.validation import invalid
from taskplane.sessions.domain.payload import listed, listed_deletion, message_id_in, pack, read_event
from taskplane.sessions.domain.session import (
    EVENT,
    SAID,
    Entry,
    Scope,
    Session,
    begins_session_task,
    changes_history,
)
from taskplane.sessions.domain.state import read_delta
from taskplane.sessions.operation_checks import SessionFields, check_deletion, check_imported, check_payload


class ImportedEntry(NamedTuple):
    """An entry in its stored form. `own`: its change of the session's state (`Delta.own`); empty: no change."""

    entry: Entry
    own: bytes


def read_session(record: bytes, scope: Scope, context_id: str) -> Session:
    """Read the session from the first record. Invalid: the record is not a session, or its values contradict each
    other."""
    given = _record(record)
    if given.WhichOneof("record") != "session":
        raise wrong(given.line, "the session must come first", "IMPORT_ORDER")
    of = given.session
    created_at, updated_at = micros(of.created_at), micros(of.updated_at)
    fields = SessionFields()
    fields.described(f"line {given.line}: ", of.agent, of.title, of.source)
    fields.time(f"line {given.line}: created_at", created_at)
    fields.time(f"line {given.line}: updated_at", updated_at)
    fields.check()
    count = of.entry_count
    if not 0 <= count < of.version < 1 << 62 or not 0 <= of.applied_seq <= of.steered_seq <= count:
        raise wrong(given.line, "the numbers of the session contradict each other")
    return Session(
        scope.tenant,
        scope.owner,
        context_id,
        count,
        of.version,
        of.agent,
        of.title,
        of.source,
        of.has_session_task,
        created_at,
        updated_at,
        of.steered_seq,
        of.applied_seq,
    )


class SessionReader:
    """Reads the entries of `session` one after the other, and checks at the end that no entry is missing."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seq = 0
        self._line = 0
        self._changed_at = 0
        self._has_task = False

    def entry(self, record: bytes) -> ImportedEntry:
        """Read the next entry. Invalid, with the `line`: the line is not an entry, not the next entry, or cannot be
        stored."""
        given = _record(record)
        self._line = line = given.line
        if given.WhichOneof("record") != "entry":
            raise wrong(line, "an entry was expected", "IMPORT_ORDER")
        self._seq += 1
        if given.entry.seq != self._seq or self._seq > self._session.seq:
            raise wrong(line, f"the entry has the number {given.entry.seq}, expected {self._seq}", "IMPORT_ORDER")
        try:
            found = _entry(given.entry, self._session)
        except Invalid as error:
            raise wrong(line, error.message, error.reason) from error
        if changes_history(found.entry):
            self._changed_at = self._seq
        self._has_task = self._has_task or begins_session_task(found.entry)
        return found

    def check_end(self) -> None:
        """Raise Invalid if the entries do not agree with the values of the session."""
        of = self._session
        # A fork has its session task from the beginning, with any entries.
        if self._seq != of.seq or self._changed_at != of.steered_seq or (self._has_task and not of.has_session_task):
            raise wrong(self._line, "the number of entries differs from the one in the header")


def _entry(given: pb.Entry, of: Session) -> ImportedEntry:
    kind, which = int(given.kind), given.WhichOneof("payload")
    check_payload("entry", kind, which)
    own, listing, target = b"", "", given.target
    if kind == EVENT:
        said = read_event(given.data)
        delta = read_delta(0, said.state_delta, said.artifact_delta)
        own, target = delta.own if delta is not None else b"", said.rewinds_before
        if given.target and given.target != target:
            raise invalid({"entry.target": "must be that of its data"})
    elif which == "pushed":
        listing = listed(given.pushed)
    elif which == "deleted":
        deleted = given.deleted
        check_deletion("entry", given.task_id, deleted.invocation_ids, deleted.entry_ids, off=given.off)
        listing = listed_deletion(given)
    restored = pb.Entry(state_delta=given.state_delta) if given.HasField("state_delta") else pb.Entry()
    restored.artifact_versions.update(given.artifact_versions)
    said_here = pack(given, which) or b""
    payload = said_here + restored.SerializeToString(deterministic=True)
    created_at = micros(given.created_at)
    speaks = which == "message" and kind in SAID
    entry = Entry(
        of.tenant,
        of.owner,
        of.context_id,
        given.seq,
        given.id,
        kind,
        given.invocation_id,
        given.task_id,
        given.task_invocation_id,
        given.generation,
        given.actor,
        given.request_hash or None,
        target if kind != EVENT or given.target else "",
        given.off,
        speaks,
        listing,
        payload or None,
        created_at,
        message_id_in(given.message) if speaks else None,
    )
    check_imported(entry, len(said_here))
    return ImportedEntry(entry, own)


def check_new(chunk: Sequence[tuple[int, Entry]], stored: Iterator[Entry], context_id: str) -> None:
    """Raise Invalid `DUPLICATE_ID` if an id comes twice, AlreadyExists `ENTRY_EXISTS` if the owner has it elsewhere."""
    seen: set[str] = set()
    lines = {entry.id: line for line, entry in chunk}
    for line, entry in chunk:
        if entry.id in seen:
            raise wrong(line, f"the id {entry.id} occurs twice", "DUPLICATE_ID")
        seen.add(entry.id)
    for one in stored:
        if one.context_id == context_id:
            raise wrong(lines[one.id], f"the id {one.id} occurs twice", "DUPLICATE_ID")
        raise AlreadyExists(
            f"entry {one.id} is stored already, in session {one.context_id}",
            reason="ENTRY_EXISTS",
            suggestion="import the session under another id",
            metadata={"line": str(lines[one.id])},
        )


def line_of(record: bytes) -> int:
    """Return the line of a record."""
    return _record(record).line


def wrong(line: int, what: str, reason: str = "IMPORT_MISMATCH") -> Invalid:
    """Return the error for a line that cannot be imported."""
    return Invalid(f"line {line}: {what}", reason=reason, metadata={"line": str(line)})


def _record(record: bytes) -> pb.ImportRecord:
    try:
        return pb.ImportRecord.FromString(record)
    except DecodeError:
        raise Invalid("the record cannot be parsed", reason="IMPORT_UNREADABLE") from None
