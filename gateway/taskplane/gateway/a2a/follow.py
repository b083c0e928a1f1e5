"""The events of a task as elements of a stream, read by WatchTask, across restarts of the store."""

from collections.abc import AsyncGenerator, Iterable, Set
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import RESYNC
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.gateway.a2a.history import bounded
from taskplane.gateway.translate.dialect import Payload
from taskplane.runtime.backoff import Backoff
from taskplane.runtime.errors import NotFound, OutOfRange, Unavailable

# A cursor and the element before it; the cursor is empty for an element that is in no log.
Item = tuple[str, Payload]
States = frozenset[int]

TERMINAL: Final[States] = frozenset(
    {
        a2a.TASK_STATE_COMPLETED,
        a2a.TASK_STATE_FAILED,
        a2a.TASK_STATE_CANCELED,
        a2a.TASK_STATE_REJECTED,
    }
)

# Kinds of events in the log of a document task.
_DOCUMENT_KINDS: Final = frozenset({pb.EVENT_KIND_REPLACED, pb.EVENT_KIND_SUPERSEDED, pb.EVENT_KIND_RESTORED})


@dataclass(frozen=True, slots=True)
class WatchedBatch:
    """A response of the store, a snapshot or a batch of events, and the cursor before it. `resync` is the reason why a
    snapshot replaces events that are no longer available; empty: it does not."""

    response: pb.WatchTaskResponse
    before: str
    resync: str


async def watch(
    tasks: TaskStoreStub, task_id: str, cursor: str, stop: States, *, patience: float, begun: bool = False
) -> AsyncGenerator[WatchedBatch, None]:
    """Yield everything after `cursor` until the task reaches a state in `stop`; a snapshot first if the cursor is empty
    or cannot be honoured.

    While the store restarts or cannot be reached, reconnect for up to `patience` seconds, then end. Raise NotFound, or
    Unavailable before the first response unless the caller has `begun`.
    """
    resync = ""
    backoff = Backoff(patience=patience)
    while True:
        unseen = False
        call = tasks.WatchTask(pb.WatchTaskRequest(task_id=task_id, cursor=cursor, stop_at=state_values(stop)))
        try:
            async for response in call:
                backoff.reset()
                begun = True
                before = cursor
                which = response.WhichOneof("response")
                if which == "events":
                    events = response.events.events
                    last = events[-1]
                    # A snapshot of the replaced document follows; until then the cursor must not move.
                    if last.kind in _DOCUMENT_KINDS:
                        unseen = unseen or any(event.kind == pb.EVENT_KIND_REPLACED for event in events)
                    if not unseen:
                        cursor = f"{cursor.rpartition('-')[0]}-{last.generation}"
                elif which == "snapshot":
                    cursor, unseen = response.snapshot.cursor, False
                elif which == "end":
                    return
                else:
                    continue
                yield WatchedBatch(response, before, resync)
                resync = ""
        except OutOfRange as error:
            if not cursor:
                raise
            resync, cursor = error.reason, ""
            continue
        except Unavailable:
            if not begun:
                raise
        finally:
            call.cancel()
        # Reconnect at the same cursor.
        if not await backoff.wait():
            return


async def follow(
    tasks: TaskStoreStub,
    task_id: str,
    cursor: str,
    stop: States,
    *,
    patience: float,
    begin: a2a.Task | None = None,
    task_sent: bool = False,
    history_length: int | None = None,
) -> AsyncGenerator[list[Item], None]:
    """Yield the visible events of a task after `cursor`, until one leads to a state in `stop`, or the task is in one
    and no event is left.

    A further message of the user is a status update with that message. Without a cursor a Task comes first. `begin` is
    the Task at `cursor`, if the caller has it. `task_sent`: the stream has sent a Task already, so this task begins
    with a status update. Tasks have at most `history_length` messages of their history. A cursor that cannot be
    honoured yields a Task marked with `RESYNC`. The deletion of the task yields a canceled status. Reconnect and raise
    as `watch` does.
    """
    about: Payload | None = begin
    batches = _batches(tasks, task_id, cursor, stop, patience=patience, begin=begin, task_sent=task_sent)
    try:
        async with aclosing(batches):
            async for items in batches:
                about = about or items[-1][1]
                # A Task comes first, if at all.
                if isinstance(first := items[0][1], a2a.Task):
                    items[0] = (items[0][0], bounded(first, history_length))
                yield items
    except NotFound:
        if about is None:
            raise
        yield [("", _deleted(task_id, about.context_id))]


async def _batches(
    tasks: TaskStoreStub,
    task_id: str,
    cursor: str,
    stop: States,
    *,
    patience: float,
    begin: a2a.Task | None,
    task_sent: bool,
) -> AsyncGenerator[list[Item], None]:
    emitted = begin is not None
    # After a cursor the state is unknown; a message that reopens nothing finds the task at work.
    state = begin.status.state if begin is not None else a2a.TASK_STATE_WORKING
    # Ids of the messages that were sent of a document; slow readers skip versions of it.
    sent_ids: set[str] = set()
    if begin is not None:
        yield [(cursor, begin)]
    async with aclosing(watch(tasks, task_id, cursor, stop, patience=patience, begun=emitted)) as seen:
        async for one in seen:
            items: list[Item]
            if one.response.WhichOneof("response") == "events":
                items, state = _visible(one, stop, state, first=not emitted, task_sent=task_sent)
            else:
                snapshot = one.response.snapshot
                task = snapshot.record.task
                if emitted and not one.resync:
                    items = _updates(task, one.before, snapshot.cursor, sent_ids)
                else:
                    items = [(snapshot.cursor, mark_resync(task, one.resync))]
                sent_ids.update(message.message_id for message in (*task.history, task.status.message))
                state = task.status.state
            if items:
                emitted = True
                yield items
            if state in stop:
                return


def cursor_of(record: pb.TaskRecord) -> str:
    """Return the cursor after which a subscription sends everything that the task of `record` does not contain. The
    session task has no log and no cursor: "".
    """
    return f"{record.incarnation}-{record.generation}" if record.incarnation else ""


def total_bytes(items: Iterable[Item]) -> int:
    """Return the size of the elements in bytes."""
    return sum(payload.ByteSize() for _, payload in items)


def state_values(states: Iterable[int]) -> list[a2a.TaskState.ValueType]:
    """Return states in the type that requests take."""
    return [a2a.TaskState.ValueType(state) for state in states]


def _visible(
    seen: WatchedBatch, stop: States, state: a2a.TaskState.ValueType, *, first: bool, task_sent: bool
) -> tuple[list[Item], a2a.TaskState.ValueType]:
    """Return the elements for a batch of events, up to the one that leads to a state in `stop`, and the state after
    them. `state` is the one before."""
    incarnation = seen.before.rpartition("-")[0]
    items: list[Item] = []
    for event in seen.response.events.events:
        content = event.event
        which = content.WhichOneof("payload")
        element: Payload
        if which == "status_update":
            element = content.status_update
            state = element.status.state
        elif which == "artifact_update":
            element = content.artifact_update
        elif which == "message":
            said = a2a.TaskStatus(state=state, message=content.message, timestamp=event.created_at)
            element = _update(content.message.task_id, content.message.context_id, said)
        elif which == "task" and first and not items:
            element = _submitted(content.task) if task_sent else content.task
            state = content.task.status.state
        else:
            continue
        items.append((f"{incarnation}-{event.generation}", element))
        if which == "status_update" and state in stop:
            break
    return items, state


def _deleted(task_id: str, context_id: str) -> a2a.TaskStatusUpdateEvent:
    """Return the last status update of a task that was deleted."""
    update = a2a.TaskStatusUpdateEvent(task_id=task_id, context_id=context_id)
    update.status.state = a2a.TASK_STATE_CANCELED
    update.status.timestamp.GetCurrentTime()
    update.metadata.fields["reason"].string_value = "DELETED"
    return update


def _submitted(task: a2a.Task) -> a2a.TaskStatusUpdateEvent:
    """Return the beginning of a task as a status update, with the user's message."""
    update = _update(task.id, task.context_id, task.status)
    if task.history:
        update.status.message.CopyFrom(task.history[-1])
    return update


def _updates(task: a2a.Task, before: str, after: str, sent_ids: Set[str]) -> list[Item]:
    """Return a replaced document as updates: each message of its history that is not in `sent_ids`, each artifact
    whole, then the status. Only the last element has the new cursor, so that a client that resumes in between misses
    nothing."""
    items: list[Item] = []

    told = {*sent_ids, task.status.message.message_id, ""}
    for message in task.history:
        if message.message_id not in told:
            told.add(message.message_id)
            said = a2a.TaskStatus(state=a2a.TASK_STATE_WORKING, message=message)
            items.append((before, _update(task.id, task.context_id, said)))
    for artifact in task.artifacts:
        whole = a2a.TaskArtifactUpdateEvent(
            task_id=task.id, context_id=task.context_id, artifact=artifact, last_chunk=True
        )
        items.append((before, whole))
    items.append((after, _update(task.id, task.context_id, task.status)))
    return items


def _update(task_id: str, context_id: str, status: a2a.TaskStatus) -> a2a.TaskStatusUpdateEvent:
    return a2a.TaskStatusUpdateEvent(task_id=task_id, context_id=context_id, status=status)


def mark_resync(task: a2a.Task, resync: str) -> a2a.Task:
    """Return the task or, if `resync` is not empty, a copy marked as a replacement for events that are not
    available."""
    if not resync:
        return task
    copy = a2a.Task()
    copy.CopyFrom(task)
    copy.metadata.fields[RESYNC].string_value = resync
    return copy
