"""Import of exported tasks: builds a row from its events, and checks that the events fit together. No I/O."""

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import INVOCATION, LOST_ATTEMPT
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Invalid
from taskplane.runtime.times import micros
from taskplane.runtime.validation import MAX_ID, is_segment
from taskplane.tasks.domain.changes import read_status
from taskplane.tasks.domain.documents import pack_turns, turns_in
from taskplane.tasks.domain.drafts import Draft
from taskplane.tasks.domain.fold import add_usage, fold, text_so_far
from taskplane.tasks.domain.kinds import (
    ARTIFACT,
    CREATED,
    KINDS,
    LASTING,
    MARKS,
    MESSAGE,
    REPLACED,
    STATUS_TEXT,
    STATUSES,
    SUPERSEDED,
    TURNS,
)
from taskplane.tasks.domain.leases import STORE_ACTOR
from taskplane.tasks.domain.limits import MAX_BYTES, MAX_EVENTS
from taskplane.tasks.domain.messages import message_flags, turn_of
from taskplane.tasks.domain.task import (
    ACTIVE,
    AT_REST,
    COMPLETED,
    DOCUMENT,
    FAIL_ON_ORPHAN,
    FAILED,
    MANAGED,
    NEXT,
    PAUSED,
    RERUN_ON_ORPHAN,
    RESUME_ON_ORPHAN,
    STATES,
    SUBMITTED,
    TERMINAL,
    WORKING,
    Event,
    Row,
    Scope,
)

_MOST: Final = 1 << 62
# Beyond the limits of an executor: messages of users, marks, the end, and streamed texts that a lost run repeats.
_MOST_EVENTS: Final = MAX_EVENTS + 1000
_MOST_LOGGED: Final = 2 * MAX_BYTES
# A task or an event must fit into a reply with its record around it.
_MOST_CONTENT: Final = MAX_BYTES - 64 * 1024


class ImportedTask(NamedTuple):
    """A task as it is to be stored. Its `snapshot` is that at the head."""

    row: Row
    snapshot: bytes
    events: Sequence[Event]


def read(record: bytes) -> pb.ImportRecord:
    """Parse a staged record. Invalid: the bytes are not a record."""
    try:
        return pb.ImportRecord.FromString(record)
    except DecodeError:
        raise Invalid("the record cannot be parsed", reason="IMPORT_UNREADABLE") from None


class TaskReader:
    """Reads one task: its line, then the lines of its events, in their order."""

    def __init__(self, line: int, given: pb.ExportedTask, scope: Scope, context_id: str, salt: str, now: int) -> None:
        """Read the line of the task. `now`: microseconds since 1970. Invalid, with the `line`: no task could be so."""
        self.line = line
        self._given = given
        self._scope = scope
        self._salt = salt
        self._context_id = context_id
        self._managed = given.origin == pb.ORIGIN_MANAGED
        self._now = now
        # Higher than every fence of a deleted task with this uid, since an executor may still use such a fence.
        self._fence = now if self._managed else 0
        self._events: list[Event] = []
        self._state = 0
        self._values: dict[str, int | str | None] = {}
        self._logged = 0
        self._superseded = False
        self._partial: tuple[int, str] | None = None
        times = (given.created_at, given.status_at, given.updated_at)
        rules = {
            "its ids are invalid": _are_ids(given.uid, given.id)
            and is_segment(given.id)
            and _is_text(given.agent)
            and _is_text(given.own_turn),
            "its origin is invalid": self._managed or given.origin == pb.ORIGIN_DOCUMENT,
            "its times are invalid": all(0 < micros(one) < _MOST for one in times),
            "its numbers contradict each other": 1 <= given.generation < _MOST
            and 0 <= given.consumed_generation <= given.generation
            and 0 <= given.copied_generation <= given.generation
            and 0 <= given.trimmed_generation < given.generation
            and 0 <= given.attempt < 1 << 31
            and 1 <= given.max_attempts < 1 << 31,
            "its policy for a lost executor is missing": given.on_orphan
            in (FAIL_ON_ORPHAN, RERUN_ON_ORPHAN, RESUME_ON_ORPHAN),
            "its content belongs to another task": (given.task.id, given.task.context_id) == (given.id, context_id),
        }
        for what, holds in rules.items():
            if not holds:
                raise wrong(line, what)
        _check_content(line, given.task.ByteSize())

    @property
    def complete(self) -> bool:
        """Return whether every event that the task says it has was read."""
        return self._at == self._given.generation

    @property
    def _at(self) -> int:
        return self._events[-1].generation if self._events else 0

    @property
    def turns(self) -> Sequence[str]:
        """Return the invocations that its events recorded."""
        return [event.invocation_id for event in self._events if event.invocation_id is not None]

    def event(self, line: int, given: pb.ExportedEvent) -> None:
        """Read the next event. Invalid, with the `line`: the event is not the next one, or cannot follow the events
        before it."""
        one = given.event
        at = one.generation
        trimmed = self._given.trimmed_generation
        # The trimmed part may have gaps, but the first event of the log and the first event after the trimmed part
        # exist.
        gap = 1 <= self._at < at <= trimmed
        if (at != max(self._at, trimmed if self._at else 0) + 1 and not gap) or self.complete:
            raise wrong(line, f"event {at} follows event {self._at}", "IMPORT_ORDER")
        what = self._refusal(given)
        if what:
            raise wrong(line, what)
        payload = one.event.SerializeToString()
        self._logged += len(payload)
        _check_content(line, len(payload))
        if self._logged > _MOST_LOGGED or len(self._events) == _MOST_EVENTS:
            raise wrong(
                line, f"the log is over the limit of {MAX_EVENTS} events or {MAX_BYTES} bytes", "TASK_TOO_LARGE"
            )
        begins = one.kind in TURNS
        changed = int(given.changed_to) if given.HasField("changed_to") else None
        self._events.append(
            Event(
                self._given.uid,
                at,
                self._scope.tenant if begins else None,
                self._scope.owner if begins else None,
                self._fence,
                one.attempt,
                int(one.kind),
                int(given.state),
                one.actor,
                one.invocation_id if begins else None,
                given.request_hash if begins else None,
                given.artifact_id if given.HasField("artifact_id") else None,
                one.speaks,
                payload,
                micros(one.created_at),
                changed,
            )
        )
        self._follow(one, at, changed)

    def _refusal(self, given: pb.ExportedEvent) -> str:
        one, state = given.event, int(given.state)
        changed = int(given.changed_to) if given.HasField("changed_to") else None
        which = one.event.WhichOneof("payload")
        if not 0 < micros(one.created_at) < _MOST or not _is_text(one.actor) or not 0 <= one.attempt < 1 << 31:
            return "its time, actor or attempt is invalid"
        named = given.artifact_id if given.HasField("artifact_id") else None
        if named != _begun(one.event) or (named is not None and not _is_text(named, 10_000)):
            return "its artifact id is invalid, or belongs to no artifact of the task"
        if one.generation <= self._given.trimmed_generation and changed is None and one.kind not in LASTING:
            return "it lies in the trimmed range of the log"
        if one.kind in MARKS:
            fits = which is None and state == 0 and changed is None and (one.kind == SUPERSEDED) != self._superseded
            return "" if fits else "a mark must have no content"
        if not self._managed:
            fits = one.kind == REPLACED and which is None and (changed is None or changed in STATES | {0})
            return "" if fits else "the log of a document may contain only its replacements and marks"
        if self._state in TERMINAL:
            return "only marks may follow the end of a task"
        if not _may_hold(one.kind, which) or (one.kind == CREATED) != (not self._events):
            return "its content does not match its kind, or its kind is not allowed in this place"
        if one.kind in TURNS and not (_are_ids(one.invocation_id) and len(given.request_hash) <= MAX_ID):
            return "its turn is missing"
        if which is not None and _named(one.event) != (self._given.id, self._context_id):
            return "it belongs to another task"
        if one.kind == STATUS_TEXT and (
            state != WORKING or message_flags(one.event.status_update.status.message) != (False, True)
        ):
            return "it is not a status text"
        if one.speaks and not KINDS[one.kind].may_speak:
            return "it has no message for the session"
        return self._state_refusal(one, state, changed)

    def _state_refusal(self, one: pb.Event, state: int, changed: int | None) -> str:
        names_state = KINDS[one.kind].has_state
        says = one.event.HasField("status_update") if names_state is None else names_state
        if says != (state != 0) or (changed is not None) != (says and state != self._state):
            return "its two states contradict each other"
        if changed is None:
            return ""
        if changed != state or (one.kind == CREATED and state != SUBMITTED):
            return "its two states contradict each other"
        if one.kind == CREATED or state in NEXT[self._state] or (self._state == WORKING and state == SUBMITTED):
            return ""
        return "its state may not follow the previous one"

    def _follow(self, one: pb.Event, at: int, changed: int | None) -> None:
        values = self._values
        if changed is not None:
            self._state = changed
            if self._managed and changed in TERMINAL:
                values["terminal_generation"] = at
        if one.kind in MARKS:
            self._superseded = one.kind == SUPERSEDED
        if one.kind in TURNS:
            values["input_generation"] = at
        if one.speaks:
            values["message_generation"] = at
            values["message_id"] = _message_of(one.event).message_id
        if one.kind == ARTIFACT:
            values["artifact_id"] = one.event.artifact_update.artifact.artifact_id
        if one.kind in STATUSES:
            self._follow_status(one.event.status_update, at)

    def _follow_status(self, update: a2a.TaskStatusUpdateEvent, at: int) -> None:
        if update.status.state == SUBMITTED and LOST_ATTEMPT in update.metadata.fields:
            self._values["restart_generation"] = at
            self._values["artifact_id"] = None
        if update.status.HasField("message"):
            message = update.status.message
            partial, status_text = message_flags(message)
            if partial:
                self._partial = self._partial or (at, message.message_id)
            elif self._partial is not None and message.message_id == self._partial[1] and not status_text:
                self._partial = None

    def finished(self) -> ImportedTask:
        """Return the complete task. A task that has not ended and does not wait for its user becomes failed. Invalid,
        with the `line`: the task is incomplete or contradictory."""
        given = self._given
        events = self._events
        row = self._row()
        if not self._managed:
            return ImportedTask(row, given.task.SerializeToString(), events)
        if row.state in PAUSED | {COMPLETED} and row.consumed_generation < row.input_generation:
            raise wrong(self.line, "it ends or pauses with unread messages")
        if not given.trimmed_generation:
            task = fold(a2a.Task(), events)
            agrees = task == given.task
        else:
            if given.trimmed_generation >= (row.terminal_generation or 0):
                raise wrong(self.line, "the trimmed range must end before the end of the task")
            task = given.task
            agrees = _agrees(task, events)
            # The pieces of a text that was open on the way are trimmed.
            row = row._replace(partial_generation=None, partial_id=None)
        if not agrees:
            raise wrong(self.line, "its content differs from the result of its events", "CONTENT_DIFFERS")
        if row.state in ACTIVE:
            row, more = _ended(row, events, self._now)
            events = [*events, *more]
            task = fold(task, more)
        size = sum(len(event.payload) for event in events)
        snapshot = task.SerializeToString()
        _check_content(self.line, len(snapshot))
        row = row._replace(
            snapshot_generation=row.generation, snapshot_bytes=len(snapshot), event_bytes=size, folded_bytes=size
        )
        return ImportedTask(row, snapshot, events)

    def _row(self) -> Row:
        given, values = self._given, self._values
        managed = self._managed
        first = self._events[0]
        turn = turn_of(given.task) or given.own_turn or None
        content = 0 if managed else given.task.ByteSize()
        known = {
            "input_generation": 0,
            "message_generation": 0,
            "terminal_generation": None,
            "message_id": None,
            "artifact_id": None,
            "restart_generation": 0,
            **values,
        }
        row = Row._make(Row._field_defaults.get(name) for name in Row._fields)
        return row._replace(
            uid=given.uid,
            tenant=self._scope.tenant,
            owner=self._scope.owner,
            id=given.id,
            origin=MANAGED if managed else DOCUMENT,
            agent=given.agent,
            context_id=self._context_id,
            invocation_id=first.invocation_id if managed else turn,
            request_hash=first.request_hash,
            state=self._state,
            status_at=micros(given.status_at),
            generation=given.generation,
            consumed_generation=given.consumed_generation,
            copied_generation=given.copied_generation,
            partial_generation=self._partial[0] if self._partial else None,
            partial_id=self._partial[1] if self._partial else None,
            fence=self._fence,
            attempt=given.attempt,
            started=False,
            on_orphan=int(given.on_orphan),
            max_attempts=given.max_attempts,
            salt=self._salt,
            created_at=micros(given.created_at),
            updated_at=micros(given.updated_at),
            snapshot_generation=given.generation,
            snapshot_bytes=content,
            event_bytes=0,
            folded_bytes=0,
            superseded=self._superseded,
            superseded_seq=0,
            trimmed_generation=given.trimmed_generation,
            in_turn=given.in_turn,
            cut_turns=None
            if managed
            else pack_turns(set(turns_in(given.task, turn)).intersection(given.cut_invocation_ids)),
            **known,  # type: ignore[arg-type]
        )


def _ended(row: Row, events: Sequence[Event], now: int) -> tuple[Row, Sequence[Event]]:
    """End a task that was still to run: its run is elsewhere, and no executor here continues it."""
    draft = Draft(row, STORE_ACTOR, now)
    if row.partial_id is not None:
        draft.interrupt(text_so_far(events[(row.partial_generation or 1) - 1 :], row.partial_id))
    update = a2a.TaskStatusUpdateEvent()
    update.status.state = FAILED  # type: ignore[assignment]
    message = update.status.message
    message.message_id = hashlib.sha256(f"{row.uid}:IMPORTED".encode()).hexdigest()[:32]
    message.role = a2a.ROLE_AGENT
    message.parts.add().text = "This task was still running when its session was exported, and did not go on here."
    turn = next((one.invocation_id for one in reversed(events) if one.invocation_id), "")
    for fields in (message.metadata.fields, update.metadata.fields):
        fields["reason"].string_value = "IMPORTED"
    message.metadata.fields[INVOCATION].string_value = turn
    draft.status(read_status(update))
    return draft.finished(), draft.events


def _agrees(task: a2a.Task, left: Sequence[Event]) -> bool:
    """Return whether a task that has ended agrees with the events `left` of its trimmed log.

    These tell how it was created, the messages of its user, and how it ended.
    """
    made = fold(a2a.Task(), left[:1])
    end = next(event for event in reversed(left) if event.changed_to is not None)
    said = [*made.history]
    known = {message.message_id for message in said}
    for event in left:
        if event.state == SUBMITTED or event.state in AT_REST:
            add_usage(made, a2a.StreamResponse.FromString(event.payload).status_update)
        if event.kind == MESSAGE:
            message = _message_of(a2a.StreamResponse.FromString(event.payload))
            if message.message_id not in known:
                known.add(message.message_id)
                said.append(message)
    history = iter(task.history)
    # `any` consumes the iterator: each message is looked for after the one before.
    in_order = all(any(each == message for each in history) for message in said)
    given = a2a.Task()
    given.CopyFrom(task)
    for one in (given, made):
        one.ClearField("history")
        one.ClearField("artifacts")
    made.status.CopyFrom(fold(a2a.Task(), [end]).status)
    return in_order and given == made


def _message_of(payload: a2a.StreamResponse) -> a2a.Message:
    which = payload.WhichOneof("payload")
    if which == "status_update":
        return payload.status_update.status.message
    return payload.task.history[0] if which == "task" and payload.task.history else payload.message


def _may_hold(number: int, payload: str | None) -> bool:
    """Return whether events of a kind may have content in this field of a payload; None: in no field."""
    kind = KINDS.get(number)
    return kind is not None and (payload in kind.payloads or (payload is None and bool(kind.data)))


def _begun(event: a2a.StreamResponse) -> str | None:
    """Return the id of the artifact that an event begins or replaces."""
    update = event.artifact_update
    return update.artifact.artifact_id if event.HasField("artifact_update") and not update.append else None


def _named(payload: a2a.StreamResponse) -> tuple[str, str]:
    which = payload.WhichOneof("payload")
    if which == "task":
        return payload.task.id, payload.task.context_id
    inner = payload.message if which == "message" else getattr(payload, str(which))
    return inner.task_id, inner.context_id


def wrong(line: int, what: str, reason: str = "IMPORT_MISMATCH") -> Invalid:
    """Return the error for a line that cannot be imported."""
    return Invalid(f"line {line}: {what}", reason=reason, metadata={"line": str(line)})


def _check_content(line: int, size: int) -> None:
    """Raise Invalid `TASK_TOO_LARGE` if the content would fit no reply."""
    if size > _MOST_CONTENT:
        raise wrong(line, f"has a content of {size} bytes; at most {_MOST_CONTENT:,} are allowed", "TASK_TOO_LARGE")


def _are_ids(*ids: str) -> bool:
    return all(one and _is_text(one) for one in ids)


def _is_text(text: str, longest: int = MAX_ID) -> bool:
    return len(text) <= longest and "\0" not in text
