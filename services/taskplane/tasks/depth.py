"""JSON values in requests: none may be nested so deeply that what carries it could not be read again."""

from collections.abc import Iterable, Iterator
from typing import Final

from google.protobuf.struct_pb2 import Struct, Value

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Invalid
from taskplane.runtime.nesting import readable_within

# A parser of protobuf gives up at 100 nested messages, and whatever stores or shows a value wraps it in some more.
_WRAPPERS: Final = 16


def _of_parts(parts: Iterable[a2a.Part]) -> Iterator[Struct | Value]:
    for part in parts:
        if part.HasField("data"):
            yield part.data
        if part.HasField("metadata"):
            yield part.metadata


def of_message(message: a2a.Message) -> Iterator[Struct | Value]:
    """The values in a message."""
    yield from _of_parts(message.parts)
    if message.HasField("metadata"):
        yield message.metadata


def of_artifact(artifact: a2a.Artifact) -> Iterator[Struct | Value]:
    """The values in an artifact."""
    yield from _of_parts(artifact.parts)
    if artifact.HasField("metadata"):
        yield artifact.metadata


def of_change(change: pb.Change) -> Iterator[Struct | Value]:
    """The values in a change."""
    if change.HasField("status"):
        yield change.status.metadata
        yield from of_message(change.status.status.message)
    else:
        yield change.artifact.metadata
        yield from of_artifact(change.artifact.artifact)


def shallow(field: str, values: Iterable[Struct | Value]) -> None:
    """Refuses what could be written but, inside the messages that carry it, never be read again: Invalid `TOO_DEEP`.

    A protobuf parser stops at 100 nested messages, its builder does not: such a value would make its task unreadable.
    """
    for value in values:
        if not readable_within(value, _WRAPPERS):
            raise Invalid(
                f"{field} is nested too deeply to be stored",
                reason="TOO_DEEP",
                suggestion="send the data with fewer levels, or as a file",
                fields={field: "is nested too deeply"},
            )
