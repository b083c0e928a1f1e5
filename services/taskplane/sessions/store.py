"""The port of the session log, in parts by responsibility; each consumer takes the part that it needs.

The promises below hold for every method and every database. An answer is given after its transaction is committed and
synced, and every read is one snapshot of committed data. A session of another owner is answered like one that does not
exist. Besides the errors named with it each method raises Invalid for values that could never be stored or listed (see
`operation_checks`), and Unavailable where the database cannot be reached: a read may be repeated, and so may an append,
since a repeat of one that had taken effect is answered with its stored entries. Exhausted: too much is waiting already;
nothing was changed, try again after `retry_after` seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from google.protobuf.struct_pb2 import Struct

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.history import CutTurns
from taskplane.sessions.domain.session import Entry, Scope, Session

MAX_PAGE_SIZE: Final = 1000
# The maximum number of payload bytes in one page and in one reply. Replies are limited to 64 MiB.
PAGE_BYTES: Final = 8 * 1024 * 1024
REPLY_BYTES: Final = 60 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SessionPage:
    """A page of sessions. `next_page_token` is empty on the last page."""

    sessions: Sequence[Session]
    next_page_token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter:
    """A filter of the entries of a session; an empty field does not filter.

    `effective`: only entries in effect, in reading order; without `kinds` only messages, direct answers, and the pushed
    history before them. `distinct`, which needs `effective`: of messages with one id only the first one; a page then
    counts messages, also those of a pushed history, of which it has those that belong on it. `skip`, which needs
    `effective`: the number of entries to pass over from the page token on. `known`, which needs `effective` alone,
    oldest first: the `listing` of an earlier page of the same listing; the first page begins where it is different now.
    `message_id`, not with `effective`: entries with a message that a conversation shows under this id; of those that
    are older than `Entry.message_id` none.
    """

    effective: bool = False
    kinds: Sequence[int] = ()
    task_id: str = ""
    newest_first: bool = False
    distinct: bool = False
    skip: int = 0
    known: str = ""
    message_id: str = ""
    page_size: int = MAX_PAGE_SIZE
    page_token: str = ""


@dataclass(frozen=True, slots=True)
class EntryPage:
    """A page of entries. `session` is as it was when they were read; `next_page_token` is empty on the last page.

    In a list of entries in effect: `has_events`, if the session has events of an agent runtime, in effect or not;
    `listing` names it, as it was then; `unchanged` is the number of entries that it has in common with the known one.
    """

    session: Session
    entries: Sequence[Entry]
    next_page_token: str
    has_events: bool = False
    listing: str = ""
    unchanged: int = 0


class MessageIds(NamedTuple):
    """The ids of the messages in effect, and the session at the same point.

    `ends`: of each turn, by the invocation that began it, the number of messages up to its end. `page_token`: lists the
    messages by `entries`. With events these are among the messages: an event beside a turn follows the later ones.
    """

    session: Session
    ids: Sequence[str]
    ends: Mapping[str, int]
    page_token: str
    has_events: bool


class UnappliedSession(NamedTuple):
    """A session with changes that are not applied to its tasks. `updated_at`: microseconds since 1970."""

    tenant: str
    owner: str
    context_id: str
    updated_at: int


class ExpiredSession(NamedTuple):
    """A session that was not written to for long. `created_at`: microseconds since 1970."""

    tenant: str
    owner: str
    context_id: str
    created_at: int
    version: int


class Remains(NamedTuple):
    """A deleted session with tasks still to be deleted: those changed last up to `tasks_until`.

    `tasks_until`: microseconds since 1970.
    """

    tenant: str
    owner: str
    context_id: str
    tasks_until: int


class UnsettledTurn(NamedTuple):
    """A turn that may have come to nothing. `task_id`: the task that it was to become; "": it was not decided."""

    tenant: str
    owner: str
    context_id: str
    invocation_id: str
    task_id: str


class UnsettledPage(NamedTuple):
    """A page of unsettled turns.

    `until`: the time up to which was looked, for `mark_settled` (microseconds since 1970); None: there was nothing.
    `more`: there may be more from there on.
    """

    turns: Sequence[UnsettledTurn]
    until: int | None
    more: bool


class AbandonedTurns(NamedTuple):
    """Turns that nobody has made anything of, counted. `oldest`: when the first was begun (microseconds since 1970).

    `bounded`: there may be more.
    """

    turns: int
    oldest: int | None
    bounded: bool


class WatchLog(Protocol):
    """Reads of one session and of its newest entries."""

    async def session(self, scope: Scope, context_id: str) -> Session:
        """Return the session without its entries. Raise NotFound."""
        ...

    async def after(self, scope: Scope, context_id: str, seq: int, limit: int) -> EntryPage:
        """Return the entries after number `seq`, oldest first: at most `limit`, fewer if they are large. Raise
        NotFound."""
        ...

    async def heads(self, keys: Sequence[tuple[str, str, str]]) -> Mapping[tuple[str, str, str], tuple[int, int]]:
        """Return the time of creation and the number of entries of each session, by (tenant, owner, context id).

        A session that does not exist is left out.
        """
        ...


class ReadLog(WatchLog, Protocol):
    """Reads of sessions, their entries, their effective history and their state."""

    async def list(self, scope: Scope, page_size: int, page_token: str, title: str = "") -> SessionPage:
        """Return one page of the sessions of `scope`, newest update first.

        `title`: only sessions with this in their title, in any case. A session that is updated
        between two pages may be missing on the later one. Invalid: the page size; `BAD_PAGE_TOKEN`: not made for this
        listing.
        """
        ...

    async def entries(self, scope: Scope, context_id: str, query: EntryFilter) -> EntryPage:
        """Return one page of the entries of a session, oldest first unless asked otherwise.

        A page may hold fewer entries than asked for although more follow, so that it stays within some megabytes; only
        an empty `next_page_token` ends the list. The pages of an effective list all show the entries in effect when the
        first one was read, and its version. NotFound; Invalid: the page size or the filter; `BAD_PAGE_TOKEN`.
        """
        ...

    async def conversation(self, scope: Scope, context_id: str) -> tuple[Session, Sequence[a2a.Message]]:
        """Return all messages in effect, in reading order; of equal message ids the first. Raise NotFound.

        Exhausted `HISTORY_TOO_LARGE`: they do not fit one reply, so read them by pages.
        """
        ...

    async def message_ids(
        self, scope: Scope, context_id: str, *, events: bool = False, page_token: str = ""
    ) -> MessageIds:
        """Return the ids of the messages of `conversation`, in the same order; "" for a message without an id. Raise
        NotFound.

        `events`: the events in effect are among them, under names that begin with a NUL. `page_token`: that of an
        earlier answer, with the same `events`, for the entries in effect then. Invalid `BAD_PAGE_TOKEN`.
        """
        ...

    async def cut(self, scope: Scope, context_id: str) -> tuple[Session, CutTurns]:
        """Return the invocations with a message, an outcome or an event that are not in effect now, oldest first, and
        whether the newest rewind can be undone. NotFound.
        """
        ...

    async def state(self, scope: Scope, context_id: str) -> tuple[Session, Struct]:
        """Return the state made by the session's events in effect, with that of its owner and its agent.

        NotFound. Exhausted `STATE_TOO_LARGE`: it does not fit one reply.
        """
        ...


class WriteLog(Protocol):
    """Operations on sessions."""

    async def create(self, op: commands.Create) -> commands.Created:
        """Create the session, or give the non-empty values to the existing session.

        If nothing changes, its version does not change, either.
        """
        ...

    async def update(self, op: commands.Update) -> Session:
        """Give the session its new values and raise its version by one.

        NotFound. Conflict `VERSION_MISMATCH`, with the `version` in its metadata: it is not at the one expected.
        """
        ...

    async def delete(self, op: commands.Delete) -> Session:
        """Remove the session with all its entries, in one transaction; their ids are free again.

        If tasks are to follow, `remains` has the session from then on.

        NotFound. Conflict `VERSION_MISMATCH`, with the `version` in its metadata: it is not at the one expected.
        """
        ...

    async def append(self, op: commands.Append) -> commands.Appended:
        """Append entries in their order, all or none, each with the next number.

        An entry with a stored id is not stored again: the answer has the stored entry, with its payload, and of
        racing callers all but the first get the entry of that one. If every id is stored already, `expected_version`
        is not checked. NotFound: no session, and no `create`. Refused `KEY_REUSED`: one of the ids is stored with
        another request hash or in another session of the owner. Conflict `VERSION_MISMATCH`, with the `version` in its
        metadata: the session is not at the one expected; the version of one that does not exist is 0.
        """
        ...

    async def rewind(self, op: commands.Rewind) -> commands.Rewound:
        """Cut an invocation and all first seen after it from the entries in effect.

        It is decided on the history as it is in the transaction that writes the entry. NotFound, also
        `INVOCATION_NOT_FOUND`: the invocation is not in effect; then the entry is stored without effect, and a repeat
        is answered the same. Refused `KEY_REUSED`: the id is that of another request. Conflict `VERSION_MISMATCH`.
        """
        ...

    async def undo(self, op: commands.Undo) -> commands.Rewound:
        """Undo the newest rewind that counts.

        A repeat of a successful undo gets the same answer; a repeat of a refused undo is decided again. NotFound.
        Refused `KEY_REUSED`, `NOTHING_TO_UNDO`, `TOO_LATE_TO_UNDO`. Conflict `VERSION_MISMATCH`.
        """
        ...

    async def fork(self, op: commands.Fork) -> commands.Created:
        """Create a session from the entries in effect of another session before an invocation. The other session does
        not change.

        Its entries are copies, in reading order; they begin no turns and belong to no tasks. Its state is made by the
        copied events. A repeat is answered with the existing session, even if the other session has changed since.
        NotFound, also `INVOCATION_NOT_FOUND`. AlreadyExists: there is another session with the new id.
        """
        ...

    async def touch(self, op: commands.Touch) -> Session:
        """Set the time of the last change to now, without a new version. Raise NotFound."""
        ...

    async def mark_applied(self, op: commands.MarkApplied) -> Session:
        """Record that the tasks are in line with the history up to an entry; never go back, raise no version.

        NotFound. Invalid `BEYOND_HEAD`.
        """
        ...


class SweepLog(Protocol):
    """Reads and marks of the sweeps, over the sessions of all owners."""

    async def unapplied(self, limit: int, after: UnappliedSession | None = None) -> Sequence[UnappliedSession]:
        """Return sessions of all owners with changes not applied to their tasks, oldest change first.

        `after`: the last one of the page before. Invalid.
        """
        ...

    async def unsettled(self, min_age: float, limit: int) -> UnsettledPage:
        """Return turns of all owners, begun or resumed at least `min_age` seconds ago, that may be abandoned.

        They have no direct answer and no later message. It looks at about `limit` turns (more only where one
        transaction opened them), the oldest first, from where `mark_settled` left off; so each is looked at once. It
        goes by the clocks of the processes that write: a turn could be missed only if one was `min_age` behind. If they
        were set back, it begins again from there. Invalid.
        """
        ...

    async def abandoned(self, tenant: str, undecided_age: float, age: float) -> AbandonedTurns:
        """Count the turns of a tenant that `unsettled` returns, of all tenants' 10,000 oldest.

        Turns without an outcome count from an age of `undecided_age` seconds on, others from `age` on, which is not
        less: these are tasks as a rule, and may only be slow.
        """
        ...

    async def mark_settled(self, until: int) -> None:
        """Record that the turns of `unsettled` up to `until` need no further look. Invalid."""
        ...

    async def expired(self, min_age: float, after: ExpiredSession | None, limit: int) -> Sequence[ExpiredSession]:
        """Return sessions of all owners that were changed last more than `min_age` seconds ago, oldest creation first.

        `after`: the session to continue from. Invalid.
        """
        ...

    async def remains(self, limit: int) -> Sequence[Remains]:
        """Return some deleted sessions of all owners with tasks still to be deleted. Invalid."""
        ...

    async def drop_remains(self, scope: Scope, context_id: str, until: int) -> None:
        """Record that the tasks changed last up to `until` are deleted. Invalid."""
        ...

    async def delete_user_state(self, scope: Scope) -> int:
        """Remove the state of an owner with every agent, and the owner's rows in `remains`; return how many keys.

        The state of an owner outlives the sessions.
        """
        ...


class ImportLog(Protocol):
    """Import of a session that was exported."""

    async def stage_import(self, scope: Scope, context_id: str, import_id: str, number: int, data: bytes) -> None:
        """Keep a page of a session that is being imported; the first page replaces the pages of another import.

        AlreadyExists `SESSION_EXISTS`. Conflict `IMPORT_REPLACED`. Invalid.
        """
        ...

    async def commit_import(self, scope: Scope, context_id: str, import_id: str, pages: int) -> Session:
        """Make the session of its staged pages, all of it or nothing.

        AlreadyExists `SESSION_EXISTS`, `ENTRY_EXISTS`. Conflict `IMPORT_REPLACED`, `IMPORT_CONFLICT`. Invalid, with the
        `line` in its metadata.
        """
        ...

    async def drop_import(self, scope: Scope, context_id: str, import_id: str) -> None:
        """Forget the staged pages, of this import or ("") of any; of this session or ("") of any of the owner's."""
        ...

    async def drop_abandoned_imports(self) -> int:
        """Forget pages that any owner staged and did not continue for an hour; return how many."""
        ...


class SessionLog(ReadLog, WriteLog, SweepLog, ImportLog, Protocol):
    """The log of all sessions."""
