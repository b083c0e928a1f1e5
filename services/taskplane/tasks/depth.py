"""Checks of the nesting depth in requests: JSON values and unknown groups.

Protocol Buffers write messages of any depth, but their parsers stop at 100 nested messages.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct, Value

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.nesting import has_groups, readable_within
from taskplane.runtime.struct_values import MOST_LEVELS, WRAPPERS
from taskplane.tasks.domain.changes import too_deep

# A Value nests as an object (field 5: a Struct, its entry and the next Value are three messages) or as a list (field 6:
# a ListValue and the next Value are two). These are the tags of the two fields, of one byte each.
_OBJECT: Final = b"\x2a"
_LIST: Final = b"\x32"
# A group begins with a tag of wire type 3, in the lowest three bits of its first byte.
_NO_GROUPS: Final = bytes(byte for byte in range(256) if byte & 7 != 3)
# Levels without such a tag: the outermost value itself, and the empty object or list inside the innermost one.
_OTHERS: Final = 4


def values_of(content: a2a.Message | a2a.Artifact) -> Iterator[Struct | Value]:
    """Yield the JSON values of a message or an artifact."""
    for part in content.parts:
        if part.HasField("data"):
            yield part.data
        if part.HasField("metadata"):
            yield part.metadata
    if content.HasField("metadata"):
        yield content.metadata


def values_of_update(update: a2a.TaskStatusUpdateEvent | a2a.TaskArtifactUpdateEvent) -> Iterator[Struct | Value]:
    """Yield the JSON values of an update."""
    yield update.metadata
    yield from values_of(update.status.message if isinstance(update, a2a.TaskStatusUpdateEvent) else update.artifact)


def surely_shallow(serialized: bytes) -> bool:
    """Return whether a message has too few bytes, or too few that can be tags of nested values, to be too deep.

    False means that only a look at the message tells: texts have such bytes, too (`*` and `2`, and one in eight for
    groups).
    """
    # A nested message takes at least two bytes.
    if len(serialized) <= 2 * MOST_LEVELS:
        return True
    groups = len(serialized.translate(None, _NO_GROUPS))
    return groups + 3 * serialized.count(_OBJECT) + 2 * serialized.count(_LIST) + _OTHERS <= MOST_LEVELS


def check_depth(field: str, values: Iterable[Struct | Value]) -> None:
    """Raise Invalid `TOO_DEEP` if a value could be written, but not be read again inside the messages that carry it.

    Such a value would make its task unreadable.
    """
    for value in values:
        if not readable_within(value, WRAPPERS):
            raise too_deep(field)


def check_groups(field: str, message: Message) -> None:
    """Raise Invalid `TOO_DEEP` if a message has groups: they nest as well, and no field of the contract is one."""
    if has_groups(message):
        raise too_deep(field)
