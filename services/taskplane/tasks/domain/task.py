"""Tasks, their events, their states and which state may follow which, and the numbers of states and policies."""

import base64
import hashlib
from collections.abc import Mapping
from enum import Enum, auto
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeAlias, TypeVar

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.storage.fields import Cache, Fixed, Free, Growing, Small

MANAGED: Final = "managed"
DOCUMENT: Final = "document"

SUBMITTED: Final = int(a2a.TASK_STATE_SUBMITTED)
WORKING: Final = int(a2a.TASK_STATE_WORKING)
COMPLETED: Final = int(a2a.TASK_STATE_COMPLETED)
FAILED: Final = int(a2a.TASK_STATE_FAILED)
CANCELED: Final = int(a2a.TASK_STATE_CANCELED)
INPUT_REQUIRED: Final = int(a2a.TASK_STATE_INPUT_REQUIRED)
REJECTED: Final = int(a2a.TASK_STATE_REJECTED)
AUTH_REQUIRED: Final = int(a2a.TASK_STATE_AUTH_REQUIRED)

TERMINAL: Final = frozenset({COMPLETED, FAILED, CANCELED, REJECTED})
PAUSED: Final = frozenset({INPUT_REQUIRED, AUTH_REQUIRED})
AT_REST: Final = TERMINAL | PAUSED
ACTIVE: Final = frozenset({SUBMITTED, WORKING})
STATES: Final = ACTIVE | AT_REST

_FROM_ACTIVE: Final = frozenset({WORKING, INPUT_REQUIRED, AUTH_REQUIRED, COMPLETED, FAILED, CANCELED, REJECTED})
# The states that may follow each state of a managed task. WORKING may follow itself; SUBMITTED follows WORKING only
# when the store queues a lost attempt again. The database triggers are generated from this table.
NEXT: Final[dict[int, frozenset[int]]] = {
    SUBMITTED: _FROM_ACTIVE,
    WORKING: _FROM_ACTIVE,
    INPUT_REQUIRED: frozenset({SUBMITTED, CANCELED, FAILED}),
    AUTH_REQUIRED: frozenset({SUBMITTED, CANCELED, FAILED}),
    COMPLETED: frozenset(),
    FAILED: frozenset(),
    CANCELED: frozenset(),
    REJECTED: frozenset(),
}

# The policy for a task of a lost executor: it fails, runs again, or goes on from its checkpoint.
FAIL_ON_ORPHAN: Final = 1
RERUN_ON_ORPHAN: Final = 2
RESUME_ON_ORPHAN: Final = 3

# The strategy for a new task if its session has SUBMITTED or WORKING tasks of the same agent.
PARALLEL: Final = 1
QUEUE: Final = 2
REJECT: Final = 3
INTERRUPT: Final = 4


class Scope(NamedTuple):
    """The owner of the tasks that an operation may touch, and the actor and the trace of its events.

    `trace`: the packed `traceparent` of the call; None: the call is not traced.
    """

    tenant: str
    owner: str
    actor: str
    trace: bytes | None = None


class Use(Enum):
    """The changes that write a field of `Row`, beside its rule."""

    BY_ITEM = auto()
    """An item of an append changes it. No index may name its column."""
    AFTER_END = auto()
    """It may change after the end of a managed task. Clients do not see it as the task."""
    BY_MARK = auto()
    """A mark changes it after the end of a managed task, together with the other fields of this kind."""


_T = TypeVar("_T")
ByItem: TypeAlias = Annotated[_T, Use.BY_ITEM]
AfterEnd: TypeAlias = Annotated[_T, Use.AFTER_END]
ByMark: TypeAlias = Annotated[_T, Use.BY_MARK]


class Row(NamedTuple):
    """A task without its content. Times are microseconds since 1970, UTC.

    The fields are the columns of the table, in its order. Their aliases give the rules of the triggers. It is a tuple
    because every operation reads and copies rows; `changed(row, ...)` returns a changed copy.

    Add a field at the end. Its default is the value in a new task.
    """

    uid: Fixed[str]
    tenant: Fixed[str]
    owner: Fixed[str]
    id: Fixed[str]
    origin: Fixed[str]
    agent: Free[str]
    context_id: Free[str]
    invocation_id: Free[str | None]
    request_hash: Fixed[bytes | None]
    state: Free[Small]
    status_at: Free[int]
    generation: ByMark[ByItem[Growing[int]]]
    terminal_generation: Free[int | None]
    input_generation: Growing[int]
    consumed_generation: Free[int]
    message_generation: Growing[int]
    copied_generation: AfterEnd[Growing[int]]
    # The newest message of the conversation (`speaks`). A terminal status with the same message repeats it.
    message_id: ByItem[Free[str | None]]
    # The open text: its first event and its message id.
    partial_generation: ByItem[Free[int | None]]
    partial_id: ByItem[Free[str | None]]
    # The artifact that was written to last: appending to it needs no look into the log.
    artifact_id: ByItem[Free[str | None]]
    # The event by which the task started again after a lost attempt: artifacts from before it are gone. 0: no such
    # event.
    restart_generation: Growing[int]
    fence: Growing[int]
    item_fence: ByItem[Free[int | None]]
    item_number: ByItem[Free[int | None]]
    item_first: ByItem[Free[int | None]]
    item_last: ByItem[Free[int | None]]
    attempt: Free[Small]
    started: ByItem[Free[bool]]
    on_orphan: Fixed[Small]
    max_attempts: Fixed[Small]
    # Not null exactly while the task is queued.
    ready_at: Free[int | None]
    # The process that holds its lease; until when, the table of leases says.
    lease_owner: Free[str | None]
    salt: Fixed[str]
    created_at: Fixed[int]
    updated_at: ByMark[ByItem[Free[int]]]
    snapshot_generation: AfterEnd[Growing[int]]
    # Bytes of the stored snapshot, of all event payloads (trimmed payloads too), and of the payloads that the snapshot
    # has.
    snapshot_bytes: Cache[int]
    event_bytes: ByItem[Free[int]]
    folded_bytes: Cache[int]
    # A rewind of its session cut it.
    superseded: ByMark[Free[bool]]
    # The newest rewind or undo of its session that was applied to it, by entry number. 0: none.
    superseded_seq: AfterEnd[Growing[int]]
    # It is assigned only once its agent has finished the tasks begun before it in its session.
    in_turn: Fixed[bool]
    # Events up to this generation may be missing, except those that are never trimmed. After it the log is complete.
    trimmed_generation: AfterEnd[Growing[int]]
    # The packed `traceparent` of the call with the newest message: a run continues that trace.
    trace: Free[bytes | None]
    # The turns that a document names and a rewind cut, as a JSON list; null: none. Their messages are not shown.
    cut_turns: Free[str | None]
    # The newest checkpoint of its agent; null: none.
    checkpoint_generation: ByItem[Growing[int | None]]
    # Maximum time in the queue, and in each pause, in microseconds; null: no limit.
    queue_limit: Fixed[int | None]
    pause_limit: Fixed[int | None]
    # End of the present limit; null if no limit applies in the present state.
    limit_at: Free[int | None]
    # The figures of the run, as a serialized `TaskStatusUpdateEvent` with nothing else; null: none.
    usage: ByItem[Free[bytes | None]] = None


_PLACES: Final = {name: place for place, name in enumerate(Row._fields)}


def changed_by(row: Row, values: Mapping[str, object]) -> Row:
    """Return a copy of `row` with other `values`, by the names of their fields. KeyError: a field does not exist."""
    fields: list[object] = list(row)
    for name, value in values.items():
        fields[_PLACES[name]] = value
    return Row._make(fields)


if TYPE_CHECKING:
    # Type checkers see the method that it replaces, and check the names and types of the values.
    changed = Row._replace
else:

    def changed(row: Row, /, **values: object) -> Row:
        """Return `row._replace(...)`, at the cost of the given values, not of all forty. KeyError: no such field."""
        return changed_by(row, values)


class Lease(NamedTuple):
    """The right of one process to run a task until a time, in microseconds since 1970; the field order is the table's.

    It is valid while the row of the task has this owner and this fence, even after its time.
    """

    task_uid: str
    owner: str
    fence: int
    lease_until: int


class Event(NamedTuple):
    """An event of a task's log. `payload` is a serialized `StreamResponse`; empty for REPLACED and for marks, of a
    CHECKPOINT its data.

    `state` is the state of the task after the event; 0 if the event says nothing about it.

    `tenant`, `owner`, `invocation_id` and `request_hash` are set on CREATED and MESSAGE events only: together they are
    the record that makes a turn idempotent. `artifact_id` is set if the event begins an artifact or replaces it.

    `changed_to`: the new state, if the event changed it; None otherwise.

    `trace`: the packed `traceparent` of the call or run that wrote it; None: nobody traced it.

    `options`: the serialized `TurnOptions` of a CREATED or MESSAGE event, and of a STATUS event that failed the task a
    serialized `Change` with the cause alone; None: there is none. Only services and operators are shown any.
    """

    task_uid: str
    generation: int
    tenant: str | None
    owner: str | None
    fence: int
    attempt: Small
    kind: Small
    state: Small
    actor: str
    invocation_id: str | None
    request_hash: bytes | None
    artifact_id: str | None
    speaks: bool
    payload: bytes
    created_at: int
    changed_to: Small | None
    trace: bytes | None = None
    options: bytes | None = None


def content_size(row: Row) -> int:
    """Return roughly how many bytes are read to fold the task: its snapshot and the events after it."""
    return row.snapshot_bytes + row.event_bytes - row.folded_bytes


def cursor_of(incarnation: str, generation: int) -> str:
    """Return the cursor after `generation` in the log that `incarnation` names."""
    return f"{incarnation}-{generation}"


@lru_cache(4096)
def incarnation(salt: str, epoch: str) -> str:
    """Return the name of one log of one task: ten characters of lower-case base32, different for each row and epoch."""
    return base64.b32encode(hashlib.sha256(f"{salt}{epoch}".encode()).digest()[:10])[:10].decode().lower()
