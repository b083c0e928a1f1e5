"""The operations on sessions, their answers and writes. Each operation concerns one session.

No instance may be changed after its construction. The classes are not frozen, since a frozen instance takes several
times as long to construct.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from taskplane.runtime.errors import PlaneError
from taskplane.sessions.domain.deleting import Deletions
from taskplane.sessions.domain.replay import Line
from taskplane.sessions.domain.session import Entry, Scope, Session, new_salt
from taskplane.sessions.domain.state import Change, Delta


@dataclass(slots=True, kw_only=True)
class NewSession:
    """The values of a session that is made."""

    agent: str = ""
    title: str = ""
    source: str = ""
    salt: int = field(default_factory=new_salt)


@dataclass(slots=True, kw_only=True)
class Create(NewSession):
    """Create a session, or give new values to an existing session; an empty value changes nothing. Answer:
    `Created`."""

    scope: Scope
    context_id: str


@dataclass(slots=True, kw_only=True)
class Update:
    """Give an existing session new values; None changes nothing. `expected_version` 0: any. Answer: `Session`."""

    scope: Scope
    context_id: str
    title: str | None = None
    agent: str | None = None
    expected_version: int = 0


@dataclass(slots=True, kw_only=True)
class Delete:
    """Remove a session with all its entries. `expected_version` 0: any. Answer: the `Session` as it was.

    `tasks_until`, in microseconds since 1970: its tasks up to then are to be deleted, too; 0: they are not recorded.
    """

    scope: Scope
    context_id: str
    expected_version: int = 0
    tasks_until: int = 0


@dataclass(slots=True, kw_only=True)
class Append:
    """Append all entries to one session, or none of them; the store sets their `seq` and `created_at`. Answer:
    `Appended`.

    `create` makes the session if there is none. `expected_version` 0: any. `deltas`: the changes of the state by
    events, by the id of their entry. `own_ids`: by the id of the entry, those under which messages are stored if the
    session has a message under that which they have. `openings`: how the messages begin of a task that one of the
    entries deletes. `title`: the new one, if that of the session is made of one of them.
    """

    scope: Scope
    context_id: str
    entries: Sequence[Entry]
    create: NewSession | None = None
    expected_version: int = 0
    deltas: Mapping[str, Delta] = field(default_factory=dict[str, Delta])
    own_ids: Mapping[str, str] = field(default_factory=dict[str, str])
    openings: Sequence[str] = ()
    title: str | None = None


@dataclass(slots=True, kw_only=True)
class Rewind:
    """Cut an invocation and all first seen after it: `entry` is the rewind, its `target` the invocation.

    `expected_version` 0: any. Answer: `Rewound`; if the invocation is not in effect, NotFound; the entry is stored then
    as well, without effect.
    """

    scope: Scope
    context_id: str
    entry: Entry
    expected_version: int = 0


@dataclass(slots=True, kw_only=True)
class Undo:
    """Take back the newest rewind that counts: `entry` is the undo. `expected_version` 0: any. Answer: `Rewound`."""

    scope: Scope
    context_id: str
    entry: Entry
    expected_version: int = 0


@dataclass(slots=True, kw_only=True)
class MarkApplied:
    """Record that the session's tasks are in line with its history up to entry `seq`. Answer: the `Session`."""

    scope: Scope
    context_id: str
    seq: int


@dataclass(slots=True, kw_only=True)
class Touch:
    """Record that a task of the session changed now. Answer: the `Session`. `task_id`: do nothing if this task was
    deleted."""

    scope: Scope
    context_id: str
    task_id: str = ""


@dataclass(slots=True, kw_only=True)
class Fork:
    """Create a session from the entries in effect of another session before an invocation ("": from all of them).

    Answer: `Created`. Never part of a batch. `title` "": the title of the other session.
    """

    scope: Scope
    context_id: str
    new_context_id: str
    before: str = ""
    title: str = ""
    salt: int = field(default_factory=new_salt)


Operation = Create | Update | Delete | Append | Rewind | Undo | MarkApplied | Touch


@dataclass(slots=True, kw_only=True)
class Created:
    """Answer to Create and Fork. `created`: the session is new."""

    session: Session
    created: bool


@dataclass(slots=True, kw_only=True)
class Appended:
    """Answer to Append: the present session, and the number of entries that were `appended`, which are its newest.

    `known` are the other entries of the request, in its order, as they were stored before. `renamed`: the message of
    the first one was stored under its id of `own_ids`; `answer_renamed`: that of the last one.
    """

    session: Session
    appended: int
    known: Sequence[Entry] = ()
    renamed: bool = False
    answer_renamed: bool = False


@dataclass(slots=True, kw_only=True)
class Rewound:
    """Answer to Rewind and Undo: the number of the entry, and the present session.

    `done`: True if this call did it, False for a repeat.
    """

    seq: int
    session: Session
    done: bool


Answer = Session | Created | Appended | Rewound


@dataclass(slots=True, kw_only=True)
class Write:
    """The writes of a decided operation, and the answer once they are committed; it may be a refusal.

    `session` is the new row; `new`: the row must be inserted. `delete` removes the session and its entries; if
    `tasks_until` is set, the deletion is recorded. `deltas`: the changes of the state by those entries that are events,
    with their numbers.
    """

    session: Session
    answer: Answer | PlaneError
    entries: Sequence[Entry] = ()
    deltas: Sequence[tuple[int, Delta]] = ()
    new: bool = False
    delete: bool = False
    tasks_until: int = 0


Outcome = Write | Answer | PlaneError


@dataclass(slots=True, kw_only=True)
class Found:
    """The data read for one operation before it is decided.

    `session` is the session that it names in its scope. `stored` has, by id and without payload, the entries of the
    operation that its owner has stored already, in any session. `lines` are all entries of the session, if
    `needs_lines` says so, and `changes` the changes of its state by events, to be iterated once. `said` are those ids
    of messages to append that may be stored under another id, under which it has a message. `deletions`: those of the
    session's tasks with their ids, for appends and touches.
    """

    session: Session | None
    stored: Mapping[str, Entry]
    lines: Sequence[Line] = ()
    changes: Iterable[Change] = ()
    said: Set[str] = frozenset()
    deletions: Deletions | None = None


def needs_lines(op: Operation, stored: Mapping[str, Entry]) -> bool:
    """Return whether `op` cannot be decided without the lines of its session."""
    return isinstance(op, Rewind | Undo) and not stored
