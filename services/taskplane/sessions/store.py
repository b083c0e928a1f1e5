"""The port of the session log, in parts by responsibility. Each consumer takes the necessary part.

The promises below hold for every method and every database. A method returns after the commit and sync of its
transaction. Every read is one snapshot of committed data. A session of another owner is answered like a missing
session. Each method also raises Invalid for values that can never be stored or listed (see `operation_checks`), and
Unavailable if the database cannot be reached. Reads and appends may be repeated: the repeat of a stored append returns
the stored entries. Exhausted: too many operations are waiting; nothing was changed, try again after `retry_after`
seconds.
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
    history before them. `distinct` (with `effective`): of messages with the same id only the first. Then a page counts
    messages, and its pushed history has only the messages of this page. `skip` (with `effective`): the number of
    entries to skip after the page token. `known` (with `effective` alone, oldest first): the `listing` of an earlier
    page of the same list; the first page begins at the first difference. `message_id` (without `effective`): entries
    with a shown message of this id, without entries older than `Entry.message_id`.
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
    """A page of entries. `session`: its state at the read of the entries. `next_page_token` is empty on the last page.

    In a list of entries in effect: `has_events`: the session has events of an agent runtime, in effect or not.
    `listing`: the name of the list in this state. `unchanged`: the number of entries in common with the known list.
    """

    session: Session
    entries: Sequence[Entry]
    next_page_token: str
    has_events: bool = False
    listing: str = ""
    unchanged: int = 0


class MessageIds(NamedTuple):
    """The ids of the messages in effect, and the session at the same point.

    `ends`: the number of messages up to the end of each turn, by the turn's invocation. `page_token`: lists the
    messages by `entries`. With events, the events are among the messages: an event beside a turn follows the later
    messages.
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
    """A session without recent changes. `created_at`: microseconds since 1970."""

    tenant: str
    owner: str
    context_id: str
    created_at: int
    version: int


class Remains(NamedTuple):
    """A deleted session with tasks to delete: all tasks with a last change up to `tasks_until`.

    `tasks_until`: microseconds since 1970.
    """

    tenant: str
    owner: str
    context_id: str
    tasks_until: int


class UnsettledTurn(NamedTuple):
    """A turn without a known result. `task_id`: the task planned for the turn; "": the turn was not decided."""

    tenant: str
    owner: str
    context_id: str
    invocation_id: str
    task_id: str


class UnsettledPage(NamedTuple):
    """A page of unsettled turns.

    `until`: the end of the checked time, for `mark_settled` (microseconds since 1970); None: there were no turns.
    `more`: there may be turns after `until`.
    """

    turns: Sequence[UnsettledTurn]
    until: int | None
    more: bool


class AbandonedTurns(NamedTuple):
    """The number of turns without a result. `oldest`: the beginning of the first turn (microseconds since 1970).

    `bounded`: there may be more turns.
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

        Missing sessions are left out.
        """
        ...


class ReadLog(WatchLog, Protocol):
    """Reads of sessions, their entries, their effective history and their state."""

    async def list(self, scope: Scope, page_size: int, page_token: str, title: str = "") -> SessionPage:
        """Return one page of the sessions of `scope`, newest update first.

        `title`: only sessions with this text in their title, in upper or lower case. A session with an update between
        two pages may be missing on the later page. Invalid: the page size; `BAD_PAGE_TOKEN`: the token of another list.
        """
        ...

    async def entries(self, scope: Scope, context_id: str, query: EntryFilter) -> EntryPage:
        """Return one page of the entries of a session, oldest first unless asked otherwise.

        A page may have fewer entries than requested, to limit its size to some megabytes. Only an empty
        `next_page_token` ends the list. All pages of an effective list show the entries in effect, and the version, at
        the time of the first page. NotFound; Invalid: the page size or the filter; `BAD_PAGE_TOKEN`.
        """
        ...

    async def conversation(self, scope: Scope, context_id: str) -> tuple[Session, Sequence[a2a.Message]]:
        """Return all messages in effect, in reading order; of equal message ids the first. Raise NotFound.

        Exhausted `HISTORY_TOO_LARGE`: the messages do not fit one reply; read them by pages.
        """
        ...

    async def message_ids(
        self, scope: Scope, context_id: str, *, events: bool = False, page_token: str = ""
    ) -> MessageIds:
        """Return the ids of the messages of `conversation`, in the same order; "" for a message without an id. Raise
        NotFound.

        `events`: add the events in effect, with names that begin with a NUL. `page_token`: the token of an earlier
        answer with the same `events`, for the entries in effect at that time. Invalid `BAD_PAGE_TOKEN`.
        """
        ...

    async def cut(self, scope: Scope, context_id: str) -> tuple[Session, CutTurns]:
        """Return the invocations not in effect with a message, an outcome or an event, oldest first. Also return
        whether the newest rewind can be undone. NotFound.
        """
        ...

    async def state(self, scope: Scope, context_id: str) -> tuple[Session, Struct]:
        """Return the state from the session's events in effect, with the state of its owner and its agent.

        NotFound. Exhausted `STATE_TOO_LARGE`: the state does not fit one reply.
        """
        ...


class WriteLog(Protocol):
    """Operations on sessions."""

    async def create(self, op: commands.Create) -> commands.Created:
        """Create the session, or set the non-empty values in the existing session.

        Without a change, the version stays.
        """
        ...

    async def update(self, op: commands.Update) -> Session:
        """Give the session its new values and raise its version by one.

        NotFound. Conflict `VERSION_MISMATCH`, with the `version` in its metadata: it is not at the one expected.
        """
        ...

    async def delete(self, op: commands.Delete) -> Session:
        """Remove the session with all its entries, in one transaction. Their ids can be used again.

        If its tasks are to be deleted, too, `remains` lists the session from now on.

        NotFound. Conflict `VERSION_MISMATCH`, with the `version` in its metadata: it is not at the one expected.
        """
        ...

    async def append(self, op: commands.Append) -> commands.Appended:
        """Append entries in their order, all or none, each with the next number.

        An entry with a stored id is not stored again. The answer has the stored entry with its payload. All racing
        callers get the entry of the first caller. If every id is stored already, `expected_version` is not checked.
        NotFound: no session, and no `create`. Refused `KEY_REUSED`: one of the ids is stored with another request hash
        or in another session of the owner. Conflict `VERSION_MISMATCH`, with the `version` in its metadata: the session
        has another version than expected. A missing session has version 0.
        """
        ...

    async def rewind(self, op: commands.Rewind) -> commands.Rewound:
        """Cut an invocation and all later invocations from the entries in effect.

        The rewind is decided on the history in the transaction that writes the entry. NotFound, also
        `INVOCATION_NOT_FOUND`: the invocation is not in effect. Then the entry is stored without effect, and a repeat
        gets the same answer. Refused `KEY_REUSED`: another request has used the id. Conflict `VERSION_MISMATCH`.
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

        The new session has copies of the entries, in reading order. Copies begin no turns and belong to no tasks. The
        state is computed from the copied events. A repeat gets the existing session, even after a change of the other
        session. NotFound, also `INVOCATION_NOT_FOUND`. AlreadyExists: another session has the new id.
        """
        ...

    async def touch(self, op: commands.Touch) -> Session:
        """Set the time of the last change to now, without a new version. Raise NotFound."""
        ...

    async def mark_applied(self, op: commands.MarkApplied) -> Session:
        """Record that the tasks reflect the history up to an entry. The number never decreases, and the version stays.

        NotFound. Invalid `BEYOND_HEAD`.
        """
        ...


class SweepLog(Protocol):
    """Reads and marks of the sweeps, over the sessions of all owners."""

    async def unapplied(self, limit: int, after: UnappliedSession | None = None) -> Sequence[UnappliedSession]:
        """Return sessions of all owners with unapplied changes, oldest change first.

        `after`: the last session of the previous page. Invalid.
        """
        ...

    async def unsettled(self, min_age: float, limit: int) -> UnsettledPage:
        """Return turns of all owners, begun or resumed at least `min_age` seconds ago, that may be abandoned.

        Such turns have no direct answer and no later message. A call checks about `limit` turns (more only if one
        transaction opened them), oldest first, after the time of `mark_settled`. So each turn is checked once. Times
        are from the clocks of the writing processes: a turn can be missed only if a clock is `min_age` slow. After a
        step back of the clocks, the next call begins at the earlier time. Invalid.
        """
        ...

    async def abandoned(self, tenant: str, undecided_age: float, age: float) -> AbandonedTurns:
        """Count the turns of a tenant that `unsettled` returns, among the 10,000 oldest of all tenants.

        Turns without an outcome count from an age of `undecided_age` seconds on, other turns from `age` on. `age` is
        not less: most other turns are tasks, and may only be slow.
        """
        ...

    async def mark_settled(self, until: int) -> None:
        """Record that the turns of `unsettled` up to `until` are checked. Invalid."""
        ...

    async def expired(self, min_age: float, after: ExpiredSession | None, limit: int) -> Sequence[ExpiredSession]:
        """Return sessions of all owners without a change for `min_age` seconds, oldest creation first.

        `after`: the session to continue from. Invalid.
        """
        ...

    async def remains(self, limit: int) -> Sequence[Remains]:
        """Return some deleted sessions of all owners with tasks to delete. Invalid."""
        ...

    async def drop_remains(self, scope: Scope, context_id: str, until: int) -> None:
        """Record that the tasks with a last change up to `until` are deleted. Invalid."""
        ...

    async def delete_user_state(self, scope: Scope) -> int:
        """Remove the state of an owner for all agents, and the owner's rows in `remains`. Return the number of keys.

        The state of an owner outlives the sessions.
        """
        ...


class ImportLog(Protocol):
    """The import of an exported session."""

    async def stage_import(self, scope: Scope, context_id: str, import_id: str, number: int, data: bytes) -> None:
        """Store a page of an import. The first page replaces the pages of another import of the session.

        AlreadyExists `SESSION_EXISTS`. Conflict `IMPORT_REPLACED`. Invalid.
        """
        ...

    async def commit_import(self, scope: Scope, context_id: str, import_id: str, pages: int) -> Session:
        """Create the session from its staged pages, completely or not at all.

        AlreadyExists `SESSION_EXISTS`, `ENTRY_EXISTS`. Conflict `IMPORT_REPLACED`, `IMPORT_CONFLICT`. Invalid, with the
        `line` in its metadata.
        """
        ...

    async def drop_import(self, scope: Scope, context_id: str, import_id: str) -> None:
        """Delete staged pages: of one import or ("") of all; of one session or ("") of all sessions of the owner."""
        ...

    async def drop_abandoned_imports(self) -> int:
        """Delete the pages of imports without a new page for an hour, of all owners. Return the number of pages."""
        ...


class SessionLog(ReadLog, WriteLog, SweepLog, ImportLog, Protocol):
    """The log of all sessions."""
