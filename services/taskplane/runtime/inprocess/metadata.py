"""Metadata as HTTP/2 would carry it (RFC 9113 section 8.2, the gRPC wire format)."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

Pairs = tuple[tuple[str, str | bytes], ...]

_KEY: Final = re.compile(r"[0-9a-z_.-]+")


def received(metadata: Iterable[tuple[str, str | bytes]]) -> Pairs:
    """Return metadata as the other side gets it: bytes where a key ends in -bin, else text.

    ValueError, TypeError: a pair that could not be sent.
    """
    pairs: list[tuple[str, str | bytes]] = []
    for key, value in metadata:
        if _is_text(key) and isinstance(value, str) and value.isascii() and value.isprintable():
            pairs.append((key, value))
        else:
            pairs.append(_received(key, value))
    return tuple(pairs)


@lru_cache(maxsize=64)
def _is_text(key: str) -> bool:
    """Return whether this is a key with a text value."""
    return _KEY.fullmatch(key) is not None and not key.endswith("-bin")


def _received(key: str, value: str | bytes) -> tuple[str, str | bytes]:
    if not _KEY.fullmatch(key):
        raise ValueError(f"metadata was invalid: {key!r} is not a key")
    if key.endswith("-bin"):
        if isinstance(value, str):
            raise TypeError(f"metadata was invalid: the value of {key!r} must be bytes")
        return key, value
    text = value if isinstance(value, str) else value.decode("latin-1")
    if not text.isascii() or not text.isprintable():
        raise ValueError(f"metadata was invalid: the value of {key!r} is not printable ASCII")
    return key, text
