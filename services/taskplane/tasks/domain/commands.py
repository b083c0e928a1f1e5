"""The operations on tasks, their answers and writes.

Each operation concerns one task, or a session. No instance may be changed after its construction. The classes are not
frozen, since a frozen instance takes four times as long to construct.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import USAGE
from taskplane.runtime.errors import PlaneError
from taskplane.runtime.message_ids import Content
from taskplane.tasks.domain.changes import Change, StatusUpdate, UserMessage
from taskplane.tasks.domain.fold import Said
from taskplane.tasks.domain.task import AT_REST, Event, Row, Scope


class QueueLimits(NamedTuple):
    """The maximum number of queued tasks of one owner, and of all owners of a tenant; 0: no limit."""

    of_owner: int = 0
    of_tenant: int = 0


NO_LIMITS: Final = QueueLimits()


@dataclass(slots=True, kw_only=True)
class Create:
    """Make a managed task; the caller of the store makes `uid`, `salt` and `task_id`. Answer: `Created`."""

    scope: Scope
    uid: str
    salt: str
    task_id: str
    invocation_id: str
    request_hash: bytes
    agent: str
    context_id: str
    # The first message of its history.
    message: UserMessage
    on_orphan: int
    max_attempts: int
    # The serialized metadata of the task; None: no metadata.
    metadata: bytes | None = None
    changes: Sequence[Change] = ()
    # Process id; empty: queued.
    claim_for: str = ""
    lease_until: int = 0
    # One of the strategies in `task`.
    strategy: int = 1
    queue_limits: QueueLimits = NO_LIMITS
    # The serialized `TurnOptions`; None: no options.
    options: bytes | None = None
    # See the row.
    queue_limit: int | None = None
    pause_limit: int | None = None


@dataclass(slots=True)
class Append:
    """Append the changes of an executor to one task. Answer: `Appended`."""

    actor: str
    task_uid: str
    fence: int
    number: int
    changes: Sequence[Change] = ()
    consumed_generation: int = 0
    copied_generation: int = 0
    # The packed `traceparent` of the run.
    trace: bytes | None = None
    # See the row; None: as it was.
    usage: bytes | None = None

    @property
    def state(self) -> int:
        """Return the state that the last change sets; 0 if there is no change, or if the last change is not a
        status."""
        last = self.changes[-1] if self.changes else None
        return last.state if isinstance(last, StatusUpdate) else 0

    @property
    def tells_usage(self) -> bool:
        """Return whether the last change has figures of its own, with which it ends or pauses the run."""
        last = self.changes[-1] if self.changes else None
        if not isinstance(last, StatusUpdate) or last.state not in AT_REST or USAGE.encode() not in last.serialized:
            return False
        return USAGE in last.update("changes").metadata.fields


@dataclass(slots=True, kw_only=True)
class AddMessage:
    """Add a user's message to a task that exists. Answer: `Added`."""

    scope: Scope
    task_id: str
    invocation_id: str
    request_hash: bytes
    message: UserMessage
    expected_context: str = ""
    options: bytes | None = None
    # 0: any.
    expected_generation: int = 0


@dataclass(slots=True, kw_only=True)
class Cancel:
    """End a task as canceled. Answer: `Done`. The metadata of `event_metadata` becomes that of the status event."""

    scope: Scope
    task_id: str
    event_metadata: a2a.TaskStatusUpdateEvent | None = None


@dataclass(slots=True, kw_only=True)
class Put:
    """Store a whole document task. `uid` and `salt` are used if it is new. `known`: messages that other tasks of the
    session have under ids of the document. Answer: `Done` with `created`.

    `validate_only`: write nothing. Answer: `Checked`.
    `without`: turns of deleted tasks, which are left out of it.
    """

    scope: Scope
    uid: str
    salt: str
    task: a2a.Task
    agent: str = ""
    expected_generation: int = 0
    validate_only: bool = False
    without: frozenset[str] = frozenset()
    known: Mapping[str, Content] = field(default_factory=dict[str, Content])
    # The turn of a document without turn ids; empty: see `decide`.
    own_turn: str = ""


@dataclass(slots=True, kw_only=True)
class Delete:
    """Remove a task. A managed task that has not ended is canceled first, in the same transaction. Answer: `Done`.

    `expected_generation` 0: any.
    """

    scope: Scope
    task_id: str
    expected_generation: int = 0


@dataclass(slots=True, kw_only=True)
class Claim:
    """Take the lease of a queued task. Answer: `Done`; None if it is no longer queued."""

    task_uid: str
    process_id: str
    lease_until: int


@dataclass(slots=True, kw_only=True)
class Orphan:
    """Take back a lease that expired or that its holder gave up; the policy of the task decides about its next state.

    `process_id` and `fence`: only if the task still has this lease. `expired_before`: only if the lease expired before
    this time (None: at any time). `released`: the holder gave it up on purpose, so the attempt does not count. Answer:
    `Done`, or None if there was nothing to do.
    """

    task_uid: str
    process_id: str
    fence: int
    expired_before: int | None = None
    released: bool = False


@dataclass(slots=True, kw_only=True)
class TimeOut:
    """End a task whose time in the queue or in a pause has exceeded its limit. Answer: `Done`; None if it has not."""

    task_uid: str


@dataclass(slots=True, kw_only=True)
class MarkCopied:
    """Record that the messages of a task up to `generation` are in its session. Answer: `Done`."""

    task_uid: str
    generation: int


@dataclass(slots=True, kw_only=True)
class MarkSuperseded:
    """Hide and show the tasks of a session: after its entry `steered_seq` the invocations `cut` are not in effect.

    Answer: `Marked`.
    """

    scope: Scope
    context_id: str
    steered_seq: int
    cut: Set[str]


@dataclass(slots=True, kw_only=True)
class Trim:
    """Delete events of a task that ended `ended_before` and is copied, or of a document task. Answer: `Trimmed`.

    At most `at_most` generations at once, beginning with the oldest.
    """

    task_uid: str
    ended_before: int
    at_most: int


Operation = (
    Create | Append | AddMessage | Cancel | Put | Delete | Claim | Orphan | TimeOut | MarkCopied | MarkSuperseded | Trim
)


@dataclass(slots=True)
class Created:
    """Answer to Create. `fence` is 0 unless `claim_for` holds the lease.

    `first`: the task as it was created, serialized; empty for a repeat.
    """

    row: Row
    created: bool
    fence: int
    first: bytes = b""


@dataclass(slots=True)
class Appended:
    """Answer to Append: the generations of the item and of the newest user message, or its `refusal`.

    `created_at` is the time of its events (microseconds); 0: it has no events, or it is a repeat of unknown time.
    """

    first_generation: int
    last_generation: int
    input_generation: int
    created_at: int = 0
    refusal: PlaneError | None = None


@dataclass(slots=True, kw_only=True)
class Added:
    """Answer to AddMessage. `added` is False for a repeat."""

    row: Row
    generation: int
    added: bool


@dataclass(slots=True)
class Done:
    """Answer with the present row. `created`: the task is a new document. `turns`: the turns that a document names."""

    row: Row
    created: bool = False
    turns: Sequence[str] = ()


@dataclass(slots=True)
class Checked:
    """Answer to a Put that writes nothing: the row and the document as they would be, and the turn of each message."""

    row: Row
    document: a2a.Task
    created: bool
    turns: Sequence[str]
    message_turns: Sequence[str]


@dataclass(slots=True)
class Marked:
    """Answer to MarkSuperseded: the tasks that were hidden or shown again, as they are now."""

    rows: Sequence[Row]


@dataclass(slots=True, kw_only=True)
class Trimmed:
    """Answer to Trim: the number of deleted events and the bytes of their payloads. `more`: further events may be
    deleted."""

    events: int = 0
    bytes: int = 0
    more: bool = False


Answer = Created | Appended | Added | Done | Checked | Marked | Trimmed | None


@dataclass(slots=True)
class Write:
    """The writes of a decided operation: the new row, the new events, and the answer after the commit.

    `document` is a snapshot to be stored as it is, at `row.snapshot_generation` (a new task, a document). `refold`: the
    stored snapshot must be rewritten in this transaction (the task ended, or its tail outweighs the snapshot). `delete`
    removes the row and its events. `fields` are the names of the fields that may differ from the row before, if there
    was one. `said`: see `fold`. `others`: the writes with it to other tasks, which exist. `trims`: delete the events
    after the first and up to the second generation, except those that stay as long as the task. `lease_until`: the end
    of the lease that `row` takes, if it takes one.
    """

    row: Row
    events: Sequence[Event]
    answer: Answer
    fields: Collection[str] = ()
    said: Mapping[int, Said] | None = None
    document: bytes | None = None
    refold: bool = False
    delete: bool = False
    others: Sequence["Write"] = ()
    trims: tuple[int, int] | None = None
    lease_until: int | None = None


@dataclass(slots=True)
class Writes:
    """The writes of an operation on several existing tasks, committed together."""

    writes: Sequence[Write]
    answer: Answer


@dataclass(slots=True)
class Known:
    """The event that recorded the invocation which a Create or AddMessage names."""

    task_uid: str
    generation: int
    request_hash: bytes


@dataclass(slots=True)
class Found:
    """The data read for one operation before it is decided.

    `row` is the task that it names (for Create: the task that has `task_id`), of any owner. `known` is the record of
    its invocation in the operation's scope and `known_row` that record's task. `open_text` is the text so far of the
    open partial message, read if `needs.needs_open_text` says so. `lost_messages` are the ids of the task's messages
    under its current fence, read if `needs.needs_lost_messages` says so. `final_message` is the newest message of its
    executor under that fence, read if `needs.needs_final_message` says so. `artifacts` are the artifacts that the task
    has of those that `needs.needs_artifacts` names. `turn` is the invocation of the newest message of the user, read if
    `needs.needs_turn` says so; elsewhere the row has it. `others`: the data of each task that an operation on a session
    concerns; `cut`: such a task has one of the operation's invocations. `busy`: the creation time of the newest task
    that a new task must not run beside; 0 without such a task. `waits`: the queued task must wait for an earlier task.
    `document` is the content of a document that is replaced. `lease_until`: the end of the lease of `row`, read if
    `needs.needs_lease` says so; None: there is no lease, or it is being renewed by another transaction. `queued`: the
    queued tasks of the owner and of the tenant, counted up to the limits of a Create, if `needs.needs_queue` says so.
    """

    row: Row | None
    known: Known | None = None
    known_row: Row | None = None
    open_text: a2a.Message | None = None
    document: a2a.Task | None = None
    lost_messages: Sequence[str] = ()
    final_message: a2a.TaskStatusUpdateEvent | None = None
    artifacts: Set[str] = frozenset()
    turn: str = ""
    others: Sequence["Found"] = ()
    cut: bool = False
    busy: int = 0
    waits: bool = False
    lease_until: int | None = None
    queued: QueueLimits = NO_LIMITS
