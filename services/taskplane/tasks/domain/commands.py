"""What may be asked of a task, and what comes of it. Each operation concerns one task, but for one on a session.

None of these is changed once it is made; they are not frozen, since that makes making one four times as dear.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.errors import PlaneError
from taskplane.tasks.domain.changes import Change, StatusUpdate, UserMessage
from taskplane.tasks.domain.fold import Said
from taskplane.tasks.domain.task import Event, Row, Scope


@dataclass(slots=True, kw_only=True)
class Create:
    """A new managed task; `uid`, `salt` and `task_id` are made by the caller of the store. Answer: `Created`."""

    scope: Scope
    uid: str
    salt: str
    task_id: str
    invocation_id: str
    request_hash: bytes
    agent: str
    context_id: str
    # The first of its history.
    message: UserMessage
    on_orphan: int
    max_attempts: int
    # Of the task, serialized; None: it has none.
    metadata: bytes | None = None
    changes: Sequence[Change] = ()
    # Process id; empty: queued.
    claim_for: str = ""
    lease_until: int = 0
    # See `strategy`.
    strategy: int = 1


@dataclass(slots=True)
class Append:
    """What an executor produced for one task. Answer: `Appended`."""

    actor: str
    task_uid: str
    fence: int
    number: int
    changes: Sequence[Change] = ()
    consumed_generation: int = 0
    copied_generation: int = 0

    @property
    def state(self) -> int:
        """The one that the last change asks for; 0 where that is no status, or there is none."""
        last = self.changes[-1] if self.changes else None
        return last.state if isinstance(last, StatusUpdate) else 0


@dataclass(slots=True, kw_only=True)
class AddMessage:
    """A user's message for a task that exists. Answer: `Added`."""

    scope: Scope
    task_id: str
    invocation_id: str
    request_hash: bytes
    message: UserMessage
    expected_context: str = ""


@dataclass(slots=True, kw_only=True)
class Cancel:
    """Ends a task as canceled. Answer: `Done`. `metadata` becomes that of the status event."""

    scope: Scope
    task_id: str
    event_metadata: a2a.TaskStatusUpdateEvent | None = None


@dataclass(slots=True, kw_only=True)
class Put:
    """A whole document task. `uid` and `salt` are used where it is new. Answer: `Done` with `created`."""

    scope: Scope
    uid: str
    salt: str
    task: a2a.Task
    agent: str = ""
    expected_generation: int = 0


@dataclass(slots=True, kw_only=True)
class Delete:
    """Removes a task. A live managed one is canceled first, in the same transaction. Answer: `Done`.

    `expected_generation` 0: any.
    """

    scope: Scope
    task_id: str
    expected_generation: int = 0


@dataclass(slots=True, kw_only=True)
class Claim:
    """Takes the lease of a queued task. Answer: `Done`; None where it is no longer queued."""

    task_uid: str
    process_id: str
    lease_until: int


@dataclass(slots=True, kw_only=True)
class Renew:
    """Extends a lease while `fence` is current and `process_id` holds it. Answer: `Renewed`; never an error."""

    task_uid: str
    process_id: str
    fence: int
    lease_until: int


@dataclass(slots=True, kw_only=True)
class Orphan:
    """The lease is lost, by expiry or because its holder gave it up; the task's own policy says what follows.

    `process_id` and `fence`: only if it is still this lease. `expired_before`: only if it ran out before this time
    (None: whatever its time). `released`: given up on purpose, so the attempt does not count.
    Answer: `Done`, or None where there was nothing to do.
    """

    task_uid: str
    process_id: str
    fence: int
    expired_before: int | None = None
    released: bool = False


@dataclass(slots=True, kw_only=True)
class MarkCopied:
    """Its messages up to `generation` are in its session. Answer: `Done`."""

    task_uid: str
    generation: int


@dataclass(slots=True, kw_only=True)
class MarkSuperseded:
    """The history of a session is, after its entry `steered_seq`, without the invocations `cut`. Answer: `Marked`."""

    scope: Scope
    context_id: str
    steered_seq: int
    cut: Set[str]


@dataclass(slots=True, kw_only=True)
class Trim:
    """Forgets events of a task that ended `ended_before` and is copied, or of a document task. Answer: `Trimmed`.

    At most `at_most` generations at once, from the oldest on.
    """

    task_uid: str
    ended_before: int
    at_most: int


Operation = (
    Create | Append | AddMessage | Cancel | Put | Delete | Claim | Renew | Orphan | MarkCopied | MarkSuperseded | Trim
)


@dataclass(slots=True)
class Created:
    """`fence` is 0 unless `claim_for` holds the lease. `first`: the task as it was created, serialized, if it was."""

    row: Row
    created: bool
    fence: int
    first: bytes = b""


@dataclass(slots=True)
class Appended:
    """Generations of the item, and of the newest user message. `refusal` where it was not taken."""

    first_generation: int
    last_generation: int
    input_generation: int
    refusal: PlaneError | None = None


@dataclass(slots=True, kw_only=True)
class Added:
    """`added` is False for a repeat."""

    row: Row
    generation: int
    added: bool


@dataclass(slots=True, kw_only=True)
class Renewed:
    """`still_yours`: the lease was extended. `input_generation`: of the newest user message."""

    still_yours: bool
    input_generation: int


@dataclass(slots=True)
class Done:
    """The row as it is now. `created`: a document task that was not there before."""

    row: Row
    created: bool = False


@dataclass(slots=True)
class Marked:
    """The tasks that were hidden or came back, as they are now."""

    rows: Sequence[Row]


@dataclass(slots=True, kw_only=True)
class Trimmed:
    """How many events are gone, and the bytes of their payloads. `more`: others of the task may go, too."""

    events: int = 0
    bytes: int = 0
    more: bool = False


Answer = Created | Appended | Added | Renewed | Done | Marked | Trimmed | None


@dataclass(slots=True)
class Write:
    """What is to be written: the row as it will be, its new events, and the answer once that is committed.

    `document` is a snapshot to be stored as it is, at `row.snapshot_generation` (a new task, a document). `refold` says
    that the stored snapshot is to be rewritten in this transaction (the task ended, or its tail outweighs the
    snapshot). `delete` removes the row and its events. `fields` are the names of the row's fields that may be others
    than before, if there was one. `said`: see `fold`. `others`: what is written with it to other tasks, which exist.
    `trims`: events after the first and up to the second generation go, but for those that stay as long as the task.
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


@dataclass(slots=True)
class Writes:
    """What is to be written for an operation on several tasks, each of which is there; all of it, or nothing."""

    writes: Sequence[Write]
    answer: Answer


@dataclass(slots=True)
class Known:
    """What the log knows of the invocation that a Create or AddMessage names: the event that recorded it."""

    task_uid: str
    generation: int
    request_hash: bytes


@dataclass(slots=True)
class Found:
    """What was read for one operation before it is decided.

    `row` is the task it names (for Create: the one that holds `task_id`), whoever owns it. `known` is the record of its
    invocation in the operation's scope and `known_row` that record's task. `open_text` is the text so far of the open
    partial message, read where `needs.needs_open_text` says so. `lost_messages` are the ids of the messages that the
    task said under its current fence, read where `needs.needs_lost_messages` says so. `artifacts` are those that the
    task has of the artifacts that `needs.needs_artifacts` names. `turn` is the invocation of the newest message of the
    user, read where `needs.needs_turn` says so; elsewhere the row has it. `others`: what was found for each task that
    an operation on a session concerns; `cut`: such a task has one of the operation's invocations. `busy`: when the
    newest was created that a new task must not run beside; 0: there is none. `waits`: a queued task that is in turn has
    one before it.
    """

    row: Row | None
    known: Known | None = None
    known_row: Row | None = None
    open_text: a2a.Message | None = None
    lost_messages: Sequence[str] = ()
    artifacts: Set[str] = frozenset()
    turn: str = ""
    others: Sequence["Found"] = ()
    cut: bool = False
    busy: int = 0
    waits: bool = False
