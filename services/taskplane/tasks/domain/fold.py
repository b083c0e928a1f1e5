"""The fold: what a task is, given its events. Pure, and the same whether it starts at an event or at a snapshot."""

from collections.abc import Iterable, MutableSequence

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.tasks.domain.messages import is_partial, is_plain_text, is_status_text
from taskplane.tasks.domain.task import ARTIFACT, CREATED, MESSAGE, STATUS, Event

# Metadata of the status event that queues a lost attempt again.
LOST_ATTEMPT = "taskplane.dev/lost_attempt"
LOST_MESSAGES = "taskplane.dev/lost_messages"


def fold(task: a2a.Task, events: Iterable[Event]) -> a2a.Task:
    """Applies `events`, in order, to `task`, which is changed and returned. An empty task for a log from its start."""
    folding = _Folding(task)
    for event in events:
        folding.apply(event)
    folding.settle()
    return task


def text_so_far(events: Iterable[Event], message_id: str) -> a2a.Message | None:
    """The open text with this id, put together from the partial messages in `events`; None if there is none."""
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


class _GrowingText:
    """Gathers what is appended to one text part and joins it once, so that n pieces cost n and not n squared."""

    def __init__(self) -> None:
        self._part: a2a.Part | None = None
        self._pieces: list[str] = []

    def extend(self, parts: MutableSequence[a2a.Part], more: Iterable[a2a.Part]) -> None:
        for part in more:
            last = parts[-1] if parts else None
            if last is not None and is_plain_text(part) and is_plain_text(last):
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


class _Folding:
    def __init__(self, task: a2a.Task) -> None:
        self._task = task
        self._said = {message.message_id for message in task.history}
        self._growing = _GrowingText()

    def settle(self) -> None:
        self._growing.settle()

    def apply(self, event: Event) -> None:
        if event.kind == ARTIFACT:
            self._artifact(a2a.StreamResponse.FromString(event.payload).artifact_update)
        elif event.kind == STATUS:
            self._status(a2a.StreamResponse.FromString(event.payload).status_update)
        elif event.kind == MESSAGE:
            self._user_message(a2a.StreamResponse.FromString(event.payload))
        elif event.kind == CREATED:
            self._task.CopyFrom(a2a.StreamResponse.FromString(event.payload).task)
            self._said = {message.message_id for message in self._task.history}

    def _artifact(self, update: a2a.TaskArtifactUpdateEvent) -> None:
        new = update.artifact
        old = next((each for each in self._task.artifacts if each.artifact_id == new.artifact_id), None)
        if old is None:
            self._task.artifacts.append(new)
        elif not update.append:
            self.settle()
            old.CopyFrom(new)
        else:
            self._growing.extend(old.parts, new.parts)
            if new.name:
                old.name = new.name
            if new.description:
                old.description = new.description
            if new.HasField("metadata"):
                old.metadata.MergeFrom(new.metadata)

    def _status(self, update: a2a.TaskStatusUpdateEvent) -> None:
        if LOST_ATTEMPT in update.metadata.fields:
            self._forget_attempt(update)
        status = self._task.status
        new = update.status
        if new.HasField("message"):
            self._status_message(new.message)
        elif not self._text_is_open():
            self._supersede()
        status.state = new.state
        status.timestamp.CopyFrom(new.timestamp)

    def _status_message(self, message: a2a.Message) -> None:
        status = self._task.status
        same = status.message.message_id == message.message_id
        if self._text_is_open():
            if is_status_text(message):
                return
            if is_partial(message):
                self._growing.extend(status.message.parts, message.parts)
            elif same:
                self.settle()
                status.message.CopyFrom(message)
            else:
                self._remember(message)
            return
        if not same:
            self._supersede()
        status.message.CopyFrom(message)

    def _user_message(self, payload: a2a.StreamResponse) -> None:
        if not self._text_is_open():
            self._supersede()
        if payload.HasField("status_update"):
            new = payload.status_update.status
            self._remember(new.message)
            self._task.status.state = new.state
            self._task.status.timestamp.CopyFrom(new.timestamp)
        else:
            self._remember(payload.message)

    def _forget_attempt(self, update: a2a.TaskStatusUpdateEvent) -> None:
        """A lost attempt's artifacts start anew, and what it had said is marked."""
        self.settle()
        del self._task.artifacts[:]
        attempt = update.metadata.fields[LOST_ATTEMPT].number_value
        lost = {value.string_value for value in update.metadata.fields[LOST_MESSAGES].list_value.values}
        for message in (*self._task.history, self._task.status.message):
            if message.message_id in lost:
                message.metadata.fields[LOST_ATTEMPT].number_value = attempt

    def _text_is_open(self) -> bool:
        return self._task.status.HasField("message") and is_partial(self._task.status.message)

    def _supersede(self) -> None:
        """The status message makes way; a final one is kept in the history."""
        status = self._task.status
        if status.HasField("message"):
            if not is_partial(status.message) and not is_status_text(status.message):
                self._remember(status.message)
            self.settle()
            status.ClearField("message")

    def _remember(self, message: a2a.Message) -> None:
        if message.message_id not in self._said:
            self._said.add(message.message_id)
            self._task.history.append(message)
