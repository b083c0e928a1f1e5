"""The tasks of one test in memory: what an executor needs of the task store and its queue, and nothing durable."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskQueueServicer, TaskStoreServicer
from taskplane.executor.agent import text_of
from taskplane.executor.states import AT_REST, TERMINAL
from taskplane.executor.testing.artifacts import in_pieces, merge_artifact
from taskplane.runtime.errors import NotFound, Refused
from taskplane.runtime.interceptors import Context
from taskplane.runtime.message_metadata import KIND, PARTIAL_KEYS, STATUS_TEXT

# Seconds; more than any test takes.
_LEASE: Final = 3600.0
_PAUSED: Final = AT_REST - TERMINAL
_WAITS_FOR_INPUT: Final = _PAUSED | {a2a.TASK_STATE_COMPLETED}


@dataclass(slots=True)
class Kept:
    """A task with its log."""

    record: pb.TaskRecord
    events: list[pb.Event] = field(default_factory=list[pb.Event])
    # Answers to items, by fence and number.
    answers: dict[tuple[int, int], pb.AppendResult] = field(default_factory=dict[tuple[int, int], pb.AppendResult])
    # The text that grows, until its message is whole.
    open_text: a2a.Message | None = None
    # The figures of runs, by fence.
    usage: dict[int, dict[str, float]] = field(default_factory=dict[int, dict[str, float]])


class MemoryTasks(TaskStoreServicer, TaskQueueServicer):
    """The task store and its queue. A method that no turn of an agent needs is UNIMPLEMENTED."""

    def __init__(self) -> None:
        self._tasks: dict[str, Kept] = {}
        self._said_to_executor: asyncio.Queue[pb.ClaimResponse] = asyncio.Queue()
        self._moved = asyncio.Condition()

    # For the test.

    def named(self, task_id: str) -> Kept:
        """Return a task. NotFound."""
        if task_id not in self._tasks:
            raise NotFound(f"task {task_id} was not found", reason="TASK_NOT_FOUND")
        return self._tasks[task_id]

    def keep(self, task: a2a.Task) -> None:
        """Keep a task that ended before, so that a message may refer to it."""
        record = pb.TaskRecord(uid=task.id, id=task.id, context_id=task.context_id, state=task.status.state, task=task)
        self._tasks[task.id] = Kept(record)

    def queue(self, request: pb.CreateTaskRequest, further: Sequence[pb.AddMessageRequest], checkpoint: bytes) -> None:
        """Create a task that waits for its run, with further messages, and with the checkpoint of an earlier run."""
        kept = self._create(request)
        if checkpoint:
            self._append(kept, pb.EVENT_KIND_CHECKPOINT, checkpoint=checkpoint)
            kept.record.attempt = 1
        for message in further:
            self._add(kept, message)
        self._assign(kept)

    async def at_rest(self, task_id: str) -> Kept:
        """Wait until a task has ended or waits for its user."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.named(task_id).record.state in AT_REST)
        return self.named(task_id)

    async def cancel(self, task_id: str) -> None:
        """End a task as its user may at any moment; nothing happens to one that has ended."""
        kept = self.named(task_id)
        if kept.record.state in TERMINAL:
            return
        self._interrupt(kept, a2a.TASK_STATE_CANCELED, "")
        self._hint()
        async with self._moved:
            self._moved.notify_all()

    # TaskStore.

    async def CreateTask(self, request: pb.CreateTaskRequest, context: Context) -> pb.CreateTaskResponse:
        kept = self._create(request)
        answer = pb.CreateTaskResponse(created=True, lease_ttl=_LEASE)
        answer.record.CopyFrom(kept.record)
        if request.claim_for:
            kept.record.fence = kept.record.attempt = answer.fence = answer.record.fence = answer.record.attempt = 1
            for change in request.first_changes:
                self._apply(kept, change)
        else:
            self._assign(kept)
        return answer

    async def AppendEvents(self, request: pb.AppendEventsRequest, context: Context) -> pb.AppendEventsResponse:
        results = [self._item(item) for item in request.items]
        async with self._moved:
            self._moved.notify_all()
        return pb.AppendEventsResponse(results=results)

    async def AddMessage(self, request: pb.AddMessageRequest, context: Context) -> pb.AddMessageResponse:
        kept = self.named(request.task_id)
        if kept.record.state in TERMINAL:
            raise Refused(f"task {request.task_id} has ended", reason="TERMINAL")
        paused = kept.record.state in _PAUSED
        generation = self._add(kept, request)
        if paused:
            kept.record.attempt = 0
            self._assign(kept)
        else:
            self._hint()
        return pb.AddMessageResponse(record=_row(kept), generation=generation, added=True)

    async def GetTask(self, request: pb.GetTaskRequest, context: Context) -> pb.GetTaskResponse:
        return pb.GetTaskResponse(record=self.named(request.task_id).record)

    async def ReadArtifact(
        self, request: pb.ReadArtifactRequest, context: Context
    ) -> AsyncIterator[pb.ReadArtifactResponse]:
        for artifact in self.named(request.task_id).record.task.artifacts:
            if artifact.artifact_id == request.artifact_id:
                for response in in_pieces(artifact):
                    yield response
                return
        raise NotFound(f"the task has no artifact {request.artifact_id}", reason="ARTIFACT_NOT_FOUND")

    async def ListEvents(self, request: pb.ListEventsRequest, context: Context) -> pb.ListEventsResponse:
        kept = self.named(request.task_id)
        found = [
            event
            for event in (reversed(kept.events) if request.newest_first else kept.events)
            if event.generation > request.after_generation
            and (not request.kinds or event.kind in request.kinds)
            and (event.speaks or not request.speaking)
            and (is_status_text(event.event.status_update.status.message) or not request.status_messages)
        ]
        return pb.ListEventsResponse(events=found[: request.limit or 100], record=_row(kept))

    async def DeleteTask(self, request: pb.DeleteTaskRequest, context: Context) -> pb.DeleteTaskResponse:
        self._tasks.pop(request.task_id, None)
        return pb.DeleteTaskResponse()

    async def MarkCopied(self, request: pb.MarkCopiedRequest, context: Context) -> pb.MarkCopiedResponse:
        record = self._of(request.task_uid).record
        record.copied_generation = max(record.copied_generation, request.generation)
        return pb.MarkCopiedResponse()

    async def ListUncopied(self, request: pb.ListUncopiedRequest, context: Context) -> pb.ListUncopiedResponse:
        return pb.ListUncopiedResponse()

    async def DropAbandonedImports(
        self, request: pb.DropAbandonedImportsRequest, context: Context
    ) -> pb.DropAbandonedImportsResponse:
        return pb.DropAbandonedImportsResponse()

    async def ListUnfinishedImports(
        self, request: pb.ListUnfinishedImportsRequest, context: Context
    ) -> pb.ListUnfinishedImportsResponse:
        return pb.ListUnfinishedImportsResponse()

    # TaskQueue.

    async def Claim(self, request: pb.ClaimRequest, context: Context) -> AsyncGenerator[pb.ClaimResponse]:
        self._hint()
        while True:
            try:
                async with asyncio.timeout(5.0):
                    said = await self._said_to_executor.get()
            except TimeoutError:
                said = pb.ClaimResponse(hint=pb.RenewHint())
            yield said

    async def Renew(self, request: pb.RenewRequest, context: Context) -> pb.RenewResponse:
        states: list[pb.LeaseState] = []
        for lease in request.leases:
            record = self._of(lease.task_uid).record
            held = record.fence == lease.fence and record.state not in AT_REST
            states.append(
                pb.LeaseState(
                    task_uid=lease.task_uid, still_yours=held, input_generation=record.input_generation if held else 0
                )
            )
        return pb.RenewResponse(leases=states, lease_ttl=_LEASE)

    async def Release(self, request: pb.ReleaseRequest, context: Context) -> pb.ReleaseResponse:
        for lease in request.leases:
            kept = self._of(lease.task_uid)
            if kept.record.fence == lease.fence and kept.record.state not in AT_REST:
                self._interrupt(kept, a2a.TASK_STATE_FAILED, "EXECUTOR_LOST")
        async with self._moved:
            self._moved.notify_all()
        return pb.ReleaseResponse()

    # The log and its fold.

    def _create(self, request: pb.CreateTaskRequest) -> Kept:
        task = a2a.Task(id=request.task_id, context_id=request.context_id, history=[request.message])
        task.status.state = a2a.TASK_STATE_SUBMITTED
        if request.HasField("metadata"):
            task.metadata.CopyFrom(request.metadata)
        record = pb.TaskRecord(
            uid=request.task_id,
            id=request.task_id,
            context_id=request.context_id,
            origin=pb.ORIGIN_MANAGED,
            agent=request.agent,
            tenant=TENANT,
            owner=OWNER,
            invocation_id=request.invocation_id,
            state=a2a.TASK_STATE_SUBMITTED,
            on_orphan=request.on_orphan,
            max_attempts=request.max_attempts,
            incarnation="memory",
            task=task,
        )
        kept = self._tasks[request.task_id] = Kept(record)
        event = self._append(kept, pb.EVENT_KIND_CREATED, request.invocation_id, speaks=True)
        event.event.task.CopyFrom(task)
        event.options.CopyFrom(request.options)
        record.input_generation = event.generation
        return kept

    def _add(self, kept: Kept, request: pb.AddMessageRequest) -> int:
        record = kept.record
        event = self._append(kept, pb.EVENT_KIND_MESSAGE, request.invocation_id, speaks=True)
        event.options.CopyFrom(request.options)
        record.input_generation = event.generation
        if record.state in _PAUSED:
            record.state = record.task.status.state = a2a.TASK_STATE_SUBMITTED
            event.event.status_update.status.state = record.state
            event.event.status_update.status.message.CopyFrom(request.message)
        else:
            event.event.message.CopyFrom(request.message)
        record.task.history.append(request.message)
        return event.generation

    def _item(self, item: pb.AppendItem) -> pb.AppendResult:
        kept = self._of(item.task_uid)
        record = kept.record
        known = kept.answers.get((item.fence, item.number))
        if known is not None:
            return known
        result = pb.AppendResult(task_uid=item.task_uid, input_generation=record.input_generation)
        last = item.changes[-1].status.status.state if item.changes and item.changes[-1].HasField("status") else 0
        if record.state in TERMINAL:
            result.refusal.reason = "TERMINAL"
        elif item.fence != record.fence:
            result.refusal.reason = "FENCED"
        elif last in _WAITS_FOR_INPUT and 0 < item.consumed_generation < record.input_generation:
            result.refusal.reason = "PENDING_INPUT"
        else:
            first = record.generation + 1
            for change in item.changes:
                self._apply(kept, change)
            record.copied_generation = max(record.copied_generation, item.copied_generation)
            if item.usage:
                kept.usage[item.fence] = dict(item.usage)
            if item.consumed_generation:
                record.consumed_generation = item.consumed_generation
            if item.changes:
                result.first_generation, result.last_generation = first, record.generation
                result.created_at.CopyFrom(kept.events[-1].created_at)
            kept.answers[item.fence, item.number] = result
        return result

    def _apply(self, kept: Kept, change: pb.Change) -> None:
        record, task = kept.record, kept.record.task
        match change.WhichOneof("change"):
            case "status":
                self._status(kept, change.status)
            case "artifact":
                event = self._append(kept, pb.EVENT_KIND_ARTIFACT)
                event.event.artifact_update.CopyFrom(change.artifact)
                merge_artifact(task.artifacts, change.artifact)
            case "status_text":
                event = self._append(kept, pb.EVENT_KIND_STATUS_TEXT)
                event.event.status_update.CopyFrom(change.status_text)
            case _:
                self._append(kept, pb.EVENT_KIND_CHECKPOINT, checkpoint=change.checkpoint)
                record.checkpoint_generation = record.generation

    def _status(self, kept: Kept, update: a2a.TaskStatusUpdateEvent) -> None:
        record, task = kept.record, kept.record.task
        message = update.status.message if update.status.HasField("message") else None
        if message is not None and _is_partial(message):
            if kept.open_text is None or kept.open_text.message_id != message.message_id:
                kept.open_text = a2a.Message()
                kept.open_text.CopyFrom(message)
            else:
                kept.open_text.parts[0].text += text_of(message)
        ends = update.status.state in TERMINAL
        if ends and kept.open_text is not None:
            self._close_text(kept)
        last = task.history[-1] if task.history else a2a.Message()
        grows = message is not None and last.message_id == message.message_id and last.parts != message.parts
        if grows:
            # It takes the place of what was said just now.
            del task.history[-1]
        new = message is not None and all(message.message_id != said.message_id for said in task.history)
        speaks = message is not None and new and not (_is_partial(message) or is_status_text(message))
        event = self._append(kept, pb.EVENT_KIND_STATUS, speaks=speaks)
        event.event.status_update.CopyFrom(update)
        record.state = task.status.state = update.status.state
        task.status.message.CopyFrom(message or a2a.Message())
        if speaks and message is not None:
            task.history.append(message)
            if kept.open_text is not None and kept.open_text.message_id == message.message_id:
                kept.open_text = None
        for key, value in update.metadata.fields.items():
            task.metadata.fields[key].CopyFrom(value)

    def _interrupt(self, kept: Kept, state: "a2a.TaskState.ValueType", reason: str) -> None:
        """End a task by a decision of the store."""
        update = a2a.TaskStatusUpdateEvent(status=a2a.TaskStatus(state=state))
        if reason:
            update.metadata.fields["reason"].string_value = reason
        self._status(kept, update)
        kept.record.fence += 1

    def _close_text(self, kept: Kept) -> None:
        """Put a text that was interrupted among what was said, as far as it came."""
        interrupted, kept.open_text = kept.open_text, None
        if interrupted is not None:
            for key in PARTIAL_KEYS:
                interrupted.metadata.fields.pop(key, None)
            kept.record.task.history.append(interrupted)

    def _append(
        self,
        kept: Kept,
        kind: "pb.EventKind.ValueType",
        invocation_id: str = "",
        *,
        speaks: bool = False,
        checkpoint: bytes = b"",
    ) -> pb.Event:
        record = kept.record
        record.generation += 1
        now = Timestamp()
        now.GetCurrentTime()
        event = pb.Event(
            generation=record.generation,
            created_at=now,
            fence=record.fence,
            attempt=record.attempt,
            kind=kind,
            invocation_id=invocation_id,
            speaks=speaks,
            checkpoint=checkpoint,
        )
        record.updated_at.CopyFrom(now)
        if checkpoint:
            record.checkpoint_generation = record.generation
        if speaks:
            record.message_generation = record.generation
        kept.events.append(event)
        return event

    def _assign(self, kept: Kept) -> None:
        record = kept.record
        record.fence += 1
        record.attempt += 1
        assignment = pb.Assignment(record=_row(kept), fence=record.fence)
        self._said_to_executor.put_nowait(pb.ClaimResponse(assignment=assignment))

    def _hint(self) -> None:
        self._said_to_executor.put_nowait(pb.ClaimResponse(hint=pb.RenewHint(now=True)))

    def _of(self, uid: str) -> Kept:
        # The uid of a task is its id here.
        return self.named(uid)


TENANT: Final = "test"
OWNER: Final = "user"


def status_texts(events: Sequence[pb.Event]) -> Iterator[str]:
    """Yield what the agent said of its work, in order."""
    for event in events:
        update = event.event.status_update
        if event.kind == pb.EVENT_KIND_STATUS_TEXT or is_status_text(update.status.message):
            yield text_of(update.status.message)


def is_status_text(message: a2a.Message) -> bool:
    """Return whether a message says what the agent is doing, outside the conversation."""
    fields = message.metadata.fields
    return KIND in fields and fields[KIND].string_value == STATUS_TEXT


def _is_partial(message: a2a.Message) -> bool:
    fields = message.metadata.fields
    return any(key in fields and fields[key].bool_value for key in PARTIAL_KEYS)


def _row(kept: Kept) -> pb.TaskRecord:
    """Return the record without content."""
    row = pb.TaskRecord()
    row.CopyFrom(kept.record)
    row.ClearField("task")
    return row
