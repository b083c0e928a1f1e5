"""The time of a message in its metadata, under `taskplane.dev/time` (RFC 3339, UTC).

It is the time of its commit or, for a message that begins a turn, the time when the executor received it.
"""

from copy import deepcopy
from functools import lru_cache
from typing import Final

from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from taskplane.runtime.json_values import text_in
from taskplane.runtime.message import Message
from taskplane.runtime.times import set_time

_OURS: Final = "taskplane.dev/"
KEY: Final = "taskplane.dev/time"


def add_time(metadata: Struct, micros: int) -> None:
    """Add a time (microseconds since 1970) to the metadata of a message, unless the metadata has a time already."""
    if KEY not in metadata.fields:
        metadata.fields[KEY].string_value = _text(micros)


def keep_time(message: Message, known: Message) -> None:
    """Copy the time of `known` to `message`, if `message` has no time and both have the same content."""
    if KEY not in message.metadata.fields:
        time = time_in(message, known)
        if time:
            message.metadata.fields[KEY].string_value = time


def time_in(message: Message, known: Message) -> str:
    """Return the time of `known` if `message` has the same content; "" if not, or if `known` has no time."""
    time = text_in(known.metadata, KEY)
    return time if time and _content(message) == _content(known) else ""


def _content(message: Message) -> bytes:
    """Return the bytes of a message without the metadata that servers add."""
    content = deepcopy(message)
    for key in [key for key in content.metadata.fields if key.startswith(_OURS)]:
        del content.metadata.fields[key]
    if not content.metadata.fields:
        content.ClearField("metadata")
    return content.SerializeToString(deterministic=True)


@lru_cache(64)
def serialized(micros: int) -> bytes:
    """Return serialized metadata with a time (microseconds since 1970) and nothing else."""
    metadata = Struct()
    add_time(metadata, micros)
    return metadata.SerializeToString()


@lru_cache(1024)
def _text(micros: int) -> str:
    stamp = Timestamp()
    set_time(stamp, micros)
    return stamp.ToJsonString()
