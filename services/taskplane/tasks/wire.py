"""Domain <-> protobuf: rows, tasks and events as the contract shows them, requests as operations. Decides nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.timestamp_pb2 import Timestamp

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import PlaneError
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.changes import Change, UserMessage, read_changes
from taskplane.tasks.domain.commands import Answer
from taskplane.tasks.domain.task import DOCUMENT, SUBMITTED, Event, Row, Scope, cursor_of, incarnation
from taskplane.tasks.store import EventFilter, TaskFilter

_SECOND = 1_000_000
_FAIL = int(pb.ON_ORPHAN_FAIL)
_PARALLEL = int(pb.STRATEGY_PARALLEL)


@dataclass(frozen=True, slots=True)
class Wire:
    """What is made of rows; `epoch` is that of the log they stand in."""

    epoch: str

    def incarnation(self, row: Row) -> str:
        """First half of the cursors of this row's task."""
        return incarnation(row.salt, self.epoch)

    def cursor(self, row: Row, generation: int) -> str:
        """The place after `generation` in the log of this row's task."""
        return cursor_of(self.incarnation(row), generation)

    def record(self, row: Row, task: a2a.Task | None = None) -> pb.TaskRecord:
        """The row, with the content `task` where it is given."""
        record = pb.TaskRecord()
        self.fill(record, row, task)
        return record

    def fill(self, record: pb.TaskRecord, row: Row, task: a2a.Task | None = None) -> None:
        """Like `record`, into an empty record that is part of a message: nothing is copied twice."""
        self._fill(record, row)
        record.state = row.state  # type: ignore[assignment]
        record.generation = row.generation
        set_time(record.status_at, row.status_at)
        set_time(record.updated_at, row.updated_at)
        if task is not None:
            record.task.CopyFrom(task)

    def fill_created(self, record: pb.TaskRecord, row: Row, task: bytes) -> None:
        """Shows a task just created as it was at generation 1, whatever followed in the same commit.

        `task` is its content then, serialized.
        """
        self._fill(record, row)
        record.state = SUBMITTED  # type: ignore[assignment]
        record.generation = 1
        set_time(record.status_at, row.created_at)
        set_time(record.updated_at, row.created_at)
        record.task.MergeFromString(task)

    def _fill(self, record: pb.TaskRecord, row: Row) -> None:
        record.uid = row.uid
        record.tenant = row.tenant
        record.owner = row.owner
        record.id = row.id
        record.context_id = row.context_id
        record.origin = pb.ORIGIN_DOCUMENT if row.origin == DOCUMENT else pb.ORIGIN_MANAGED
        record.agent = row.agent
        if row.invocation_id is not None:
            record.invocation_id = row.invocation_id
        if row.terminal_generation is not None:
            record.terminal_generation = row.terminal_generation
        record.input_generation = row.input_generation
        record.consumed_generation = row.consumed_generation
        record.message_generation = row.message_generation
        record.copied_generation = row.copied_generation
        record.fence = row.fence
        record.attempt = row.attempt
        record.on_orphan = row.on_orphan  # type: ignore[assignment]
        record.max_attempts = row.max_attempts
        record.incarnation = self.incarnation(row)
        if row.superseded:
            record.superseded = True
        set_time(record.created_at, row.created_at)


def trim(task: a2a.Task, history_length: int | None, *, artifacts: bool = True) -> None:
    """Keeps the newest `history_length` messages (None: all) and, if not asked for, no artifacts."""
    if history_length == 0:
        task.ClearField("history")
    elif history_length is not None:
        del task.history[:-history_length]
    if not artifacts:
        task.ClearField("artifacts")


def event(stored: Event) -> pb.Event:
    """An event of the log; its payload is parsed here and nowhere else."""
    message = pb.Event(
        generation=stored.generation,
        fence=stored.fence,
        attempt=stored.attempt,
        kind=stored.kind,  # type: ignore[arg-type]
        actor=stored.actor,
        invocation_id=stored.invocation_id or "",
        speaks=stored.speaks,
    )
    set_time(message.created_at, stored.created_at)
    if stored.payload:
        message.event.ParseFromString(stored.payload)
    return message


def uncopied(row: Row) -> pb.UncopiedTask:
    """A task whose messages are not all in its session."""
    message = pb.UncopiedTask(
        tenant=row.tenant,
        owner=row.owner,
        uid=row.uid,
        task_id=row.id,
        context_id=row.context_id,
        agent=row.agent,
        invocation_id=row.invocation_id or "",
        copied_generation=row.copied_generation,
        message_generation=row.message_generation,
    )
    set_time(message.status_at, row.status_at)
    return message


def append_result(result: pb.AppendResult, item: commands.Append, answer: Answer | PlaneError) -> None:
    """What became of an item, into an empty result. An error concerns this item only."""
    result.task_uid = item.task_uid
    refusal: PlaneError | None
    if isinstance(answer, commands.Appended):
        result.first_generation = answer.first_generation
        result.last_generation = answer.last_generation
        result.input_generation = answer.input_generation
        refusal = answer.refusal
    else:
        refusal = answer if isinstance(answer, PlaneError) else None
    if refusal is not None:
        result.refusal.reason = refusal.reason
        result.refusal.message = refusal.message


def create(
    request: pb.CreateTaskRequest,
    scope: Scope,
    message: UserMessage,
    changes: Sequence[Change],
    *,
    uid: str,
    salt: str,
    task_id: str,
    lease_until: int,
) -> commands.Create:
    """`message` and `changes` are those of the request. `lease_until` is used where it claims."""
    return commands.Create(
        scope=scope,
        uid=uid,
        salt=salt,
        task_id=task_id,
        invocation_id=request.invocation_id,
        request_hash=request.request_hash,
        agent=request.agent,
        context_id=request.context_id,
        message=message,
        metadata=request.metadata.SerializeToString() if request.HasField("metadata") else None,
        on_orphan=request.on_orphan or _FAIL,
        max_attempts=request.max_attempts or 3,
        changes=changes,
        claim_for=request.claim_for,
        lease_until=lease_until,
        strategy=request.strategy or _PARALLEL,
    )


def append(request: pb.AppendEventsRequest, actor: str) -> list[commands.Append]:
    """One operation per item, in their order. Invalid `TOO_DEEP`."""
    return [
        commands.Append(
            actor,
            item.task_uid,
            item.fence,
            item.number,
            read_changes(item.changes, "items"),
            item.consumed_generation,
            item.copied_generation,
        )
        for item in request.items
    ]


def add_message(request: pb.AddMessageRequest, scope: Scope, message: UserMessage) -> commands.AddMessage:
    """A user's message for a task that exists."""
    return commands.AddMessage(
        scope=scope,
        task_id=request.task_id,
        invocation_id=request.invocation_id,
        request_hash=request.request_hash,
        message=message,
        expected_context=request.expected_context,
    )


def cancel(request: pb.CancelTaskRequest, scope: Scope) -> commands.Cancel:
    """The metadata of the request travels in an otherwise empty status event."""
    update = None
    if request.HasField("metadata"):
        update = a2a.TaskStatusUpdateEvent(metadata=request.metadata)
    return commands.Cancel(scope=scope, task_id=request.task_id, event_metadata=update)


def mark_superseded(request: pb.MarkSupersededRequest, scope: Scope) -> commands.MarkSuperseded:
    """What is cut from a session now."""
    return commands.MarkSuperseded(
        scope=scope,
        context_id=request.context_id,
        steered_seq=request.steered_seq,
        cut=frozenset(request.cut_invocation_ids),
    )


def put(request: pb.PutTaskRequest, scope: Scope, *, uid: str, salt: str, task_id: str) -> commands.Put:
    """`task_id` is used where the document has no id."""
    task = request.task
    if not task.id:
        task = a2a.Task()
        task.CopyFrom(request.task)
        task.id = task_id
    return commands.Put(
        scope=scope, uid=uid, salt=salt, task=task, agent=request.agent, expected_generation=request.expected_generation
    )


def task_filter(request: pb.ListTasksRequest) -> TaskFilter:
    """Which tasks to list."""
    return TaskFilter(
        context_id=request.context_id,
        agent=request.agent,
        state=int(request.state),
        status_after=_micros(request.status_after) if request.HasField("status_after") else 0,
        by_creation=request.order == pb.TASK_ORDER_CREATED,
        page_size=request.page_size or 50,
        page_token=request.page_token,
        superseded=request.include_superseded,
    )


def event_filter(request: pb.ListEventsRequest) -> EventFilter:
    """Which events to list."""
    return EventFilter(
        kinds=[int(kind) for kind in request.kinds],
        speaking=request.speaking,
        after_generation=request.after_generation,
        newest_first=request.newest_first,
        limit=request.limit or 100,
    )


def lease_states(leases: Sequence[pb.Lease], renewed: Sequence[commands.Renewed]) -> list[pb.LeaseState]:
    """What became of each lease, in the order of the request."""
    return [
        pb.LeaseState(task_uid=lease.task_uid, still_yours=state.still_yours, input_generation=state.input_generation)
        for lease, state in zip(leases, renewed, strict=True)
    ]


def set_time(stamp: Timestamp, micros: int) -> None:
    """Microseconds since 1970, into an empty stamp."""
    stamp.seconds, rest = divmod(micros, _SECOND)
    stamp.nanos = rest * 1000


def _micros(stamp: Timestamp) -> int:
    return stamp.seconds * _SECOND + stamp.nanos // 1000
