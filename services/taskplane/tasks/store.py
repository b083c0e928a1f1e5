"""The port of the task log, in parts by responsibility; each consumer takes the part that it needs.

The promises below hold for every method and every database. An answer is given after its transaction is committed and
synced, and every read is one snapshot of committed data. A task of another owner is answered like one that does not
exist. Besides the errors named with it each method raises Unavailable where the database cannot be reached. Whether an
operation took effect is then unknown, and it may be submitted again, unchanged: a repeated Create, Append or AddMessage
is answered with the result of the first, a repeated Cancel or Delete with the refusal that it is done, and the others
do nothing twice.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.errors import PlaneError
from taskplane.runtime.message_ids import Content
from taskplane.runtime.sharing import Owner
from taskplane.tasks.domain.commands import Answer, Operation
from taskplane.tasks.domain.documents import Compared
from taskplane.tasks.domain.figures import Summary
from taskplane.tasks.domain.infos import Info
from taskplane.tasks.domain.overview import Overview
from taskplane.tasks.domain.task import Event, Lease, Row, Scope
from taskplane.tasks.domain.turns import TurnsOfTask
from taskplane.tasks.pages import (
    PAGE_BYTES,
    PAGE_EVENTS,
    EventFilter,
    InfoFilter,
    InfoPage,
    MessageFilter,
    MessagePage,
    Page,
    TaskFilter,
    TaskPage,
    TenantFilter,
    TenantPage,
    TenantTask,
)

# Tenant, owner and context id.
Session = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Claimable:
    """Tasks that may be claimed now. All fields are hints.

    `wait`: seconds until the next task is due, if a later one was seen. `principals`: tenant and owner of each task.
    `passed_over`: principals with queued tasks that may not have a slot; an empty owner means all of a tenant. `more`:
    there may be further tasks.
    """

    uids: Sequence[str]
    wait: float | None
    principals: Sequence[Owner] = ()
    passed_over: frozenset[Owner] = frozenset()
    more: bool = False


class FreeSlots(Protocol):
    """The rule by which free slots are given to principals."""

    def may_have_slot(self, owner: Owner) -> bool:
        """Return whether the owner may have one more slot."""
        ...

    def tenant_may_have_slot(self, tenant: str) -> bool:
        """Return whether an owner of the tenant without a slot may have one."""
        ...


@dataclass(frozen=True, slots=True)
class Queued:
    """The queued tasks of one agent: their number, and the seconds that the first has been waiting."""

    agent: str
    tasks: int
    oldest: float


@dataclass(frozen=True, slots=True)
class OpenTasks:
    """How many managed tasks are queued, leased to an executor, paused (by state) and uncopied; executors alive."""

    queued: Sequence[Queued]
    leased: int
    paused: Mapping[int, int]
    uncopied: int
    executors: int


# The uid of a task and the fence of its lease.
Held = tuple[str, int]


class Renewed(NamedTuple):
    """The outcome of a renewal of one lease.

    `still_yours`: True if it was extended, False if it was lost, None if this is not known. `input_generation`: the
    generation of the newest message of the user; 0 if it is not known.
    """

    still_yours: bool | None
    input_generation: int = 0


class Unfinished(NamedTuple):
    """An import with stored tasks, but possibly without a stored session."""

    tenant: str
    owner: str
    context_id: str
    import_id: str


class WriteLog(Protocol):
    """Operations on tasks, and the clock that they go by."""

    async def submit(self, op: Operation) -> Answer:
        """Carry out one operation and answer when it is durable; raise its refusal (a PlaneError).

        Operations on one task take effect in the order of their commits; each event gets the next generation, without
        a gap. A refused operation has changed nothing. Exhausted: too much is waiting already; nothing was changed,
        try again after `retry_after` seconds. Invalid `NUL_CHARACTER`: a text holds U+0000. A caller that is cancelled
        does not know whether it took effect.
        """
        ...

    async def submit_all(self, ops: Sequence[Operation]) -> list[Answer | PlaneError]:
        """Carry out each operation like `submit`, in the order given; return a refusal as the answer of its operation.

        A refusal concerns its operation only.
        """
        ...

    async def now(self) -> int:
        """Return the clock of leases, microseconds since 1970: the database's, never this machine's wall clock."""
        ...


class ArtifactVersion(NamedTuple):
    """A version of an artifact in the log."""

    number: int
    """From 1."""
    versions: int
    """The number of versions that there are."""
    first: int
    """The generation of the event that began it."""
    last: int
    """The generation before the event that began the next version; 0: this is the newest version."""


class ReadLog(Protocol):
    """Reads of single tasks and their events."""

    async def get(self, scope: Scope, task_id: str, *, whole: bool = False) -> tuple[Row, a2a.Task]:
        """Return the task folded at exactly the generation of the row. NotFound.

        `whole`: a document also with the messages in turns that a rewind cut.
        """
        ...

    async def row(self, scope: Scope, task_id: str) -> Row:
        """Return the row without the content, which is cheap. Raise NotFound."""
        ...

    async def artifact_version(
        self, scope: Scope, task_id: str, artifact_id: str, version: int
    ) -> tuple[Row, ArtifactVersion | None]:
        """Return the row, and where a version of the artifact stands in the log; 0: the newest one.

        None: the log has none of it, since it was trimmed, the task is a document, or there is no such artifact.
        NotFound `TASK_NOT_FOUND`, `VERSION_NOT_FOUND`.
        """
        ...

    async def list(self, scope: Scope, query: TaskFilter) -> TaskPage:
        """Return one page of the tasks of `scope`.

        The list is not a feed of changes: a changing task may move between pages. A page may have fewer tasks than
        requested although more follow, so that it has only some megabytes; only an empty `next_page_token` ends the
        list. Invalid: the page size; `BAD_PAGE_TOKEN`: not made for this scope and these filters.
        """
        ...

    async def events(self, scope: Scope, task_id: str, query: EventFilter) -> tuple[Row, Sequence[Event]]:
        """Return events of one task, and its row at the same point of the log. NotFound; Invalid."""
        ...

    async def read_after(
        self, uid: str, generation: int, limit: int = PAGE_EVENTS, max_bytes: int = PAGE_BYTES, *, gaps: bool = False
    ) -> Page:
        """Return the events that follow `generation`, oldest first, without a gap, at most `limit`.

        Payloads together stay within `max_bytes`, but one event is always returned if there is one. Later reads
        return the same events, unchanged. An empty page means "nothing yet", never "no such task".
        NotFound: the task is gone. OutOfRange `CURSOR_AHEAD`: `generation` lies beyond the head; `CURSOR_TRIMMED`: the
        log no longer goes back that far (metadata `oldest_generation`): take a snapshot and go on from there. `gaps`:
        return the rest of a trimmed log all the same.
        """
        ...


class WatchLog(Protocol):
    """The log as watchers see it: re-checks of many tasks and of whole sessions."""

    async def heads(self, uids: Sequence[str]) -> Mapping[str, int]:
        """Return the newest generation of each of these tasks, by uid, for any owner.

        A deleted task is left out. One statement for any number of tasks: watching processes poll with it.
        """
        ...

    async def session(self, scope: Scope, context_id: str) -> Sequence[Info]:
        """Return all tasks of a session, also superseded ones, oldest first."""
        ...

    async def infos_of(self, uids: Sequence[str]) -> Sequence[Info]:
        """Return these tasks, of any owner, oldest first. A deleted task is left out."""
        ...

    async def fingerprints(self, sessions: Sequence[Session]) -> Mapping[Session, Sequence[int]]:
        """Return `domain.infos.fingerprint` of all tasks of each of these sessions, by one statement."""
        ...


class SessionReadLog(Protocol):
    """Reads of all tasks of a session, by pages or summed up."""

    async def infos(self, scope: Scope, query: InfoFilter) -> InfoPage:
        """Return one page of task infos of a session. Invalid: the page size; `BAD_PAGE_TOKEN`."""
        ...

    async def messages(self, scope: Scope, query: MessageFilter) -> MessagePage:
        """Return one page of the messages of a session's tasks, superseded tasks left out.

        The oldest task comes first. Each has its history and then the message of its status, unless that one still
        grows, is a status text or stands in the history. Of messages with one id only the first is returned.

        A page may hold fewer messages than asked for although more come before them, so that it stays within some
        megabytes, and a few more where its first one would have no id. Invalid: the page size; `NO_SUCH_MESSAGE`:
        there is none with the id `before`.
        """
        ...

    async def compare(self, scope: Scope, context_id: str, messages: Sequence[a2a.Message]) -> Compared:
        """Compare messages with those of a session's documents, superseded ones and cut turns included."""
        ...

    async def said_under_ids_of(self, scope: Scope, document: a2a.Task) -> Mapping[str, Content]:
        """Return the messages that other tasks of its session have under ids of a document, by id."""
        ...

    async def turns(self, scope: Scope, task_id: str) -> tuple[Row, TurnsOfTask]:
        """Return a task with its turns and the digests of its messages. NotFound."""
        ...

    async def summaries(self, scope: Scope, context_ids: Sequence[str]) -> Sequence[Summary]:
        """Return a summary of the tasks of each of these sessions, without superseded tasks, in the given order."""
        ...


class CopyLog(Protocol):
    """Reads of tasks with messages that are missing in their session."""

    async def uncopied(
        self, context: tuple[str, str, str] | None, limit: int, after: tuple[int, str] | None = None
    ) -> Sequence[Row]:
        """Return managed tasks at rest with messages that are missing in their session, the longest at rest first.

        `context` is (tenant, owner, context id); None: of every session. `after`: `status_at` and uid of the last one
        of the page before.
        """
        ...


class QueueLog(WriteLog, Protocol):
    """The log as the queue sees it: tasks that wait for an executor, and leases."""

    async def claimable(
        self, agents: Sequence[str], limit: int, after: Owner = ("", ""), slots: FreeSlots | None = None
    ) -> Claimable:
        """Return tasks of these agents that may be claimed now, at most `limit`, in the order in which they are due.

        Principals (tenant and owner) with fewer running tasks come first, among these the next one `after` that one,
        and of each the longest waiting task. Principals that may have none of `slots` are passed over. The result is a
        hint: Claim decides, and another process may be faster.
        """
        ...

    async def in_turn(self) -> Sequence[str]:
        """Return the uids of the queued tasks that may have to wait for others of their session."""
        ...

    async def overdue(self, limit: int) -> Sequence[str]:
        """Return the uids of tasks that have been queued, or paused, for longer than they may, the longest first."""
        ...

    async def renew(self, process_id: str, held: Sequence[Held], until: int) -> Sequence[Renewed]:
        """Extend each lease of this process, also an expired lease, unless another process has taken the task.

        The answers have the given order. It is one transaction, which locks no task and never waits: a lease that
        another transaction has locked is not changed, and its answer is unknown. No lease ends earlier than before,
        even if `until` (microseconds) is earlier, so a delayed renewal does no harm. The process, if it was announced,
        is taken to be alive until then, too.
        """
        ...

    async def announce(self, process_id: str, until: int, capacity: int, agents: Collection[str] | None = None) -> None:
        """Record a process that takes tasks of these agents from the queue (None: the agents are not known), the number
        of tasks that it runs at once (0: it takes none), and the time until which it counts as alive.

        Processes that have not been alive for an hour are deleted.
        """
        ...

    async def loads(self, process_ids: Sequence[str]) -> Mapping[str, Mapping[Owner, int]]:
        """Return the number of leases of each of these processes by the owners of the tasks, expired leases included. A
        process that is not alive is left out."""
        ...

    async def lease_left(self, uid: str, fence: int) -> float:
        """Return for how many seconds the lease of this task under this fence lasts; 0: it ran out or is lost."""
        ...

    async def check_writable(self) -> None:
        """Raise Unavailable or DataLoss if nothing can be written now."""
        ...

    async def restart_leases(self, until: int) -> None:
        """Let every lease end at this time, sooner or later than before; for a store that is alone."""
        ...

    async def expired(self, limit: int) -> Sequence[Lease]:
        """Return leases that have run out by the clock of `now`, the oldest first."""
        ...

    async def held(self, process_id: str | None = None) -> Sequence[Lease]:
        """Return the leases of this process, also expired ones; None: the leases of every process."""
        ...


class RetentionLog(WriteLog, Protocol):
    """The log as retention sees it: tasks with old events that may be deleted."""

    async def trimmable(self, ended_before: int, after: tuple[int, str], limit: int) -> Sequence[Row]:
        """Return managed tasks that ended before a time, are copied and have a log to trim, the first ended first.

        `after`: (`status_at`, `uid`) of the task to continue from; (0, ""): from the beginning.
        """
        ...

    async def untrimmed_documents(self, after: str, limit: int) -> Sequence[Row]:
        """Return document tasks with counters that may go, in the order of their uids; `after`: the uid before."""
        ...

    async def removable(self, trims: Sequence[tuple[str, int, int]]) -> tuple[int, int]:
        """Return how many events trimming would take, and their bytes.

        `trims`: uid, the generation before the first event, the generation of the last.
        """
        ...


class ImportLog(Protocol):
    """Import of the tasks of a session that was exported."""

    async def stage_import(self, scope: Scope, context_id: str, import_id: str, number: int, data: bytes) -> None:
        """Keep a page of tasks that are being imported; the first page replaces the pages of another import.

        Conflict `IMPORT_REPLACED`.
        """
        ...

    async def commit_import(self, scope: Scope, context_id: str, import_id: str, pages: int) -> int:
        """Make the tasks of the staged pages, all or none; return how many.

        They are remembered until the import is finished. AlreadyExists `TASK_EXISTS`, `TURN_EXISTS`,
        `SESSION_HAS_TASKS`. Conflict `IMPORT_REPLACED`, `IMPORT_CONFLICT`. Invalid, with the `line` in its metadata.
        """
        ...

    async def finish_import(self, scope: Scope, context_id: str, import_id: str) -> None:
        """Record that the session of the tasks is stored, too."""
        ...

    async def drop_import(self, scope: Scope, context_id: str, import_id: str) -> None:
        """Forget the staged pages and delete the tasks of an import that was not finished.

        `import_id`: of this import; "": of any. `context_id`: of this session; "": of any of the owner's.
        """
        ...

    async def drop_abandoned_imports(self) -> int:
        """Forget pages that any owner staged and did not continue for an hour; return how many."""
        ...

    async def unfinished_imports(self, min_age: float) -> Sequence[Unfinished]:
        """Return unfinished imports of all owners with tasks stored so many seconds ago; at most 100."""
        ...


class CountLog(Protocol):
    """Counts for the metrics."""

    async def open_tasks(self) -> OpenTasks:
        """Count the tasks of all owners that have not ended; from indexes that hold only those."""
        ...


class ServingLog(Protocol):
    """The log as it knows the processes that run agents."""

    async def now(self) -> int:
        """Return the time by the clock of leases; see `WriteLog`."""
        ...

    async def unserved(self, agents: Collection[str]) -> frozenset[str]:
        """Return the agents that no living process runs. Empty if a living process has not reported its agents."""
        ...


class OperationsLog(ServingLog, Protocol):
    """Reads for operators, over all owners of one tenant."""

    async def overview(self, tenant: str, ttl: float) -> Overview:
        """Return figures over the managed tasks of a tenant; `ttl`: seconds that a lease lasts."""
        ...

    async def tenant_tasks(self, scope: Scope, query: TenantFilter) -> TenantPage:
        """Return one page of the tasks of the tenant of `scope`, which names the operator of the page tokens.

        It is no change feed. With an agent a page may have fewer tasks than asked for, or none, although more follow.
        Invalid: the page size; `BAD_PAGE_TOKEN`.
        """
        ...

    async def tenant_task(self, tenant: str, task_id: str) -> TenantTask:
        """Return a task of a tenant, of any owner. Raise NotFound."""
        ...

    async def read_after(
        self, uid: str, generation: int, limit: int = PAGE_EVENTS, max_bytes: int = PAGE_BYTES, *, gaps: bool = False
    ) -> Page:
        """Return the events that follow; see `ReadLog`."""
        ...


class TaskLog(
    ReadLog, WatchLog, SessionReadLog, CopyLog, QueueLog, RetentionLog, ImportLog, CountLog, OperationsLog, Protocol
):
    """The log of all tasks."""

    async def row_by_uid(self, uid: str) -> Row:
        """Return the row without the content, for any owner; for processes of the plane only. Raise NotFound."""
        ...

    async def epoch(self) -> str:
        """Return the name of this history of the log. After the restore of a backup it is a different one."""
        ...
