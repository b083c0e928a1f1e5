"""The nouns: a task's row, an event, the states and which may follow which."""

import base64
import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb

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
# Which state may follow which, for managed tasks. WORKING may follow itself; SUBMITTED follows WORKING only when the
# store queues a lost attempt again. The database triggers are generated from this table.
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

# Kinds of events, as stored.
CREATED: Final = int(pb.EVENT_KIND_CREATED)
MESSAGE: Final = int(pb.EVENT_KIND_MESSAGE)
STATUS: Final = int(pb.EVENT_KIND_STATUS)
ARTIFACT: Final = int(pb.EVENT_KIND_ARTIFACT)
REPLACED: Final = int(pb.EVENT_KIND_REPLACED)
SUPERSEDED: Final = int(pb.EVENT_KIND_SUPERSEDED)
RESTORED: Final = int(pb.EVENT_KIND_RESTORED)
# They say how a session shows the task and nothing about the task; no other event follows a terminal one.
MARKS: Final = frozenset({SUPERSEDED, RESTORED})
# What is left of a log that was trimmed, beside its end, its head and every change of the state: what makes turns
# idempotent, and marks.
LASTING: Final = MARKS | {CREATED, MESSAGE}


class Scope(NamedTuple):
    """Whose tasks an operation may touch, and who is named in what it writes."""

    tenant: str
    owner: str
    actor: str


class Row(NamedTuple):
    """A task without its content. Times are microseconds since 1970, UTC; the field order is the table's.

    A tuple, since every operation reads and copies some: `changed(row, ...)` makes the changed copy.
    """

    uid: str
    tenant: str
    owner: str
    id: str
    origin: str
    agent: str
    context_id: str
    invocation_id: str | None
    request_hash: bytes | None
    state: int
    status_at: int
    generation: int
    terminal_generation: int | None
    input_generation: int
    consumed_generation: int
    message_generation: int
    copied_generation: int
    # The newest message that speaks, so that a terminal status which repeats it is known for a repetition.
    message_id: str | None
    # The open text: its first event and its message id.
    partial_generation: int | None
    partial_id: str | None
    # The artifact that was written to last, so that what goes on with it is allowed without asking the log.
    artifact_id: str | None
    # The event that made the task start anew after a lost attempt: artifacts that began before it are gone. 0: none.
    restart_generation: int
    fence: int
    item_fence: int | None
    item_number: int | None
    item_first: int | None
    item_last: int | None
    attempt: int
    started: bool
    on_orphan: int
    max_attempts: int
    # Not null exactly while the task is queued.
    ready_at: int | None
    lease_owner: str | None
    lease_until: int | None
    salt: str
    created_at: int
    updated_at: int
    snapshot_generation: int
    # Bytes of the stored snapshot, of all event payloads, trimmed ones, too, and of those that the snapshot contains.
    snapshot_bytes: int
    event_bytes: int
    folded_bytes: int
    # A rewind of its session cut it.
    superseded: bool
    # The newest entry of its session that it was brought in line with. 0: none.
    superseded_seq: int
    # It is assigned only when its agent is done with what was begun before it in its session.
    in_turn: bool
    # Events up to it may be missing, but for those that stay as long as the task; after it the log is whole.
    trimmed_generation: int


_PLACES: Final = {name: place for place, name in enumerate(Row._fields)}


def changed_by(row: Row, values: Mapping[str, object]) -> Row:
    """A copy of `row` with other `values`, by the names of their fields. KeyError: there is no such field."""
    fields: list[object] = list(row)
    for name, value in values.items():
        fields[_PLACES[name]] = value
    return Row._make(fields)


if TYPE_CHECKING:
    # The method it stands for: so the names and types of the values are checked.
    changed = Row._replace
else:

    def changed(row: Row, /, **values: object) -> Row:
        """Like `row._replace`, at the cost of the values and not of all forty. KeyError: there is no such field."""
        return changed_by(row, values)


class Event(NamedTuple):
    """One event of a task's log. `payload` is a serialized `StreamResponse`; empty for REPLACED and for marks.

    `state` is the one that the event puts its task in, or finds it in; 0 where it says nothing about it.

    `tenant`, `owner`, `invocation_id` and `request_hash` are set on CREATED and MESSAGE events only: together they are
    the record that makes a turn idempotent. `artifact_id` is set where the event begins an artifact or replaces it.

    `changed_to`: the state that the task has since this event and had not before; None where it has the same.
    """

    task_uid: str
    generation: int
    tenant: str | None
    owner: str | None
    fence: int
    attempt: int
    kind: int
    state: int
    actor: str
    invocation_id: str | None
    request_hash: bytes | None
    artifact_id: str | None
    speaks: bool
    payload: bytes
    created_at: int
    changed_to: int | None


def cursor_of(incarnation: str, generation: int) -> str:
    """The place after `generation` in the log that `incarnation` names."""
    return f"{incarnation}-{generation}"


@lru_cache(4096)
def incarnation(salt: str, epoch: str) -> str:
    """Names one log of one task: ten characters of lower-case base32, other ones for every row and every epoch."""
    return base64.b32encode(hashlib.sha256(f"{salt}{epoch}".encode()).digest()[:10])[:10].decode().lower()
