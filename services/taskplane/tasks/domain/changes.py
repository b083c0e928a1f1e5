"""What executors and users send, read once: the few things that the rules need, beside the bytes that are stored."""

from collections.abc import Iterable
from dataclasses import dataclass

from google.protobuf.message import DecodeError, EncodeError

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Invalid
from taskplane.tasks.domain.messages import manner


@dataclass(slots=True)
class StatusUpdate:
    """A status update. `serialized` is the TaskStatusUpdateEvent as it came.

    `message_id` is None where it has no message. `role` is 0 where the message says nothing about it. `partial` and
    `status_text`: see `messages.manner`.
    """

    serialized: bytes
    state: int
    message_id: str | None = None
    role: int = 0
    partial: bool = False
    status_text: bool = False

    def update(self, field: str) -> a2a.TaskStatusUpdateEvent:
        """All that it says. Invalid `TOO_DEEP`, naming the `field` of the request."""
        try:
            return a2a.TaskStatusUpdateEvent.FromString(self.serialized)
        except DecodeError:
            raise too_deep(field) from None


@dataclass(slots=True)
class ArtifactUpdate:
    """A piece of an artifact. `serialized` is the TaskArtifactUpdateEvent as it came.

    `complete`: it has an id and a part.
    """

    serialized: bytes
    artifact_id: str
    append: bool
    complete: bool

    def update(self, field: str) -> a2a.TaskArtifactUpdateEvent:
        """All that it says. Invalid `TOO_DEEP`, naming the `field` of the request."""
        try:
            return a2a.TaskArtifactUpdateEvent.FromString(self.serialized)
        except DecodeError:
            raise too_deep(field) from None


@dataclass(slots=True)
class UserMessage:
    """A message of a user. `serialized` is the Message as it came."""

    serialized: bytes
    message_id: str


# None: a change that says nothing.
Change = StatusUpdate | ArtifactUpdate | None


def read_changes(changes: Iterable[pb.Change], field: str) -> list[Change]:
    """The changes of one item, in their order. Invalid `TOO_DEEP`, naming the `field` of the request."""
    return [_read_change(change, field) for change in changes]


def _read_change(change: pb.Change, field: str) -> Change:
    if change.HasField("status"):
        return read_status(change.status, field)
    if change.HasField("artifact"):
        update = change.artifact
        artifact = update.artifact
        artifact_id = artifact.artifact_id
        complete = bool(artifact_id) and len(artifact.parts) > 0
        return ArtifactUpdate(_serialized(update, field), artifact_id, update.append, complete)
    return None


def read_status(update: a2a.TaskStatusUpdateEvent, field: str = "status") -> StatusUpdate:
    """One status update. Invalid `TOO_DEEP`."""
    status = update.status
    serialized = _serialized(update, field)
    if not status.HasField("message"):
        return StatusUpdate(serialized, status.state)
    message = status.message
    partial, status_text = manner(message)
    return StatusUpdate(serialized, status.state, message.message_id, message.role, partial, status_text)


def read_message(message: a2a.Message, field: str = "message") -> UserMessage:
    """A message of a user. Invalid `TOO_DEEP`."""
    return UserMessage(_serialized(message, field), message.message_id)


def too_deep(field: str) -> Invalid:
    """Why what `field` of a request holds cannot be stored, where it is nested too deeply."""
    return Invalid(
        f"{field} is nested too deeply to be stored",
        reason="TOO_DEEP",
        suggestion="send the data with fewer levels, or as a file",
        fields={field: "is nested too deeply"},
    )


def _serialized(message: a2a.TaskStatusUpdateEvent | a2a.TaskArtifactUpdateEvent | a2a.Message, field: str) -> bytes:
    try:
        return message.SerializeToString()
    except EncodeError:
        raise too_deep(field) from None
