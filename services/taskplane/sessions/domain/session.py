"""Sessions, the entries of their logs, and the kinds of entries."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from taskplane.runtime.ids import random_bytes
from taskplane.storage.fields import Fixed, Free, Growing, Small

# Stored numbers of the kinds of entries. A test compares them with the contract.
MESSAGE: Final = 1
OUTCOME: Final = 2
EVENT: Final = 3
REWIND: Final = 4
UNDO: Final = 5
VOID: Final = 6
PUSHED: Final = 7
KINDS: Final[Mapping[int, str]] = {
    MESSAGE: "MESSAGE",
    OUTCOME: "OUTCOME",
    EVENT: "EVENT",
    REWIND: "REWIND",
    UNDO: "UNDO",
    VOID: "VOID",
    PUSHED: "PUSHED",
}
# Kinds with a message: a message of the user or of a task, or the outcome of a turn.
SAID: Final = frozenset({MESSAGE, OUTCOME})
# The mark of a reduced invocation, before the invocation in `Entry.listed`. No id begins with this mark.
REDUCED: Final = "\t"
# Marks of lines in `Entry.listed` of the void of a deleted task. A line is the id of a turn, or `HIDDEN` with two
# numbers (a message of a pushed history), or `WORDS` with an id (another entry with deleted words).
HIDDEN: Final = "\t"
WORDS: Final = "\t\t"


class Scope(NamedTuple):
    """The owner of the sessions that an operation may touch, and the actor of its entries."""

    tenant: str
    owner: str
    actor: str


class Session(NamedTuple):
    """A session without its entries. Times are microseconds since 1970, UTC.

    The fields are the columns of the table, in its order. Their aliases give the rules of the triggers.

    `seq` is the number of the newest entry. Entries are numbered without a gap, so `seq` is also the count of entries.
    """

    tenant: Fixed[str]
    owner: Fixed[str]
    context_id: Fixed[str]
    seq: Growing[int]
    # The version rises by one with every entry and every change of the session itself. A session without entries begins
    # at 1.
    version: Growing[int]
    agent: Free[str]
    title: Free[str]
    source: Free[str]
    has_session_task: Growing[bool]
    created_at: Fixed[int]
    updated_at: Free[int]
    # The number of the newest entry that changes the effect of earlier entries; 0: there is no such entry.
    steered_seq: Growing[int] = 0
    # The tasks of the session reflect `steered_seq` up to this entry. Never more than `steered_seq`.
    applied_seq: Growing[int] = 0
    # The name of the fork, if the session is a copy of a part of another session (see `domain.forking`).
    forked_from: Fixed[str] = ""
    # Random. Earlier and later sessions with the same id have other salts. 0: the session is older than salts.
    salt: Fixed[int] = 0

    @property
    def unapplied(self) -> bool:
        """Return whether a change of the history is not applied to the tasks yet."""
        return self.applied_seq < self.steered_seq


def new_salt() -> int:
    """Return a salt for a new session."""
    return 1 + int.from_bytes(random_bytes()[:7])


class Entry(NamedTuple):
    """An entry of a session's log; its fields are the columns of the table, in its order.

    `payload`: in the stored form of `domain.payload`; None for an entry without payload, or an unread payload.
    `target`: the invocation of a rewind or a void, also of the event of an agent runtime that rewinds by itself.
    `speaks`: the payload is an A2A message that a conversation shows. `message_id`: the id of this message; None: the
    id is missing or cannot be stored, or the entry is older than this field. `listed`: for a pushed history, a line for
    each message with its invocation, or empty; for the void of a deleted task, the hidden entries, after a line feed
    (see `domain.deleting`); "" for any other entry.
    """

    tenant: str
    owner: str
    context_id: str
    seq: int
    id: str
    kind: Small
    invocation_id: str
    task_id: str
    task_invocation_id: str
    generation: int
    actor: str
    request_hash: bytes | None
    target: str
    off: bool
    speaks: bool
    listed: str
    payload: bytes | None
    created_at: int
    message_id: str | None = None


def grow(was: Session, given: Sequence[Entry], now: int) -> tuple[Session, list[Entry]]:
    """Return the session with these entries added, and the entries to store, with numbers and times."""
    now = max(now, was.updated_at)
    new = [_numbered(entry, seq, now) for seq, entry in enumerate(given, was.seq + 1)]
    has_session_task, steered_seq = was.has_session_task, was.steered_seq
    for entry in new:
        if entry.kind != MESSAGE:
            has_session_task = has_session_task or begins_session_task(entry)
            steered_seq = entry.seq if changes_history(entry) else steered_seq
    session = was._replace(
        seq=was.seq + len(new),
        version=was.version + len(new),
        has_session_task=has_session_task,
        updated_at=now,
        steered_seq=steered_seq,
    )
    return session, new


def _numbered(given: Entry, seq: int, now: int) -> Entry:
    return Entry._make((*given[:_SEQ], seq, *given[_SEQ + 1 : _CREATED_AT], now, *given[_CREATED_AT + 1 :]))


_SEQ: Final = Entry._fields.index("seq")
_CREATED_AT: Final = Entry._fields.index("created_at")


def begins_session_task(entry: Entry) -> bool:
    """Return whether the session has a session task after this entry: a rewind, pushed history or direct answer."""
    if entry.kind == OUTCOME:
        return entry.speaks
    return entry.kind not in (UNDO, VOID) and changes_history(entry)


def changes_history(entry: Entry) -> bool:
    """Return whether the entry changes the effect of earlier entries, and so the display of tasks.

    The void of a deleted task changes the effect. An ordinary void does not: it concerns one turn only.
    """
    if entry.kind == EVENT:
        return bool(entry.target)
    if entry.kind == VOID:
        return bool(entry.listed)
    return entry.kind in (UNDO, PUSHED) or (entry.kind == REWIND and not entry.off)


def repeats(stored: Entry, given: Entry) -> bool:
    """Return whether two entries with one id, a stored and a given one, have the same session and request."""
    if stored.context_id != given.context_id:
        return False
    return not stored.request_hash or not given.request_hash or stored.request_hash == given.request_hash
