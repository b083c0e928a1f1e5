"""The form of stored snapshots, and of large pieces of artifacts: compressed (zlib, RFC 1950) if that is worth it."""

import zlib
from typing import Final

WORTH_IT: Final = 4 * 1024
LARGE_PIECE: Final = 16 * 1024
"""Bytes from which on the payload of an artifact event is compressed, where the database does not do that itself."""
# The first byte of a zlib stream; a serialized Task begins with the tag of its first field.
_ZLIB: Final = b"\x78"
# Begins a compressed payload, before its length in four bytes; no serialized message begins with it.
_PACKED: Final = b"\0"
_HEAD: Final = 5


def pack(task: bytes) -> bytes:
    """Return the bytes to store for a serialized, non-empty task."""
    if len(task) < WORTH_IT:
        return task
    packed = zlib.compress(task, level=1)
    return packed if len(packed) < len(task) else task


def unpack(stored: bytes) -> bytes:
    """Return the serialized task of stored bytes."""
    return zlib.decompress(stored) if stored.startswith(_ZLIB) else stored


def pack_piece(payload: bytes) -> bytes:
    """Return the bytes to store for the payload of an artifact event, where they are to be compressed."""
    if len(payload) < LARGE_PIECE:
        return payload
    packed = _PACKED + len(payload).to_bytes(_HEAD - 1, "big") + zlib.compress(payload, level=1)
    return packed if len(packed) < len(payload) else payload


def unpack_piece(stored: bytes) -> bytes:
    """Return the payload of the stored bytes of an artifact event."""
    return zlib.decompress(memoryview(stored)[_HEAD:]) if stored.startswith(_PACKED) else stored


def unpacked_size(stored: bytes) -> int:
    """Return the length of the payload of the stored bytes of an artifact event, without unpacking them."""
    return int.from_bytes(stored[1:_HEAD], "big") if stored.startswith(_PACKED) else len(stored)
