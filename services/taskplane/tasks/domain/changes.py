"""Changes of executors and messages of users, read once: the few fields that the rules need, and the stored bytes."""

from dataclasses import dataclass

from google.protobuf.message import DecodeError, EncodeError

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime import message_times
from taskplane.runtime.nesting import too_deep
from taskplane.tasks.domain.kinds import STATUS, STATUS_TEXT, Kind
from taskplane.tasks.domain.messages import message_flags


@dataclass(slots=True)
class StatusUpdate:
    """A status update. `serialized` is the TaskStatusUpdateEvent as it was sent.

    `message_id` is None if there is no message. `role` is 0 if the message has no role. `partial` and `status_text`:
    see `messages.message_flags`.
    """

    serialized: bytes
    state: int
    message_id: str | None = None
    role: int = 0
    partial: bool = False
    status_text: bool = False
    # It has its time.
    timed: bool = False
    # The kind of its event: STATUS, or STATUS_TEXT, which makes a status text of any message.
    kind: int = STATUS
    # The cause of a failure, for operators: a serialized Change.
    cause: bytes | None = None

    def update(self, field: str) -> a2a.TaskStatusUpdateEvent:
        """Return the whole update. Raise Invalid `TOO_DEEP`, naming the `field` of the request."""
        try:
            return a2a.TaskStatusUpdateEvent.FromString(self.serialized)
        except DecodeError:
            raise too_deep(field) from None


@dataclass(slots=True)
class ArtifactUpdate:
    """A piece of an artifact. `serialized` is the TaskArtifactUpdateEvent as it was sent.

    `complete`: it has an id and a part.
    """

    serialized: bytes
    artifact_id: str
    append: bool
    complete: bool

    def update(self, field: str) -> a2a.TaskArtifactUpdateEvent:
        """Return the whole update. Raise Invalid `TOO_DEEP`, naming the `field` of the request."""
        try:
            return a2a.TaskArtifactUpdateEvent.FromString(self.serialized)
        except DecodeError:
            raise too_deep(field) from None


@dataclass(slots=True)
class Data:
    """Bytes that no rule reads. `kind`: that of their event, with the name of their field."""

    kind: Kind
    serialized: bytes


@dataclass(slots=True)
class UserMessage:
    """A message of a user. `serialized` is the Message as it was sent; `timed`: it has its time already."""

    serialized: bytes
    message_id: str
    timed: bool = False


# None: an empty change.
Change = StatusUpdate | ArtifactUpdate | Data | None


def read_status(update: a2a.TaskStatusUpdateEvent, field: str = "status") -> StatusUpdate:
    """Read a status update. Raise Invalid `TOO_DEEP`, naming the `field` of the request."""
    status = update.status
    serialized = _serialized(update, field)
    if not status.HasField("message"):
        return StatusUpdate(serialized, status.state)
    message = status.message
    partial, status_text = message_flags(message)
    return StatusUpdate(
        serialized, status.state, message.message_id, message.role, partial, status_text, _is_timed(message)
    )


def read_status_text(update: a2a.TaskStatusUpdateEvent, field: str) -> StatusUpdate:
    """Read a status update with a message that becomes a status text. Raise Invalid `TOO_DEEP`, naming the `field`."""
    read = read_status(update, field)
    read.kind = STATUS_TEXT
    read.status_text = read.message_id is not None
    return read


def read_artifact(update: a2a.TaskArtifactUpdateEvent, field: str) -> ArtifactUpdate:
    """Read a piece of an artifact. Raise Invalid `TOO_DEEP`, naming the `field` of the request."""
    artifact = update.artifact
    artifact_id = artifact.artifact_id
    complete = bool(artifact_id) and len(artifact.parts) > 0
    return ArtifactUpdate(_serialized(update, field), artifact_id, update.append, complete)


def read_message(message: a2a.Message) -> UserMessage:
    """Read the `message` of a request. Raise Invalid `TOO_DEEP`."""
    return UserMessage(_serialized(message, "message"), message.message_id, _is_timed(message))


def _is_timed(message: a2a.Message) -> bool:
    return message.HasField("metadata") and message_times.KEY in message.metadata.fields


def _serialized(message: a2a.TaskStatusUpdateEvent | a2a.TaskArtifactUpdateEvent | a2a.Message, field: str) -> bytes:
    try:
        return message.SerializeToString()
    except EncodeError:
        raise too_deep(field) from None
