"""What may be asked of a session, and what comes of it. Each operation concerns one session."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from taskplane.sessions.domain.session import Entry, Scope, Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """A session, or new values for the one that is there; an empty value leaves its own. Answer: `Created`."""

    scope: Scope
    context_id: str
    agent: str = ""
    title: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """New values for a session that is there; None leaves its own. Answer: `Session`."""

    scope: Scope
    context_id: str
    title: str | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Removes a session with all its entries. Answer: the `Session` as it was."""

    scope: Scope
    context_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """What a session that does not exist yet begins with."""

    agent: str = ""
    title: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Entries for one session, all or none; their `seq` and `created_at` are given here. Answer: `Appended`.

    `create` makes the session where there is none. `expected_version` 0: any.
    """

    scope: Scope
    context_id: str
    entries: Sequence[Entry]
    create: NewSession | None = None
    expected_version: int = 0


Operation = Create | Update | Delete | Append


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """`created`: it was not there before."""

    session: Session
    created: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The session as it is now, and what is stored under each id in the order asked.

    `known` are the ids that were stored before; the other entries are new, and are here as they were given.
    """

    session: Session
    entries: Sequence[Entry]
    known: Set[str] = frozenset()


Answer = Session | Created | Appended


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """What is to be written, and the answer once that is committed.

    `session` is the row as it will be; `new`: there is none yet. `delete` removes it and its entries.
    """

    session: Session
    answer: Answer
    entries: Sequence[Entry] = ()
    new: bool = False
    delete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was read for one operation before it is decided.

    `session` is the one it names in its scope. `stored` has, by id, those entries that it would append and that its
    owner has stored already, in whatever session, without their payload.
    """

    session: Session | None
    stored: Mapping[str, Entry]
