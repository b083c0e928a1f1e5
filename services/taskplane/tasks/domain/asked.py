"""The words that began a task, read from the beginning of the event that created it, so that large files in its message
are not read for a list.

It relies on rules of Protocol Buffers: a field begins with its number and its type, and a nested message with its
length.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

MOST_ASKED: Final = 200
"""Characters of the words."""
BEGINNING: Final = 4096
"""Bytes of the event that they are looked for in."""
MOST_READ: Final = 1024 * 1024
"""The maximum size in bytes of an event whose beginning is read: to read a beginning, an engine may read the whole
event."""

# The numbers of the fields on the way to a text: the task of a StreamResponse, its history, the parts of a message, and
# the text of a part. A test compares them with the contract.
PATH: Final = (1, 5, 5, 1)
_VARINT, _EIGHT_BYTES, _NESTED = 0, 1, 2


def asked_of(payload: bytes) -> str:
    """Return the beginning of the text in a serialized StreamResponse with a task, or in its first bytes; "" if there
    is no text."""
    found: Iterable[bytes] = [payload]
    for number in PATH:
        found = [content for each in found for content in _contents(each, number)]
    return "\n".join(each.decode(errors="ignore") for each in found).strip()[:MOST_ASKED]


def _contents(message: bytes, number: int) -> Iterator[bytes]:
    """Yield the contents of the fields with this number. The last field may be incomplete."""
    at = 0
    with suppress(IndexError):
        while at < len(message):
            tag, at = _varint(message, at)
            if tag & 7 == _VARINT:
                _, at = _varint(message, at)
            elif tag & 7 == _NESTED:
                size, at = _varint(message, at)
                if tag >> 3 == number:
                    yield message[at : at + size]
                at += size
            else:
                at += 8 if tag & 7 == _EIGHT_BYTES else 4


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a whole number and the place after it. Raise IndexError if it is cut off."""
    value = shift = 0
    while message[at] > 0x7F:
        value |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | message[at] << shift, at + 1
