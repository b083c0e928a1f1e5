"""New ids. The bits come from the operating system, for many ids at a time: each
ask of it costs a hand-over between the threads of the process."""

import os
from collections import deque
from time import time_ns
from typing import Final

TIME_DIGITS: Final = 12
"""With so many digits a new id begins with its time."""

_BYTES: Final = 16
_AT_ONCE: Final = 256

_ready: deque[bytes] = deque()
os.register_at_fork(after_in_child=_ready.clear)


def random_bytes() -> bytes:
    """Return 128 bits that nobody can guess and that do not repeat. Safe to call from any thread."""
    try:
        return _ready.popleft()
    except IndexError:
        fresh = os.urandom(_BYTES * _AT_ONCE)
        _ready.extend(fresh[at : at + _BYTES] for at in range(_BYTES, len(fresh), _BYTES))
        return fresh[:_BYTES]


def new_id() -> str:
    """Return a UUID of version 7 (RFC 9562, section 5.7) as 32 hexadecimal digits: its time in milliseconds, then 72
    bits that nobody can guess. Ids of about the same time stand together in every index, and are written together."""
    digits = random_bytes().hex()
    return f"{time_ns() // 1_000_000:0{TIME_DIGITS}x}7{digits[13:16]}8{digits[17:]}"
