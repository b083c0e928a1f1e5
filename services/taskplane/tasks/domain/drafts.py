"""Drafts of the writes of an operation: the row as it will be, and the events, numbered as they are added."""

from collections.abc import Set
from typing import Any

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.errors import Invalid, NotFound, OutOfRange, PlaneError, Refused
from taskplane.tasks.domain import payloads
from taskplane.tasks.domain.changes import ArtifactUpdate, Change, Data, StatusUpdate, read_status
from taskplane.tasks.domain.commands import AddMessage, Answer, Create, Write
from taskplane.tasks.domain.fold import Said, text_so_far
from taskplane.tasks.domain.kinds import (
    ARTIFACT,
    CHECKPOINT,
    CREATED,
    MESSAGE,
    REPLACED,
    RESTORED,
    STATUS_TEXT,
    SUPERSEDED,
)
from taskplane.tasks.domain.messages import STATUS_TEXT_MARK, extend, interrupted, without_partial_mark
from taskplane.tasks.domain.snapshots import is_outweighed
from taskplane.tasks.domain.task import (
    AT_REST,
    COMPLETED,
    FAILED,
    NEXT,
    PAUSED,
    STATES,
    SUBMITTED,
    TERMINAL,
    WORKING,
    Event,
    Row,
    changed_by,
)


def task_not_found(task_id: str) -> PlaneError:
    """Return the error for a task that does not exist or that has another owner."""
    return NotFound(f"task {task_id} was not found", reason="TASK_NOT_FOUND")


def trimmed(up_to: int) -> PlaneError:
    """Return the error for a read of a log that is whole only after generation `up_to`."""
    return OutOfRange(
        f"events before generation {up_to + 1} were trimmed",
        reason="CURSOR_TRIMMED",
        suggestion="take a snapshot: call again without a cursor",
        metadata={"oldest_generation": str(up_to + 1)},
    )


class Draft:
    """The events of one operation on one task, while they are added.

    `row` is the row as it was, `new` has the fields that will differ, by name, and `finished` makes the row of both.
    The other fields are the values that the rules of events need, updated with each event.
    """

    __slots__ = (
        "_actor",
        "_artifacts",
        "_event_bytes",
        "_message_id",
        "_now",
        "_ready",
        "_trace",
        "events",
        "fence",
        "generation",
        "new",
        "partial_id",
        "row",
        "said",
        "state",
        "usage",
    )

    def __init__(
        self, row: Row, actor: str, now: int, *, trace: bytes | None = None, artifacts: Set[str] = frozenset()
    ) -> None:
        """Begin with the present row. `trace`: the trace of its events. `artifacts`: ids of artifacts of the task,
        beside the one last written to."""
        self.row = row
        self.events: list[Event] = []
        # The messages of status events, by generation; see `fold`.
        self.said: dict[int, Said] = {}
        self.generation = row.generation
        self.state = row.state
        self.fence = row.fence
        self.partial_id = row.partial_id
        self.usage = row.usage
        self._message_id = row.message_id
        self._event_bytes = row.event_bytes
        self.new: dict[str, Any] = {}
        self._actor = actor
        self._trace = trace
        # The clocks of processes differ a little; the times in one task must still rise with its generations.
        self._now = max(now, row.updated_at)
        # Compared with the clock of leases, so the times of an imported task do not matter.
        self._ready = now
        self._artifacts = {row.artifact_id, *artifacts}

    def finished(self) -> Row:
        """Return the row as it will be."""
        new = self.new
        if self.events:
            new["generation"] = self.generation
            new["event_bytes"] = self._event_bytes
            new["updated_at"] = self._now
        return changed_by(self.row, new)

    def created(self, op: Create) -> bytes:
        """Add the first event of a managed task; return the task as it begins, serialized."""
        task = payloads.new_task(
            op.task_id,
            op.context_id,
            self.state,
            self._now,
            op.message.serialized,
            op.metadata,
            timed=op.message.timed,
        )
        payload = a2a.StreamResponse(task=task).SerializeToString()
        self._add(
            CREATED,
            payload,
            state=self.state,
            speaks=True,
            invocation_id=op.invocation_id,
            request_hash=op.request_hash,
            changed_to=self.state,
            options=op.options,
        )
        self.new["snapshot_generation"] = 1
        snapshot = task.SerializeToString()
        self.new["snapshot_bytes"] = len(snapshot)
        self.new["folded_bytes"] = self._event_bytes
        return snapshot

    def user_message(self, op: AddMessage, *, reopens: bool) -> None:
        """Add a further message of the user; `reopens` if the task was paused."""
        message = op.message
        if reopens:
            self.state = SUBMITTED
            update = payloads.reopening(message.serialized, SUBMITTED)
            payload = payloads.status_payload(update, self.row.id, self.row.context_id, self._now)
            self.new["state"] = SUBMITTED
            self.new["status_at"] = self._now
            self.new["attempt"] = 0
            self.enqueue(self._ready)
        else:
            payload = payloads.message_payload(message.serialized, self.row.id, self.row.context_id, self._now)
        self._add(
            MESSAGE,
            payload,
            state=SUBMITTED if reopens else 0,
            speaks=True,
            invocation_id=op.invocation_id,
            request_hash=op.request_hash,
            changed_to=SUBMITTED if reopens else None,
            options=op.options,
        )
        at = self.generation
        self.new["trace"] = self._trace
        self.new["input_generation"] = at
        self.new["message_generation"] = at
        self.new["message_id"] = message.message_id

    def replaced(self, state: int) -> None:
        """Add the event of a document task that was replaced."""
        changes = state != self.state
        self._add(REPLACED, b"", speaks=False, changed_to=state if changes or not self.generation else None)
        if changes:
            self.state = state
            self.new["state"] = state
            self.new["status_at"] = self._now

    def mark(self, *, superseded: bool) -> None:
        """Add the mark that a rewind hides the task, or that an undo shows it again; allowed after its end."""
        self._add(SUPERSEDED if superseded else RESTORED, b"", speaks=False)
        self.new["superseded"] = superseded

    def change(
        self, change: Change, *, last: bool, consumed: int, open_text: a2a.Message | None = None
    ) -> PlaneError | None:
        """Add one change of an executor, or return the refusal. `consumed`: the newest message its run has consumed."""
        if isinstance(change, ArtifactUpdate):
            return self._artifact(change)
        if isinstance(change, Data):
            return self._data(change)
        if change is None:
            return Invalid("a change must have a status or an artifact", fields={"changes": "is empty"})
        if change.kind == STATUS_TEXT and (change.state != WORKING or not change.status_text or change.partial):
            return Invalid(
                "a status text has the state WORKING and a whole message",
                reason="NOT_A_STATUS_TEXT",
                fields={"status_text": "is none"},
            )
        state = change.state
        if state not in STATES:
            return Invalid(f"the task state {state} is unknown", fields={"status.state": "is unknown"})
        if state not in NEXT[self.state]:
            names = a2a.TaskState.Name(self.state), a2a.TaskState.Name(state)  # type: ignore[arg-type]
            return Refused(f"a task cannot change from {names[0]} to {names[1]}", reason="ILLEGAL_TRANSITION")
        if state in AT_REST:
            if not last:
                return Refused("no change may follow the end or the pause of a task", reason="ILLEGAL_TRANSITION")
            if self.partial_id is not None and change.message_id != self.partial_id:
                self._close_text(open_text, cut_off=state not in PAUSED and state != COMPLETED)
        elif change.partial and self.partial_id not in (None, change.message_id):
            return Invalid(
                f"the text {self.partial_id} is still open",
                reason="OPEN_TEXT",
                fields={"message.message_id": "another text is open"},
            )
        self.status(change, unread_from=consumed + 1 if consumed < self.row.input_generation else 0)
        return None

    def status(self, update: StatusUpdate, *, unread_from: int = 0) -> None:
        """Add a status update that is known to be allowed. End or pause the task if its state says so."""
        state = update.state
        message_id = update.message_id
        serialized = update.serialized
        if unread_from and state in TERMINAL:
            serialized = _unread(serialized, unread_from)
        if state != WORKING and self.usage is not None:
            # Fields of a message that come again are merged.
            serialized += self.usage
            self.count(None)
        speaks = message_id is not None and not update.partial and not update.status_text
        if speaks and state in AT_REST and message_id == self._message_id:
            speaks = False
        payload = payloads.status_payload(
            serialized,
            self.row.id,
            self.row.context_id,
            self._now,
            timed=update.timed or update.partial,
            role=None if update.role else a2a.ROLE_AGENT,
            metadata=STATUS_TEXT_MARK if update.kind == STATUS_TEXT else b"",
        )
        changes = state != self.state
        changed_to = state if changes else None
        cause = update.cause if state == FAILED else None
        self._add(update.kind, payload, state=state, speaks=speaks, changed_to=changed_to, options=cause)
        at = self.generation
        # The fold reads more than the message of an event that makes a task SUBMITTED again.
        if state != SUBMITTED:
            self.said[at] = None if message_id is None else (message_id, update.partial, update.status_text)
        if changes:
            self.state = state
            self.new["state"] = state
            self.new["status_at"] = self._now
        if message_id is not None:
            self._track_text(update, message_id)
        if speaks:
            self._message_id = message_id
            self.new["message_generation"] = at
            self.new["message_id"] = message_id
        if state in TERMINAL:
            self.new["terminal_generation"] = at
            self.new["lease_owner"] = None
            self.new["ready_at"] = None
            self.new["limit_at"] = None
        elif state in PAUSED:
            self.new["limit_at"] = self._after(self.row.pause_limit)

    def count(self, usage: bytes | None) -> None:
        """Replace the figures of the run."""
        self.usage = self.new["usage"] = usage

    def restart(self, update: a2a.TaskStatusUpdateEvent) -> None:
        """Add the status update that queues a lost attempt again, without the artifacts of that attempt."""
        self.status(read_status(update))
        self.new["artifact_id"] = None
        self.new["restart_generation"] = self.generation
        self._artifacts.clear()

    def enqueue(self, ready_at: int) -> None:
        """Add the task to the queue, for executors from `ready_at` on. The time that it may wait begins now."""
        self.new["ready_at"] = ready_at
        self.new["limit_at"] = self._after(self.row.queue_limit)

    def interrupt(self, open_text: a2a.Message | None) -> None:
        """Make a final message, marked as interrupted, of the streamed part of an unfinished text."""
        if self.partial_id is not None:
            self._close_text(open_text, cut_off=True)

    def lose_lease(self) -> None:
        """Raise the fence, so that the former holder of the lease can write nothing more.

        The store's own events come after it: they carry the new fence.
        """
        self.fence += 1
        self.new["fence"] = self.fence
        self.new["lease_owner"] = None
        self.new["started"] = False

    def write(self, row: Row, answer: Answer, *, refold: bool = False) -> Write:
        """Return the writes. `row` is the result of `finished`, of which `answer` was made."""
        refold = refold or is_outweighed(self.row, row)
        return Write(row, self.events, answer, self.new, self.said, refold=refold)

    def _artifact(self, update: ArtifactUpdate) -> PlaneError | None:
        artifact_id = update.artifact_id
        if not update.complete:
            return Invalid("an artifact must have an id and a part", fields={"artifact": "is incomplete"})
        if update.append and artifact_id not in self._artifacts:
            return Refused(f"the task has no artifact {artifact_id} to append to", reason="ILLEGAL_APPEND")
        payload = payloads.artifact_payload(update.serialized, self.row.id, self.row.context_id)
        self._add(ARTIFACT, payload, speaks=False, artifact_id=None if update.append else artifact_id)
        self._artifacts.add(artifact_id)
        self.new["artifact_id"] = artifact_id
        return None

    def _data(self, change: Data) -> PlaneError | None:
        kind, size = change.kind, len(change.serialized)
        name = kind.data.replace("_", " ")
        if size > kind.most_bytes:
            return Invalid(
                f"a {name} must have at most {kind.most_bytes // 1024} KiB, not {size:,} bytes",
                reason=f"{kind.data.upper()}_TOO_LARGE",
                suggestion=f"store the data elsewhere and its name in the {name}",
                fields={kind.data: "is too large"},
            )
        self._add(kind.number, change.serialized, speaks=False)
        if kind.number == CHECKPOINT:
            self.new["checkpoint_generation"] = self.generation
        return None

    def _after(self, limit: int | None) -> int | None:
        return None if limit is None else self._ready + limit

    def _track_text(self, update: StatusUpdate, message_id: str) -> None:
        if update.partial:
            if self.partial_id is None:
                self.partial_id = message_id
                self.new["partial_generation"] = self.generation
                self.new["partial_id"] = message_id
        elif message_id == self.partial_id and not update.status_text:
            self.partial_id = None
            self.new["partial_generation"] = None
            self.new["partial_id"] = None

    def _close_text(self, stored: a2a.Message | None, *, cut_off: bool) -> None:
        """Add the open text as a final message. `stored`: the open text as it was before this operation."""
        opened_here: int = self.new.get("partial_generation") or 0
        here = text_so_far((each for each in self.events if each.generation >= opened_here), self.partial_id or "")
        if stored is None or opened_here:
            text = here
        else:
            text = a2a.Message()
            text.CopyFrom(stored)
            if here is not None:
                extend(text, here)
        if text is None:
            raise RuntimeError(f"the open text of task {self.row.id} was not read")
        update = a2a.TaskStatusUpdateEvent()
        update.status.state = self.state  # type: ignore[assignment]
        update.status.message.CopyFrom(interrupted(text) if cut_off else without_partial_mark(text))
        self.status(read_status(update))

    def _add(
        self,
        kind: int,
        payload: bytes,
        *,
        speaks: bool,
        state: int = 0,
        invocation_id: str | None = None,
        request_hash: bytes | None = None,
        artifact_id: str | None = None,
        changed_to: int | None = None,
        options: bytes | None = None,
    ) -> None:
        row = self.row
        begins_turn = invocation_id is not None
        self.generation += 1
        self._event_bytes += len(payload) + len(options or b"")
        self.events.append(
            Event(
                row.uid,
                self.generation,
                row.tenant if begins_turn else None,
                row.owner if begins_turn else None,
                self.fence,
                row.attempt,
                kind,
                state,
                self._actor,
                invocation_id,
                request_hash,
                artifact_id,
                speaks,
                payload,
                self._now,
                changed_to,
                self._trace,
                options,
            )
        )


def _unread(serialized: bytes, unread_from: int) -> bytes:
    """Return a status update with the oldest message of the user that it leaves unread in its metadata."""
    update = a2a.TaskStatusUpdateEvent.FromString(serialized)
    update.metadata.fields["unread_from"].number_value = unread_from
    return update.SerializeToString()
