"""Random ids, and what an id of any kind may not be. The bits come from the operating system, for many ids at a time:
each ask of it costs a hand-over between the threads of the process."""

import os
from collections import deque
from typing import Final

_BYTES: Final = 16
_AT_ONCE: Final = 256

_ready: deque[bytes] = deque()
os.register_at_fork(after_in_child=_ready.clear)


def random_bytes() -> bytes:
    """128 bits that nobody can guess and that do not repeat. Safe to call from any thread."""
    try:
        return _ready.popleft()
    except IndexError:
        fresh = os.urandom(_BYTES * _AT_ONCE)
        _ready.extend(fresh[at : at + _BYTES] for at in range(_BYTES, len(fresh), _BYTES))
        return fresh[:_BYTES]


def new_id() -> str:
    """The same as 32 hexadecimal digits."""
    return random_bytes().hex()


def is_segment(value: str) -> bool:
    """Whether an id can be named in a path: `.` and `..` are taken out of it by whoever sends it (RFC 3986, 5.2.4)."""
    return value not in (".", "..")
