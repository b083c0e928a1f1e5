"""The port of the task log: what is promised to whoever writes to it and reads from it, whatever database is below."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.errors import PlaneError
from taskplane.tasks.domain.commands import Answer, Operation
from taskplane.tasks.domain.figures import Summary
from taskplane.tasks.domain.fold import Said
from taskplane.tasks.domain.infos import Info
from taskplane.tasks.domain.task import Event, Row, Scope

# Tenant, owner and context id.
Session = tuple[str, str, str]

# The page of a watch: a reader never takes more than this from the log at once.
PAGE_EVENTS: Final = 64
PAGE_BYTES: Final = 256 * 1024
MAX_PAGE_SIZE: Final = 100
MAX_EVENTS: Final = 1000
MAX_INFOS: Final = 1000
MAX_MESSAGES: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Which of the caller's tasks to list; an empty field does not filter.

    `status_after` is inclusive, microseconds since 1970. `by_creation`: oldest creation first; otherwise newest state
    change first. `superseded`: those, too, which a rewind cut. `content` is False where the rows alone will do: then no
    task is read or folded.
    """

    context_id: str = ""
    agent: str = ""
    state: int = 0
    status_after: int = 0
    by_creation: bool = False
    page_size: int = 50
    page_token: str = ""
    superseded: bool = False
    content: bool = True

    @property
    def bound(self) -> tuple[str | int, ...]:
        """What a page token is good for."""
        return self.context_id, self.agent, self.state, self.status_after, self.by_creation, self.superseded


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoFilter:
    """Which tasks of a session to show, oldest first unless `newest_first`.

    `latest_incomplete`: only the newest that has not ended.
    """

    context_id: str
    superseded: bool = False
    latest_incomplete: bool = False
    newest_first: bool = False
    page_size: int = MAX_INFOS
    page_token: str = ""

    @property
    def bound(self) -> tuple[str | int, ...]:
        """What a page token is good for."""
        return "infos", self.context_id, self.superseded, self.newest_first


@dataclass(frozen=True, slots=True)
class InfoPage:
    """`next_page_token` is empty on the last page."""

    infos: Sequence[Info]
    next_page_token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """Which messages of a session's tasks to show, the newest page first: only those before the one with the id
    `before` ("": all), and none with an id in `without`."""

    context_id: str
    page_size: int = 100
    before: str = ""
    without: Collection[str] = ()


class MessagePage(NamedTuple):
    """Oldest first. `more`: others come before them."""

    messages: Sequence[a2a.Message]
    more: bool


@dataclass(frozen=True, slots=True)
class TaskPage:
    """`tasks` has one folded task per row, or nothing if the filter asked for no content.

    `next_page_token` is empty on the last page. `total` counts the matches when the first page was read.
    """

    rows: Sequence[Row]
    tasks: Sequence[a2a.Task]
    next_page_token: str
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events of a task to read; an empty field does not filter. `limit` is 1 to `MAX_EVENTS`."""

    kinds: Sequence[int] = ()
    speaking: bool = False
    after_generation: int = 0
    newest_first: bool = False
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Page:
    """Events that follow a place, and the row they were read with."""

    row: Row
    events: Sequence[Event]


@dataclass(frozen=True, slots=True)
class Claimable:
    """Tasks that may be claimed now; `wait`: seconds until time makes another one so, if one was seen. Hints both."""

    uids: Sequence[str]
    wait: float | None


@dataclass(slots=True)
class Changed:
    """What one commit did to one task: its row as it is now and its new events, in order.

    No events: it only moved its lease or its `copied_generation`. `task`: what it is now, where it was folded on the
    way (as all are that end). `snapshot`: the same, or a document, serialized, where it was stored. `said`: see `fold`.
    """

    row: Row
    events: Sequence[Event] = ()
    task: a2a.Task | None = None
    snapshot: bytes | None = None
    said: Mapping[int, Said] | None = None


@dataclass(slots=True)
class Committed:
    """What one commit changed, each task once.

    A task that is gone stands in `deleted` only: as it was last, with its last events if it was canceled on the way.
    """

    changes: Sequence[Changed] = ()
    deleted: Sequence[Changed] = ()

    @property
    def rows(self) -> list[Row]:
        """Of the tasks that are still there."""
        return [change.row for change in self.changes]

    @property
    def events(self) -> list[Event]:
        """All new ones; those of one task are in order."""
        return [event for change in (*self.changes, *self.deleted) for event in change.events]


class Unfinished(NamedTuple):
    """An import whose tasks are in, and whose session may not be."""

    tenant: str
    owner: str
    context_id: str
    import_id: str


class TaskLog(Protocol):
    """The log of all tasks.

    Every answer is given after its transaction is committed and synced, and every read is one snapshot of committed
    data. A task of another owner is answered like one that does not exist. Besides the errors named below each method
    raises Unavailable where the database cannot be reached. Whether an operation took effect is then unknown, and it
    may be submitted again, unchanged: a repeated Create, Append or AddMessage is answered with what the first did, a
    repeated Cancel or Delete with the refusal that says it is done, and the others do nothing twice.
    """

    async def submit(self, op: Operation) -> Answer:
        """Carries out one operation and answers when it is durable; raises its refusal (a PlaneError).

        Operations on one task take effect in the order of their commits; each event gets the next generation, without
        a gap. A refused operation has changed nothing. Exhausted: too much is waiting already; nothing was changed,
        try again after `retry_after` seconds. Invalid `NUL_CHARACTER`: a text holds U+0000. A caller that is cancelled
        does not know whether it took effect.
        """
        ...

    async def submit_all(self, ops: Sequence[Operation]) -> list[Answer | PlaneError]:
        """Like `submit` for each, in the order given; a refusal concerns its operation only and is returned."""
        ...

    async def get(self, scope: Scope, task_id: str) -> tuple[Row, a2a.Task]:
        """The task folded at exactly the generation of the row. NotFound."""
        ...

    async def row(self, scope: Scope, task_id: str) -> Row:
        """The row alone; cheap. NotFound."""
        ...

    async def row_by_uid(self, uid: str) -> Row:
        """The row alone, whoever owns it; for our own processes. NotFound."""
        ...

    async def list(self, scope: Scope, query: TaskFilter) -> TaskPage:
        """One page of the tasks of `scope`. No change feed: a task may move between pages while it changes.

        A page may hold fewer tasks than asked for although more follow, so that it stays within some megabytes; only
        an empty `next_page_token` ends the list. Invalid `BAD_PAGE_SIZE`; `BAD_PAGE_TOKEN`: not made for this scope
        and these filters.
        """
        ...

    async def infos(self, scope: Scope, query: InfoFilter) -> InfoPage:
        """One page of what a session shows of its tasks. Invalid `BAD_PAGE_SIZE`, `BAD_PAGE_TOKEN`."""
        ...

    async def messages(self, scope: Scope, query: MessageFilter) -> MessagePage:
        """One page of what the tasks of a session say, superseded ones left out: oldest task first, each its history
        and then the message of its status, unless that one still grows, is a status text or stands in the history; of
        messages with one id the first one.

        A page may hold fewer messages than asked for although more come before them, so that it stays within some
        megabytes, and a few more where its first one would have no id. Invalid `BAD_PAGE_SIZE`; `NO_SUCH_MESSAGE`:
        there is none with the id `before`.
        """
        ...

    async def session(self, scope: Scope, context_id: str) -> Sequence[Info]:
        """All tasks of a session, superseded ones, too, oldest first."""
        ...

    async def infos_of(self, uids: Sequence[str]) -> Sequence[Info]:
        """These tasks, whoever owns them, oldest first; one that is gone is left out."""
        ...

    async def fingerprints(self, sessions: Sequence[Session]) -> Mapping[Session, Sequence[int]]:
        """What `domain.infos.fingerprint` gives for all tasks of each of these sessions, by one statement."""
        ...

    async def summaries(self, scope: Scope, context_ids: Sequence[str]) -> Sequence[Summary]:
        """What the tasks of each of these sessions come to, superseded ones left out, in the order given."""
        ...

    async def events(self, scope: Scope, task_id: str, query: EventFilter) -> tuple[Row, Sequence[Event]]:
        """Events of one task, and its row at the same point of the log. NotFound; Invalid `BAD_LIMIT`."""
        ...

    async def read_after(
        self, uid: str, generation: int, limit: int = PAGE_EVENTS, max_bytes: int = PAGE_BYTES, *, gaps: bool = False
    ) -> Page:
        """The events that follow `generation`, oldest first, without a gap, at most `limit`.

        Payloads together stay within `max_bytes`, but one event is always returned if there is one. What was returned
        once is returned again, unchanged. An empty page means "nothing yet", never "no such task".
        NotFound: the task is gone. OutOfRange `CURSOR_AHEAD`: `generation` lies beyond the head; `CURSOR_TRIMMED`: the
        log no longer goes back that far (metadata `oldest_generation`): take a snapshot and go on from there. `gaps`:
        what is left of a trimmed log is wanted all the same.
        """
        ...

    async def heads(self, uids: Sequence[str]) -> Mapping[str, int]:
        """The newest generation of each of these tasks, by uid, whoever owns them; one that is gone is left out.

        One statement for all of them, however many: the re-check of a process that watches them.
        """
        ...

    async def uncopied(
        self, context: tuple[str, str, str] | None, limit: int, after: tuple[int, str] | None = None
    ) -> Sequence[Row]:
        """Return managed tasks at rest whose messages are not all in their session, the longest at rest first.

        `context` is (tenant, owner, context id); None: of every session. `after`: `status_at` and uid of the last one
        of the page before.
        """
        ...

    async def claimable(self, agents: Sequence[str], limit: int) -> Claimable:
        """Tasks of these agents that may be claimed now, the one that has waited longest first, at most `limit`.

        A hint: Claim decides, and another may be faster.
        """
        ...

    async def in_turn(self) -> Sequence[str]:
        """Uids of the queued tasks that may have to wait for others of their session."""
        ...

    async def trimmable(self, ended_before: int, after: tuple[int, str], limit: int) -> Sequence[Row]:
        """Managed tasks that ended before a time, are copied and have a log to trim, the one first that ended first.

        `after`: (`status_at`, `uid`) of the one to go on from; (0, ""): from the beginning.
        """
        ...

    async def untrimmed_documents(self, after: str, limit: int) -> Sequence[Row]:
        """Document tasks with counters that may go, in the order of their uids; `after`: the uid to go on from."""
        ...

    async def removable(self, trims: Sequence[tuple[str, int, int]]) -> tuple[int, int]:
        """How many events trimming would take, and their bytes: by uid, after a generation and up to another."""
        ...

    async def expired(self, limit: int) -> Sequence[Row]:
        """Tasks whose lease has run out by the clock of `now`, the oldest first."""
        ...

    async def held(self, process_id: str | None = None) -> Sequence[Row]:
        """Tasks whose lease this process holds, run out or not; None: those of every process."""
        ...

    async def now(self) -> int:
        """The clock of leases, microseconds since 1970: the database's, never this machine's wall clock."""
        ...

    async def epoch(self) -> str:
        """Names this history of the log; another one after a backup was restored."""
        ...

    async def stage_import(self, scope: Scope, context_id: str, import_id: str, number: int, data: bytes) -> None:
        """Keeps a page of tasks that are being brought in; the first one replaces what another import staged.

        Conflict `IMPORT_REPLACED`.
        """
        ...

    async def commit_import(self, scope: Scope, context_id: str, import_id: str, pages: int) -> int:
        """Makes the tasks of the staged pages, all or none; how many. They are remembered until the import is finished.

        AlreadyExists `TASK_EXISTS`, `TURN_EXISTS`, `SESSION_HAS_TASKS`. Conflict `IMPORT_REPLACED`, `IMPORT_CONFLICT`.
        Invalid, with the `line` in its metadata.
        """
        ...

    async def finish_import(self, scope: Scope, context_id: str, import_id: str) -> None:
        """The session of the tasks is there, too."""
        ...

    async def drop_import(self, scope: Scope, context_id: str, import_id: str) -> None:
        """Forgets what is staged and deletes the tasks of an import that was not finished.

        Of this one, or ("") of any; of this session or ("") of any of the owner's.
        """
        ...

    async def drop_abandoned_imports(self) -> int:
        """Forgets what is staged of any owner and was not gone on with for an hour; how many pages."""
        ...

    async def unfinished_imports(self, min_age: float) -> Sequence[Unfinished]:
        """Imports of all owners whose tasks came in so many seconds ago, and which were not finished; at most 100."""
        ...
