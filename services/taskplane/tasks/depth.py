"""What nests in requests: JSON values and unknown groups. None may be so deep that it could not be read again."""

from collections.abc import Iterable, Iterator
from typing import Final

from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.nesting import MOST_NESTED, has_groups, readable_within
from taskplane.tasks.domain.changes import too_deep

# A parser of protobuf gives up at 100 nested messages, and whatever stores or shows a value wraps it in some more.
_WRAPPERS: Final = 16
_LEVELS: Final = MOST_NESTED - _WRAPPERS
# What nests is a Value that is an object (field 5: a Struct, its entry and the next Value are three messages) or a list
# (field 6: a ListValue and the next Value are two); it has such a tag of one byte.
_OBJECT: Final = b"\x2a"
_LIST: Final = b"\x32"
# A group begins with a tag of wire type 3, in the lowest three bits of its first byte.
_NO_GROUPS: Final = bytes(byte for byte in range(256) if byte & 7 != 3)
# Not nested by such tags: the outermost value itself and the empty object or list within the innermost one.
_OTHERS: Final = 4


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


def of_update(update: a2a.TaskStatusUpdateEvent | a2a.TaskArtifactUpdateEvent) -> Iterator[Struct | Value]:
    """The values in an update."""
    yield update.metadata
    if isinstance(update, a2a.TaskStatusUpdateEvent):
        yield from of_message(update.status.message)
    else:
        yield from of_artifact(update.artifact)


def harmless(serialized: bytes) -> bool:
    """Whether a message has so few bytes, or so few that can be tags of nested values, that none is too deep.

    Texts have such bytes, too (`*` and `2`, and one in eight for groups): where there are many, only a look at the
    message tells.
    """
    # A nested message takes at least two bytes.
    if len(serialized) <= 2 * _LEVELS:
        return True
    groups = len(serialized.translate(None, _NO_GROUPS))
    return groups + 3 * serialized.count(_OBJECT) + 2 * serialized.count(_LIST) + _OTHERS <= _LEVELS


def shallow(field: str, values: Iterable[Struct | Value]) -> None:
    """Refuses what could be written but, inside the messages that carry it, never be read again: Invalid `TOO_DEEP`.

    A protobuf parser stops at 100 nested messages, its builder does not: such a value would make its task unreadable.
    """
    for value in values:
        if not readable_within(value, _WRAPPERS):
            raise too_deep(field)


def known(field: str, message: Message) -> None:
    """Refuses groups, which no field of the contract is, for they nest as well: Invalid `TOO_DEEP`."""
    if has_groups(message):
        raise too_deep(field)
