"""The operations on sessions, their answers and writes. Each operation concerns one session.

Never change an instance after its construction. The classes are not frozen: the construction of a frozen instance takes
several times as long.
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
    """The values of a new session."""

    agent: str = ""
    title: str = ""
    source: str = ""
    salt: int = field(default_factory=new_salt)


@dataclass(slots=True, kw_only=True)
class Create(NewSession):
    """Create a session, or set new values in an existing session. An empty value changes nothing. Answer: `Created`."""

    scope: Scope
    context_id: str


@dataclass(slots=True, kw_only=True)
class Update:
    """Set new values in an existing session. None changes nothing. `expected_version` 0: any. Answer: `Session`."""

    scope: Scope
    context_id: str
    title: str | None = None
    agent: str | None = None
    expected_version: int = 0


@dataclass(slots=True, kw_only=True)
class Delete:
    """Remove a session with all its entries. `expected_version` 0: any. Answer: the `Session` before the deletion.

    `tasks_until`, in microseconds since 1970: the tasks of the session up to this time are recorded for deletion; 0: no
    tasks are recorded.
    """

    scope: Scope
    context_id: str
    expected_version: int = 0
    tasks_until: int = 0


@dataclass(slots=True, kw_only=True)
class Append:
    """Append all entries to one session, or none. The store sets their `seq` and `created_at`. Answer: `Appended`.

    `create`: the values of the session, if it is missing. `expected_version` 0: any. `deltas`: the changes of the state
    by events, by the id of their entry. `own_ids`: replacements for message ids, by the id of the entry. A replacement
    is used if the session has a message with the old id. `openings`: beginnings of the messages of a task that one of
    the entries deletes. `title`: the replacement for a title that was made from one of the `openings`.
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
    """Cut an invocation and all later invocations. `entry` is the rewind, its `target` the invocation.

    `expected_version` 0: any. Answer: `Rewound`, or NotFound if the invocation is not in effect. After NotFound the
    entry is stored without effect.
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
    """Record that the session's tasks reflect its history up to entry `seq`. Answer: the `Session`."""

    scope: Scope
    context_id: str
    seq: int


@dataclass(slots=True, kw_only=True)
class Touch:
    """Record a change of a task of the session, at the present time. Answer: the `Session`. `task_id`: do nothing if
    this task was deleted."""

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
    """Answer to Append: the present session, and the number of `appended` entries. They are the newest entries.

    `known`: the other entries of the request, in its order, as stored before. `renamed`: the message of the first entry
    got its id from `own_ids`. `answer_renamed`: the same for the last entry.
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
    """The writes of a decided operation, and the answer after their commit. The answer may be a refusal.

    `session`: the new row. `new`: the row must be inserted. `delete`: remove the session and its entries; `tasks_until`
    records the deletion. `deltas`: the changes of the state by events, with the numbers of the events.
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
    """The data read for the decision of one operation.

    `session`: the session of the operation, if it exists. `stored`: the entries of the operation that the owner has in
    any session, by id and without payload. `lines`: all entries of the session, if `needs_lines`. `changes`: the
    changes of its state by events, to be iterated once. `said`: used ids of messages to append, for messages with a
    replacement id. `deletions`: the deletions of the session's tasks with the task ids, for appends and touches.
    """

    session: Session | None
    stored: Mapping[str, Entry]
    lines: Sequence[Line] = ()
    changes: Iterable[Change] = ()
    said: Set[str] = frozenset()
    deletions: Deletions | None = None


def needs_lines(op: Operation, stored: Mapping[str, Entry]) -> bool:
    """Return whether the decision of `op` needs the lines of its session."""
    return isinstance(op, Rewind | Undo) and not stored
