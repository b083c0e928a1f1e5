"""The fold: a task made of its events. Pure, and the same whether it starts at the first event or at a snapshot."""

import math
from collections.abc import Callable, Iterable, Mapping, MutableSequence

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import LOST_ATTEMPT, USAGE
from taskplane.runtime.message_content import is_plain_part
from taskplane.tasks.domain.artifacts import merge_fields
from taskplane.tasks.domain.kinds import ARTIFACT, CREATED, MESSAGE, STATUS, STATUSES
from taskplane.tasks.domain.messages import is_partial, message_flags
from taskplane.tasks.domain.task import SUBMITTED, WORKING, Event

# Metadata of the status event that queues a lost attempt again, beside LOST_ATTEMPT.
LOST_MESSAGES = "taskplane.dev/lost_messages"
# In place of LOST_ATTEMPT for an attempt with artifacts and messages that are kept.
RESUMED_ATTEMPT = "taskplane.dev/resumed_attempt"
# Figures of a run, in the metadata of the status event that ends, pauses or loses it, and of all runs, in that of the
# task.
_USAGE = USAGE.encode()

# The message of a status event: its id, whether it is partial, whether it is a status text. None: there is none.
Said = tuple[str, bool, bool] | None


def fold(task: a2a.Task, events: Iterable[Event], said: Mapping[int, Said] | None = None) -> a2a.Task:
    """Apply `events`, in order, to `task`, and return it. Give an empty task for a log from its start.

    `said`: the messages of status events by generation, as far as they are known, so that not all events are parsed.
    """
    folding = _Folding(task, said or {})
    for event in events:
        folding.apply(event)
    folding.settle()
    return task


def text_so_far(events: Iterable[Event], message_id: str) -> a2a.Message | None:
    """Return the open text with this id, joined from the partial messages in `events`; None if there is none."""
    text: a2a.Message | None = None
    grown = _GrowingText()
    for event in events:
        if event.kind != STATUS:
            continue
        status = a2a.StreamResponse.FromString(event.payload).status_update.status
        if status.message.message_id != message_id or not is_partial(status.message):
            continue
        if text is None:
            text = a2a.Message()
            text.CopyFrom(status.message)
        else:
            grown.extend(text.parts, status.message.parts)
    grown.settle()
    return text


def add_usage(task: a2a.Task, update: a2a.TaskStatusUpdateEvent) -> None:
    """Add each figure in `update`, which ends, pauses or loses a run, to the figure of that name in the metadata of the
    task."""
    if USAGE not in update.metadata.fields:
        return
    for name, figure in update.metadata.fields[USAGE].struct_value.fields.items():
        if figure.HasField("number_value"):
            sums = task.metadata.fields[USAGE].struct_value.fields
            total = figure.number_value + (sums[name].number_value if name in sums else 0)
            if math.isfinite(total):
                sums[name].number_value = total


class _GrowingText:
    """The pieces of one text part, joined only once: the cost grows with their number, not with its square."""

    def __init__(self) -> None:
        self._part: a2a.Part | None = None
        self._pieces: list[str] = []

    def extend(self, parts: MutableSequence[a2a.Part], more: Iterable[a2a.Part]) -> None:
        for part in more:
            last = parts[-1] if parts else None
            if last is not None and is_plain_part(part) and is_plain_part(last):
                if self._part is not last:
                    self.settle()
                    self._part = last
                self._pieces.append(part.text)
            else:
                self.settle()
                parts.append(part)

    def settle(self) -> None:
        if self._part is not None and self._pieces:
            self._part.text += "".join(self._pieces)
        self._part = None
        self._pieces = []


class _StatusMessage:
    """A message of the status, parsed out of its event when it is needed."""

    __slots__ = ("_event", "_message", "id", "is_status_text", "partial")

    def __init__(
        self,
        message_id: str,
        partial: bool,
        is_status_text: bool,
        event: Event | None,
        message: a2a.Message | None = None,
    ) -> None:
        self.id = message_id
        self.partial = partial
        self.is_status_text = is_status_text
        self._event = event
        self._message = message

    def message(self) -> a2a.Message:
        if self._message is None:
            payload = self._event.payload if self._event is not None else b""
            self._message = a2a.StreamResponse.FromString(payload).status_update.status.message
        return self._message


class _Folding:
    """A task while events are applied to it.

    Its status is kept apart until `settle`, since most of its values on the way are replaced before they are read.
    """

    def __init__(self, task: a2a.Task, said: Mapping[int, Said]) -> None:
        self._task = task
        self._known = said
        self._growing = _GrowingText()
        self._begin()

    def _begin(self) -> None:
        task = self._task
        self._said = {message.message_id for message in task.history}
        # The message of the status, and the event with the rest of the status; None: as the task has it.
        self._now: _StatusMessage | None = None
        self._newest: Event | None = None
        if task.status.HasField("message"):
            message = task.status.message
            self._now = _StatusMessage(message.message_id, *message_flags(message), None, message)

    def settle(self) -> None:
        """Bring the task up to date with the events so far."""
        self._growing.settle()
        status = self._task.status
        if self._newest is not None:
            status.state = self._newest.state  # type: ignore[assignment]
            status.timestamp.FromMicroseconds(self._newest.created_at)
        if self._now is None:
            status.ClearField("message")
        elif self._newest is not None:
            status.message.CopyFrom(self._now.message())

    def apply(self, event: Event) -> None:
        if event.kind in STATUSES:
            self._status(event)
        elif event.kind == ARTIFACT:
            self._artifact(a2a.StreamResponse.FromString(event.payload).artifact_update)
        elif event.kind == MESSAGE:
            self._user_message(a2a.StreamResponse.FromString(event.payload), event)
        elif event.kind == CREATED:
            self._task.CopyFrom(a2a.StreamResponse.FromString(event.payload).task)
            self._begin()

    def _artifact(self, update: a2a.TaskArtifactUpdateEvent) -> None:
        new = update.artifact
        old = next((each for each in self._task.artifacts if each.artifact_id == new.artifact_id), None)
        if old is None:
            self._task.artifacts.append(new)
        elif not update.append:
            self._growing.settle()
            old.CopyFrom(new)
        else:
            self._growing.extend(old.parts, new.parts)
            merge_fields(old, new)

    def _status(self, event: Event) -> None:
        if event.generation in self._known:
            said = self._known[event.generation]
            spoken = _StatusMessage(*said, event) if said is not None else None
        else:
            spoken = self._read(event)
        if spoken is not None:
            self._speak(spoken)
        elif self._now is not None and not self._now.partial:
            self._supersede()
        self._newest = event
        if event.state != WORKING and _USAGE in event.payload:
            add_usage(self._task, a2a.StreamResponse.FromString(event.payload).status_update)

    def _read(self, event: Event) -> _StatusMessage | None:
        update = a2a.StreamResponse.FromString(event.payload).status_update
        # Only the store makes a task SUBMITTED again.
        if event.state == SUBMITTED and LOST_ATTEMPT in update.metadata.fields:
            self._forget_attempt(update)
        if not update.status.HasField("message"):
            return None
        message = update.status.message
        # A message of the conversation is final.
        partial, is_status_text = (False, False) if event.speaks else message_flags(message)
        return _StatusMessage(message.message_id, partial, is_status_text, event, message)

    def _speak(self, new: _StatusMessage) -> None:
        now = self._now
        same = now is not None and now.id == new.id
        if now is not None and now.partial:
            if new.is_status_text:
                return
            if new.partial:
                self._growing.extend(now.message().parts, new.message().parts)
                return
            if not same:
                self._remember(new.id, new.message)
                return
            self._growing.settle()
        elif not same:
            self._supersede()
        if not (new.partial or new.is_status_text):
            self._take_back(new)
        self._now = new

    def _user_message(self, payload: a2a.StreamResponse, event: Event) -> None:
        if self._now is not None and not self._now.partial:
            self._supersede()
        message = payload.message
        if payload.HasField("status_update"):
            self._newest = event
            message = payload.status_update.status.message
        self._remember(message.message_id, lambda: message)

    def _forget_attempt(self, update: a2a.TaskStatusUpdateEvent) -> None:
        """Remove the artifacts of a lost attempt and mark its messages."""
        self._growing.settle()
        del self._task.artifacts[:]
        attempt = update.metadata.fields[LOST_ATTEMPT].number_value
        lost = {value.string_value for value in update.metadata.fields[LOST_MESSAGES].list_value.values}
        said = [self._now.message()] if self._now is not None else []
        for message in (*self._task.history, *said):
            if message.message_id in lost:
                message.metadata.fields[LOST_ATTEMPT].number_value = attempt

    def _supersede(self) -> None:
        """Remove the status message. A message that is not partial moves to the history."""
        now = self._now
        if now is not None:
            if not now.partial and not now.is_status_text:
                self._remember(now.id, now.message)
            self._growing.settle()
            self._now = None

    def _take_back(self, new: _StatusMessage) -> None:
        """Remove the newest message of the history if it grows on, after a status without it."""
        last = self._task.history[-1] if self._task.history else None
        if last is None or last.message_id != new.id or last.role != a2a.ROLE_AGENT:
            return
        if LOST_ATTEMPT not in last.metadata.fields:
            self._said.discard(new.id)
            del self._task.history[-1]

    def _remember(self, message_id: str, message: Callable[[], a2a.Message]) -> None:
        if message_id not in self._said:
            self._said.add(message_id)
            self._task.history.append(message())
