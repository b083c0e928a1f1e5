"""What may be asked of a session, and what comes of it. Each operation concerns one session.

Nothing here is changed once it is made. It is not frozen: that would make it several times as dear to make.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from taskplane.sessions.domain.session import Entry, Scope, Session


@dataclass(slots=True, kw_only=True)
class Create:
    """A session, or new values for the one that is there; an empty value leaves its own. Answer: `Created`."""

    scope: Scope
    context_id: str
    agent: str = ""
    title: str = ""
    source: str = ""


@dataclass(slots=True, kw_only=True)
class Update:
    """New values for a session that is there; None leaves its own. Answer: `Session`."""

    scope: Scope
    context_id: str
    title: str | None = None
    agent: str | None = None


@dataclass(slots=True, kw_only=True)
class Delete:
    """Removes a session with all its entries. Answer: the `Session` as it was."""

    scope: Scope
    context_id: str


@dataclass(slots=True, kw_only=True)
class NewSession:
    """What a session that does not exist yet begins with."""

    agent: str = ""
    title: str = ""
    source: str = ""


@dataclass(slots=True, kw_only=True)
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


Answer = Session | Created | Appended


@dataclass(slots=True, kw_only=True)
class Write:
    """What is to be written, and the answer once that is committed.

    `session` is the row as it will be; `new`: there is none yet. `delete` removes it and its entries.
    """

    session: Session
    answer: Answer
    entries: Sequence[Entry] = ()
    new: bool = False
    delete: bool = False


@dataclass(slots=True, kw_only=True)
class Found:
    """What was read for one operation before it is decided.

    `session` is the one it names in its scope. `stored` has, by id, those entries that it would append and that its
    owner has stored already, in whatever session, without their payload.
    """

    session: Session | None
    stored: Mapping[str, Entry]
