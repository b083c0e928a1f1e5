"""A draft of what an operation writes: the row as it will be and the events, numbered as they are added."""

from collections.abc import Set
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Invalid, NotFound, PlaneError, Refused
from taskplane.tasks.domain.messages import extend, interrupted, is_partial, is_status_text, without_partial_mark
from taskplane.tasks.domain.operations import Answer, Write
from taskplane.tasks.domain.task import (
    ARTIFACT,
    AT_REST,
    CREATED,
    MESSAGE,
    NEXT,
    PAUSED,
    REPLACED,
    STATES,
    STATUS,
    SUBMITTED,
    TERMINAL,
    Event,
    Row,
    changed,
)

# The stored snapshot is rewritten once the events after it outweigh it: they are more than this many times its size,
# and more than this many bytes. So reading a task takes about five times its snapshot at most, or that and the floor.
# A rewrite weighs at most the snapshot before it and its tail, less than 5/4 of that tail, and no event is in two of
# them: all together weigh less than 5/4 of the events. Measured: 0.1 % for status texts, of which nothing stays, 20 to
# 30 % for texts in deltas, 40 to 80 % for messages and artifacts, of which nearly all does; compressed about half that.
# The rewrite at the end of a task comes on top, with what the task weighs.
OUTWEIGHS: Final = 4
TAIL_FLOOR: Final = 128 * 1024


def task_not_found(task_id: str) -> PlaneError:
    """The same words for a task that does not exist and for one of another owner."""
    return NotFound(f"task {task_id} was not found", reason="TASK_NOT_FOUND")


class Draft:
    """Collects the events of one operation on one task."""

    def __init__(self, row: Row, actor: str, now: int, *, artifacts: Set[str] = frozenset()) -> None:
        """`artifacts`: ids of such that the task has, beside the one that was written to last."""
        self.row = row
        self.events: list[Event] = []
        self._actor = actor
        self._now = now
        self._artifacts = {row.artifact_id, *artifacts}
        # The open text as far as this operation has seen it: what was stored before, and what was added since.
        self._open_text: a2a.Message | None = None

    def created(self, task: a2a.Task, invocation_id: str, request_hash: bytes) -> None:
        """The first event of a managed task."""
        payload = a2a.StreamResponse(task=task).SerializeToString()
        self._add(CREATED, payload, speaks=True, invocation_id=invocation_id, request_hash=request_hash)
        size = len(payload)
        self.row = changed(self.row, snapshot_generation=1, snapshot_bytes=size, folded_bytes=size)

    def user_message(self, message: a2a.Message, invocation_id: str, request_hash: bytes, *, reopens: bool) -> None:
        """A further message of the user; `reopens` where the task was paused."""
        response = a2a.StreamResponse()
        if reopens:
            update = response.status_update
            update.task_id, update.context_id = self.row.id, self.row.context_id
            update.status.state = SUBMITTED  # type: ignore[assignment]
            update.status.timestamp.FromMicroseconds(self._now)
            stored = update.status.message
        else:
            stored = response.message
        stored.CopyFrom(message)
        stored.task_id, stored.context_id = self.row.id, self.row.context_id
        self._add(
            MESSAGE,
            response.SerializeToString(),
            speaks=True,
            invocation_id=invocation_id,
            request_hash=request_hash,
        )
        at = self.row.generation
        row = changed(self.row, input_generation=at, message_generation=at, message_id=message.message_id)
        if reopens:
            row = changed(row, state=SUBMITTED, status_at=self._now, ready_at=self._now, attempt=0)
        self.row = row

    def replaced(self, state: int) -> None:
        """A document task was written anew."""
        self._add(REPLACED, b"", speaks=False)
        if state != self.row.state:
            self.row = changed(self.row, state=state, status_at=self._now)

    def change(
        self, change: pb.Change, *, last: bool, consumed: int, open_text: a2a.Message | None = None
    ) -> PlaneError | None:
        """One change of an executor, or why not. `consumed`: the newest user message its run has consumed."""
        if change.HasField("artifact"):
            if not change.artifact.artifact.artifact_id or not change.artifact.artifact.parts:
                return Invalid("an artifact needs an id and a part", fields={"artifact": "is incomplete"})
            return self._artifact(change.artifact)
        if not change.HasField("status"):
            return Invalid("a change needs a status or an artifact", fields={"changes": "is empty"})
        state = int(change.status.status.state)
        if state not in STATES:
            return Invalid(f"there is no task state {state}", fields={"status.state": "is unknown"})
        if state not in NEXT[self.row.state]:
            names = a2a.TaskState.Name(self.row.state), a2a.TaskState.Name(state)  # type: ignore[arg-type]
            return Refused(f"a task does not go from {names[0]} to {names[1]}", reason="ILLEGAL_TRANSITION")
        if state in AT_REST:
            if not last:
                return Refused("nothing follows the end or the pause of a task", reason="ILLEGAL_TRANSITION")
            said = change.status.status.message
            if self.row.partial_id is not None and not (
                change.status.status.HasField("message") and said.message_id == self.row.partial_id
            ):
                self._close_text(open_text, cut_off=state not in PAUSED and state != _COMPLETED)
        elif change.status.status.HasField("message"):
            message = change.status.status.message
            if is_partial(message) and self.row.partial_id not in (None, message.message_id):
                return Invalid(
                    f"the text {self.row.partial_id} is still open",
                    reason="OPEN_TEXT",
                    fields={"message.message_id": "another text is open"},
                )
        self.status(change.status, unread_from=consumed + 1 if consumed < self.row.input_generation else 0)
        return None

    def status(self, update: a2a.TaskStatusUpdateEvent, *, unread_from: int = 0) -> None:
        """A status update, already known to be allowed. Ends or pauses the task where its state says so."""
        response = a2a.StreamResponse()
        stored = response.status_update
        stored.CopyFrom(update)
        row = self.row
        stored.task_id, stored.context_id = row.id, row.context_id
        stored.status.timestamp.FromMicroseconds(self._now)
        state = int(update.status.state)
        if unread_from and state in TERMINAL:
            stored.metadata.fields["unread_from"].number_value = unread_from
        speaks = False
        message: a2a.Message | None = None
        if stored.status.HasField("message"):
            message = stored.status.message
            message.task_id, message.context_id = row.id, row.context_id
            if message.role == a2a.ROLE_UNSPECIFIED:
                message.role = a2a.ROLE_AGENT
            speaks = not is_partial(message) and not is_status_text(message)
            if speaks and state in AT_REST and message.message_id == row.message_id:
                speaks = False
        self._add(STATUS, response.SerializeToString(), speaks=speaks)
        at = self.row.generation
        values: dict[str, object] = {}
        if state != row.state:
            values.update(state=state, status_at=self._now)
        if message is not None:
            self._track_text(message, at, values)
        if speaks and message is not None:
            values.update(message_generation=at, message_id=message.message_id)
        if state in TERMINAL:
            values.update(terminal_generation=at, lease_owner=None, lease_until=None, ready_at=None)
        if values:
            self.row = changed(self.row, **values)  # type: ignore[arg-type]

    def restart(self, update: a2a.TaskStatusUpdateEvent) -> None:
        """The status update that queues a lost attempt again: what that had made of artifacts is gone."""
        self.status(update)
        self.row = changed(self.row, artifact_id=None, restart_generation=self.row.generation)
        self._artifacts.clear()

    def interrupt(self, open_text: a2a.Message | None) -> None:
        """What was streamed of an unfinished text becomes a final message, marked as interrupted."""
        if self.row.partial_id is not None:
            self._close_text(open_text, cut_off=True)

    def lose_lease(self) -> None:
        """Raises the fence, so that whoever held the lease can write nothing more.

        The store's own events come after it: they carry the fence that the row has from now on.
        """
        self.row = changed(
            self.row,
            fence=self.row.fence + 1,
            lease_owner=None,
            lease_until=None,
            started=False,
        )

    def write(self, answer: Answer, *, refold: bool = False) -> Write:
        """What is to be written. `answer` was made from this draft's row."""
        row = self.row
        tail = row.event_bytes - row.folded_bytes
        heavy = tail > TAIL_FLOOR and tail > OUTWEIGHS * row.snapshot_bytes
        return Write(row=row, events=self.events, answer=answer, refold=refold or heavy)

    def _artifact(self, update: a2a.TaskArtifactUpdateEvent) -> PlaneError | None:
        artifact_id = update.artifact.artifact_id
        if update.append and artifact_id not in self._artifacts:
            return Refused(f"the task has no artifact {artifact_id} to append to", reason="ILLEGAL_APPEND")
        response = a2a.StreamResponse()
        stored = response.artifact_update
        stored.CopyFrom(update)
        stored.task_id, stored.context_id = self.row.id, self.row.context_id
        began = None if update.append else artifact_id
        self._add(ARTIFACT, response.SerializeToString(), speaks=False, artifact_id=began)
        if self.row.artifact_id != artifact_id:
            self.row = changed(self.row, artifact_id=artifact_id)
            self._artifacts.add(artifact_id)
        return None

    def _track_text(self, message: a2a.Message, at: int, values: dict[str, object]) -> None:
        if is_partial(message):
            if self.row.partial_id is None:
                values.update(partial_generation=at, partial_id=message.message_id)
                self._open_text = a2a.Message()
                self._open_text.CopyFrom(message)
            elif self._open_text is not None:
                extend(self._open_text, message)
            else:
                self._open_text = a2a.Message()
                self._open_text.CopyFrom(message)
        elif message.message_id == self.row.partial_id and not is_status_text(message):
            values.update(partial_generation=None, partial_id=None)
            self._open_text = None

    def _close_text(self, stored: a2a.Message | None, *, cut_off: bool) -> None:
        opened_here = any(event.generation == self.row.partial_generation for event in self.events)
        text = a2a.Message()
        if stored is not None and not opened_here:
            text.CopyFrom(stored)
            if self._open_text is not None:
                extend(text, self._open_text)
        elif self._open_text is not None:
            text.CopyFrom(self._open_text)
        else:
            raise RuntimeError(f"the open text of task {self.row.id} was not read")
        update = a2a.TaskStatusUpdateEvent()
        update.status.state = self.row.state  # type: ignore[assignment]
        update.status.message.CopyFrom(interrupted(text) if cut_off else without_partial_mark(text))
        self.status(update)

    def _add(
        self,
        kind: int,
        payload: bytes,
        *,
        speaks: bool,
        invocation_id: str | None = None,
        request_hash: bytes | None = None,
        artifact_id: str | None = None,
    ) -> None:
        row = self.row
        at = row.generation + 1
        begins_turn = invocation_id is not None
        self.events.append(
            Event(
                task_uid=row.uid,
                generation=at,
                tenant=row.tenant if begins_turn else None,
                owner=row.owner if begins_turn else None,
                fence=row.fence,
                attempt=row.attempt,
                kind=kind,
                actor=self._actor,
                invocation_id=invocation_id,
                request_hash=request_hash,
                artifact_id=artifact_id,
                speaks=speaks,
                payload=payload,
                created_at=self._now,
            )
        )
        self.row = changed(row, generation=at, updated_at=self._now, event_bytes=row.event_bytes + len(payload))


_COMPLETED: Final = int(a2a.TASK_STATE_COMPLETED)
