"""Conversion between the domain and protobuf: rows, tasks and events to messages, requests to operations."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import USAGE
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime import tracing
from taskplane.runtime.errors import PlaneError
from taskplane.runtime.sharing import SharedBy
from taskplane.runtime.times import micros, set_time
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.changes import (
    Change,
    Data,
    UserMessage,
    read_artifact,
    read_status,
    read_status_text,
)
from taskplane.tasks.domain.commands import Answer
from taskplane.tasks.domain.kinds import DATA, KINDS, STATUS
from taskplane.tasks.domain.task import (
    DOCUMENT,
    FAIL_ON_ORPHAN,
    PARALLEL,
    SUBMITTED,
    Event,
    Row,
    Scope,
    cursor_of,
    incarnation,
)
from taskplane.tasks.pages import EventFilter, TaskFilter
from taskplane.tasks.store import Renewed

# Characters of the cause of a failure.
_MAX_CAUSE: Final = 2_000


@dataclass(frozen=True, slots=True)
class Wire:
    """Converter of rows; `epoch` is that of their log."""

    epoch: str

    def incarnation(self, row: Row) -> str:
        """Return the first half of the cursors of this row's task."""
        return incarnation(row.salt, self.epoch)

    def cursor(self, row: Row, generation: int) -> str:
        """Return the cursor after `generation` in the log of this row's task."""
        return cursor_of(self.incarnation(row), generation)

    def record(self, row: Row, task: a2a.Task | None = None) -> pb.TaskRecord:
        """Convert a row, with the content `task` if it is given."""
        record = pb.TaskRecord()
        self.fill(record, row, task)
        return record

    def fill(self, record: pb.TaskRecord, row: Row, task: a2a.Task | None = None) -> None:
        """Fill an empty record that is part of a message, so that nothing is copied twice; see `record`."""
        self._fill(record, row)
        record.state = row.state  # type: ignore[assignment]
        record.generation = row.generation
        set_time(record.status_at, row.status_at)
        set_time(record.updated_at, row.updated_at)
        if task is not None:
            record.task.CopyFrom(task)

    def fill_created(self, record: pb.TaskRecord, row: Row, task: bytes) -> None:
        """Fill a record with a new task as of generation 1, without the later events of the same commit.

        `task`: its serialized content then.
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
        if row.trace is not None:
            record.traceparent = tracing.unpack(row.trace)
        if row.checkpoint_generation is not None:
            record.checkpoint_generation = row.checkpoint_generation
        set_time(record.created_at, row.created_at)


def trim(task: a2a.Task, history_length: int | None, *, artifacts: bool = True) -> None:
    """Remove all but the newest `history_length` messages (None: keep all), and the artifacts unless asked for."""
    if history_length == 0:
        task.ClearField("history")
    elif history_length is not None:
        del task.history[:-history_length]
    if not artifacts:
        task.ClearField("artifacts")


def event(stored: Event, *, service: bool = False) -> pb.Event:
    """Convert an event of the log; its payload is parsed here and nowhere else.

    `service`: with the fields for services only.
    """
    message = pb.Event(
        generation=stored.generation,
        fence=stored.fence,
        attempt=stored.attempt,
        kind=stored.kind,  # type: ignore[arg-type]
        actor=stored.actor,
        invocation_id=stored.invocation_id or "",
        speaks=stored.speaks,
    )
    if stored.trace is not None:
        message.traceparent = tracing.unpack(stored.trace)
    set_time(message.created_at, stored.created_at)
    kind = KINDS.get(stored.kind)
    if kind is not None and kind.data:
        if service:
            setattr(message, kind.data, stored.payload)
    elif stored.payload:
        message.event.ParseFromString(stored.payload)
    if stored.options is not None and service and stored.kind != STATUS:
        message.options.ParseFromString(stored.options)
    return message


def cause(stored: Event) -> str:
    """Return the cause of a failure for operators; empty without."""
    return pb.Change.FromString(stored.options).cause if stored.options and stored.kind == STATUS else ""


def uncopied(row: Row) -> pb.UncopiedTask:
    """Convert the row of a task with messages that are missing in its session."""
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
    """Fill an empty result with the answer to an item. An error concerns this item only."""
    result.task_uid = item.task_uid
    refusal: PlaneError | None
    if isinstance(answer, commands.Appended):
        result.first_generation = answer.first_generation
        result.last_generation = answer.last_generation
        result.input_generation = answer.input_generation
        if answer.created_at:
            set_time(result.created_at, answer.created_at)
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
    queue_limits: commands.QueueLimits = commands.NO_LIMITS,
    queue_limit: float = 0.0,
    pause_limit: float = 0.0,
) -> commands.Create:
    """Convert a CreateTask request; its `message` and `changes` were read before. `lease_until` is used if it claims.

    `queue_limit` and `pause_limit` are seconds, for a request that has none; 0: no limit.
    """
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
        on_orphan=request.on_orphan or FAIL_ON_ORPHAN,
        max_attempts=request.max_attempts or 3,
        changes=changes,
        claim_for=request.claim_for,
        lease_until=lease_until,
        strategy=request.strategy or PARALLEL,
        queue_limits=queue_limits,
        options=_options(request),
        queue_limit=_limit(request.queue_limit or queue_limit),
        pause_limit=_limit(request.pause_limit or pause_limit),
    )


def _limit(seconds: float) -> int | None:
    return int(seconds * 1_000_000) or None


def _options(request: pb.CreateTaskRequest | pb.AddMessageRequest) -> bytes | None:
    """Return the serialized options of a turn; None if there are none."""
    return request.options.SerializeToString() or None


def read_changes(changes: Iterable[pb.Change], field: str) -> list[Change]:
    """Read the changes of one item, in their order. Raise Invalid `TOO_DEEP`, naming the `field` of the request."""
    return [_read_change(change, field) for change in changes]


def _read_change(change: pb.Change, field: str) -> Change:
    if change.HasField("status"):
        read = read_status(change.status, field)
        if change.cause:
            read.cause = pb.Change(cause=change.cause[:_MAX_CAUSE]).SerializeToString()
        return read
    if change.HasField("artifact"):
        return read_artifact(change.artifact, field)
    if change.HasField("status_text"):
        return read_status_text(change.status_text, field)
    field_set = change.WhichOneof("change")
    return Data(DATA[field_set], getattr(change, field_set)) if field_set is not None else None


def append(request: pb.AppendEventsRequest, actor: str) -> list[commands.Append]:
    """Return one operation per item, in their order. Raise Invalid `TOO_DEEP`."""
    return [
        commands.Append(
            actor,
            item.task_uid,
            item.fence,
            item.number,
            read_changes(item.changes, "items"),
            item.consumed_generation,
            item.copied_generation,
            tracing.pack(item.traceparent) if item.traceparent else None,
            _usage(item.usage) if item.usage else None,
        )
        for item in request.items
    ]


def _usage(figures: Mapping[str, float]) -> bytes:
    update = a2a.TaskStatusUpdateEvent()
    update.metadata.fields[USAGE].struct_value.update(figures)
    return update.SerializeToString(deterministic=True)


def add_message(request: pb.AddMessageRequest, scope: Scope, message: UserMessage) -> commands.AddMessage:
    """Convert an AddMessage request."""
    return commands.AddMessage(
        scope=scope,
        task_id=request.task_id,
        invocation_id=request.invocation_id,
        request_hash=request.request_hash,
        message=message,
        expected_context=request.expected_context,
        options=_options(request),
        expected_generation=request.expected_generation,
    )


def cancel(request: pb.CancelTaskRequest, scope: Scope) -> commands.Cancel:
    """Convert a CancelTask request; its metadata becomes that of an otherwise empty status event."""
    update = None
    if request.HasField("metadata"):
        update = a2a.TaskStatusUpdateEvent(metadata=request.metadata)
    return commands.Cancel(scope=scope, task_id=request.task_id, event_metadata=update)


def mark_superseded(request: pb.MarkSupersededRequest, scope: Scope) -> commands.MarkSuperseded:
    """Convert a MarkSuperseded request."""
    return commands.MarkSuperseded(
        scope=scope,
        context_id=request.context_id,
        steered_seq=request.steered_seq,
        cut=frozenset(request.cut_invocation_ids),
    )


def put(request: pb.PutTaskRequest, scope: Scope, *, uid: str, salt: str, task_id: str) -> commands.Put:
    """Convert a PutTask request. `task_id` is used if the document has no id."""
    task = request.task
    if not task.id:
        task = a2a.Task()
        task.CopyFrom(request.task)
        task.id = task_id
    return commands.Put(
        scope=scope,
        uid=uid,
        salt=salt,
        task=task,
        agent=request.agent,
        expected_generation=request.expected_generation,
        validate_only=request.validate_only,
        without=frozenset(request.without_invocation_ids),
        own_turn=request.own_turn,
    )


def task_filter(request: pb.ListTasksRequest) -> TaskFilter:
    """Return the filter of a ListTasks request."""
    return TaskFilter(
        context_id=request.context_id,
        agent=request.agent,
        state=int(request.state),
        status_after=micros(request.status_after) if request.HasField("status_after") else 0,
        by_creation=request.order == pb.TASK_ORDER_CREATED,
        page_size=request.page_size or 50,
        page_token=request.page_token,
        superseded=request.include_superseded,
    )


def event_filter(request: pb.ListEventsRequest) -> EventFilter:
    """Return the filter of a ListEvents request."""
    return EventFilter(
        kinds=[int(kind) for kind in request.kinds],
        speaking=request.speaking,
        status_messages=request.status_messages,
        after_generation=request.after_generation,
        newest_first=request.newest_first,
        limit=request.limit or 100,
    )


def lease_states(leases: Sequence[pb.Lease], renewed: Sequence[Renewed]) -> list[pb.LeaseState]:
    """Convert the answers to renewals, in the order of the request."""
    return [
        pb.LeaseState(
            task_uid=lease.task_uid,
            still_yours=state.still_yours is not False,
            unknown=state.still_yours is None,
            input_generation=state.input_generation,
        )
        for lease, state in zip(leases, renewed, strict=True)
    ]


def shared_by(request: pb.ClaimRequest) -> SharedBy:
    """Return the sharing of the slots of the process; several tenants if the request does not say."""
    if request.shared_by == pb.SHARED_BY_ONE:
        return "one"
    return "users" if request.shared_by == pb.SHARED_BY_USERS else "tenants"
