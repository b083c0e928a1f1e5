"""Serialized messages put together from serialized parts, so that requests are stored without parsing and copying.

It relies on rules of Protocol Buffers: the fields of a message may come in any order; of a scalar that comes twice the
last one counts; a message that comes twice is merged. So the store writes its fields after those of the request.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from taskplane.runtime import message_times

_SECOND: Final = 1_000_000
# The numbers of the fields that are written here; a test compares them with the contract.
_MESSAGE_CONTEXT, _MESSAGE_TASK, _MESSAGE_ROLE, _MESSAGE_METADATA = 2, 3, 4, 6
_STATUS_STATE, _STATUS_MESSAGE, _STATUS_TIMESTAMP = 1, 2, 3
_UPDATE_TASK, _UPDATE_CONTEXT, _UPDATE_STATUS = 1, 2, 3
_TASK_ID, _TASK_CONTEXT, _TASK_STATUS, _TASK_HISTORY, _TASK_METADATA = 1, 2, 3, 5, 6
_OF_TASK, _OF_MESSAGE, _OF_STATUS_UPDATE, _OF_ARTIFACT_UPDATE = 1, 2, 3, 4


class Ids(NamedTuple):
    """The ids of a task and its context, as fields of an update (status or artifact) and as fields of a message."""

    update: bytes
    message: bytes


@lru_cache(4096)
def ids_of(task_id: str, context_id: str) -> Ids:
    """Return the ids of a task as fields to be written after those of an update or a message."""
    task, context = task_id.encode(), context_id.encode()
    return Ids(
        field(_UPDATE_TASK, task) + field(_UPDATE_CONTEXT, context),
        field(_MESSAGE_CONTEXT, context) + field(_MESSAGE_TASK, task),
    )


def new_task(
    task_id: str,
    context_id: str,
    state: int,
    at: int,
    message: bytes,
    metadata: bytes | None,
    *,
    timed: bool = False,
) -> bytes:
    """Return a serialized Task that begins with one serialized message, at `at` (microseconds).

    So does the message, unless it is `timed` already.
    """
    said = ids_of(task_id, context_id).message if timed else ids_of(task_id, context_id).message + _said(at)
    return (
        field(_TASK_ID, task_id.encode())
        + field(_TASK_CONTEXT, context_id.encode())
        + field(_TASK_STATUS, number(_STATUS_STATE, state) + _time(at))
        + field(_TASK_HISTORY, message + said)
        + (field(_TASK_METADATA, metadata) if metadata is not None else b"")
    )


def task_payload(task: bytes) -> bytes:
    """Return the StreamResponse of a serialized Task."""
    return field(_OF_TASK, task)


def message_payload(message: bytes, ids: Ids, at: int) -> bytes:
    """Return the StreamResponse of a serialized Message, at `at` (microseconds)."""
    return field(_OF_MESSAGE, message + ids.message + _said(at))


def artifact_payload(update: bytes, ids: Ids) -> bytes:
    """Return the StreamResponse of a serialized TaskArtifactUpdateEvent."""
    return field(_OF_ARTIFACT_UPDATE, update + ids.update)


def status_payload(
    update: bytes,
    ids: Ids,
    at: int,
    *,
    has_message: bool,
    timed: bool = False,
    role: int | None = None,
    metadata: bytes = b"",
) -> bytes:
    """Return the StreamResponse of a serialized TaskStatusUpdateEvent, at `at` (microseconds).

    The message, if it `has_message`, gets the `role`, if one is given, serialized `metadata` beside its own, and the
    time, unless it is `timed` already or has none.
    """
    message = b""
    if has_message:
        said = ids.message if role is None else ids.message + number(_MESSAGE_ROLE, role)
        if metadata:
            said += field(_MESSAGE_METADATA, metadata)
        message = field(_STATUS_MESSAGE, said if timed else said + _said(at))
    return field(_OF_STATUS_UPDATE, update + ids.update + field(_UPDATE_STATUS, message + _time(at)))


def reopening(message: bytes, state: int) -> bytes:
    """Return a TaskStatusUpdateEvent with a serialized Message."""
    return field(_UPDATE_STATUS, number(_STATUS_STATE, state) + field(_STATUS_MESSAGE, message))


def field(place: int, content: bytes) -> bytes:
    """Return a field that holds a message, a string or bytes; `place` is its number, up to 15."""
    size = len(content)
    if size < 0x80:
        return _NESTED_TAGS[place] + _LAST[size] + content
    if size < 0x4000:
        return _NESTED_TAGS[place] + _FOLLOWED[size & 0x7F] + _LAST[size >> 7] + content
    return _NESTED_TAGS[place] + varint(size) + content


def number(place: int, value: int) -> bytes:
    """Return a field that holds a whole number, not negative, also if it is 0; `place` is its number, up to 15."""
    return _NUMBER_TAGS[place] + (_LAST[value] if value < 0x80 else varint(value))


def varint(value: int) -> bytes:
    """Return a whole number, not negative, in groups of seven bits, the lowest first."""
    if value < 0x80:
        return _LAST[value]
    if value < 0x4000:
        return _FOLLOWED[value & 0x7F] + _LAST[value >> 7]
    groups: list[bytes] = []
    while value > 0x7F:
        groups.append(_FOLLOWED[value & 0x7F])
        value >>= 7
    groups.append(_LAST[value])
    return b"".join(groups)


_NUMBER_TAGS: Final = [bytes((place << 3,)) for place in range(16)]
_NESTED_TAGS: Final = [bytes((place << 3 | 2,)) for place in range(16)]
_LAST: Final = [bytes((group,)) for group in range(0x80)]
_FOLLOWED: Final = [bytes((group | 0x80,)) for group in range(0x80)]


def _said(at: int) -> bytes:
    """Return the time of a message, as a field of the message."""
    return field(_MESSAGE_METADATA, message_times.serialized(at))


@lru_cache(64)
def _time(micros: int) -> bytes:
    """Return the time of a status. Its nanoseconds are written even if they are 0, to replace those that were sent."""
    seconds, rest = divmod(micros, _SECOND)
    return field(_STATUS_TIMESTAMP, number(1, seconds) + number(2, rest * 1000))
