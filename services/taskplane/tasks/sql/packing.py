"""The form of stored snapshots: a serialized task, compressed (zlib, RFC 1950) if it is large enough."""

import zlib
from typing import Final

WORTH_IT: Final = 4 * 1024
# The first byte of a zlib stream; a serialized Task begins with the tag of its first field.
_ZLIB: Final = b"\x78"


def pack(task: bytes) -> bytes:
    """Return the bytes to store for a serialized, non-empty task."""
    if len(task) < WORTH_IT:
        return task
    packed = zlib.compress(task, level=1)
    return packed if len(packed) < len(task) else task


def unpack(stored: bytes) -> bytes:
    """Return the serialized task of stored bytes."""
    return zlib.decompress(stored) if stored.startswith(_ZLIB) else stored
