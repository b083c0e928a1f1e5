"""What may be asked of a session, and what comes of it. Each operation concerns one session.

Nothing here is changed once it is made. It is not frozen: that would make it several times as dear to make.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from taskplane.runtime.errors import PlaneError
from taskplane.sessions.domain.replay import Line
from taskplane.sessions.domain.session import Entry, Scope, Session, new_salt
from taskplane.sessions.domain.state import Change, Delta


@dataclass(slots=True, kw_only=True)
class Create:
    """A session, or new values for the one that is there; an empty value leaves its own. Answer: `Created`."""

    scope: Scope
    context_id: str
    agent: str = ""
    title: str = ""
    source: str = ""
    salt: int = field(default_factory=new_salt)


@dataclass(slots=True, kw_only=True)
class Update:
    """New values for a session that is there; None leaves its own. `expected_version` 0: any. Answer: `Session`."""

    scope: Scope
    context_id: str
    title: str | None = None
    agent: str | None = None
    expected_version: int = 0


@dataclass(slots=True, kw_only=True)
class Delete:
    """Removes a session with all its entries. `expected_version` 0: any. Answer: the `Session` as it was.

    `tasks_until`, in microseconds since 1970: its tasks of then are to follow; 0: nothing is remembered of them.
    """

    scope: Scope
    context_id: str
    expected_version: int = 0
    tasks_until: int = 0


@dataclass(slots=True, kw_only=True)
class NewSession:
    """What a session that does not exist yet begins with."""

    agent: str = ""
    title: str = ""
    source: str = ""
    salt: int = field(default_factory=new_salt)


@dataclass(slots=True, kw_only=True)
class Append:
    """Entries for one session, all or none; their `seq` and `created_at` are given here. Answer: `Appended`.

    `create` makes the session where there is none. `expected_version` 0: any. `deltas`: what events change of the
    state, by the id of their entry.
    """

    scope: Scope
    context_id: str
    entries: Sequence[Entry]
    create: NewSession | None = None
    expected_version: int = 0
    deltas: Mapping[str, Delta] = field(default_factory=dict[str, Delta])


@dataclass(slots=True, kw_only=True)
class Rewind:
    """Cuts an invocation and all first seen after it: `entry` is the rewind, its `target` the invocation.

    `expected_version` 0: any. Answer: `Rewound`; where the invocation is not in effect, NotFound, and the entry is
    stored all the same, as one without effect.
    """

    scope: Scope
    context_id: str
    entry: Entry
    expected_version: int = 0


@dataclass(slots=True, kw_only=True)
class Undo:
    """Takes the newest rewind that counts back: `entry` is the undo. `expected_version` 0: any. Answer: `Rewound`."""

    scope: Scope
    context_id: str
    entry: Entry
    expected_version: int = 0


@dataclass(slots=True, kw_only=True)
class MarkApplied:
    """The session's tasks are in line with its history up to entry `seq`. Answer: the `Session`."""

    scope: Scope
    context_id: str
    seq: int


@dataclass(slots=True, kw_only=True)
class Fork:
    """A new session of what is in effect in another one before an invocation ("": of all). Answer: `Created`.

    It is no part of a batch. `title` "": that of the other one.
    """

    scope: Scope
    context_id: str
    new_context_id: str
    before: str = ""
    title: str = ""
    salt: int = field(default_factory=new_salt)


Operation = Create | Update | Delete | Append | Rewind | Undo | MarkApplied


@dataclass(slots=True, kw_only=True)
class Created:
    """`created`: it was not there before."""

    session: Session
    created: bool


@dataclass(slots=True, kw_only=True)
class Appended:
    """The session as it is now, and how many entries were `appended` to it: the newest it has.

    `known` are the others, in the order asked, as they were stored before.
    """

    session: Session
    appended: int
    known: Sequence[Entry] = ()


@dataclass(slots=True, kw_only=True)
class Rewound:
    """Which entry steers, and the session as it is now. `done`: by this call, not by an earlier one."""

    seq: int
    session: Session
    done: bool


Answer = Session | Created | Appended | Rewound


@dataclass(slots=True, kw_only=True)
class Write:
    """What is to be written, and the answer once that is committed; it may be a refusal.

    `session` is the row as it will be; `new`: there is none yet. `delete` removes it and its entries, and `tasks_until`
    is what stays. `deltas`: what those of the entries that are events change of the state, with their numbers.
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
    """What was read for one operation before it is decided.

    `session` is the one it names in its scope. `stored` has, by id, those entries that it would append and that its
    owner has stored already, in whatever session, without their payload. `lines` are all entries of the session, where
    `needs_lines` says so, and `changes` what its events did to its state, to be gone through once.
    """

    session: Session | None
    stored: Mapping[str, Entry]
    lines: Sequence[Line] = ()
    changes: Iterable[Change] = ()


def needs_lines(op: Operation, stored: Mapping[str, Entry]) -> bool:
    """Whether `op` cannot be decided without the lines of its session."""
    return isinstance(op, Rewind | Undo) and not stored
