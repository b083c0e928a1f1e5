"""Stored snapshots: a serialized task as it is, or compressed (zlib, RFC 1950) where that is worth its time."""

import zlib
from typing import Final

WORTH_IT: Final = 4 * 1024
# A serialized Task begins with its first field, a zlib stream with the mark of its method.
_ZLIB: Final = b"\x78"


def pack(task: bytes) -> bytes:
    """The bytes to store for a serialized, non-empty task."""
    if len(task) < WORTH_IT:
        return task
    packed = zlib.compress(task, level=1)
    return packed if len(packed) < len(task) else task


def unpack(stored: bytes) -> bytes:
    """The serialized task of stored bytes."""
    return zlib.decompress(stored) if stored.startswith(_ZLIB) else stored
