"""The time at which a message was committed, in its metadata under `taskplane.dev/time` (RFC 3339, UTC)."""

from functools import lru_cache
from typing import Final

from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from taskplane.runtime.times import set_time

KEY: Final = "taskplane.dev/time"


def add_time(metadata: Struct, micros: int) -> None:
    """Add a time (microseconds since 1970) to the metadata of a message, unless one is there."""
    if KEY not in metadata.fields:
        metadata.fields[KEY].string_value = _text(micros)


@lru_cache(64)
def serialized(micros: int) -> bytes:
    """Return serialized metadata that consists of a time (microseconds since 1970)."""
    metadata = Struct()
    add_time(metadata, micros)
    return metadata.SerializeToString()


@lru_cache(1024)
def _text(micros: int) -> str:
    stamp = Timestamp()
    set_time(stamp, micros)
    return stamp.ToJsonString()
