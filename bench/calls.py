"""Counts the Python calls of a process, by function and thread, from `start_counting` on.

A call is one that the interpreter reports to a profiler: of a function, and of a generator or coroutine each time it
goes on. Calls of functions in C are not counted, but for those of `SimpleQueue.put`: each hands work to another thread.
"""

import sys
import threading
from collections import Counter
from queue import SimpleQueue
from types import CodeType, FrameType
from typing import Any

HANDED_OVER = "handed over"
_PUTS = ("put", "put_nowait")
_calls: Counter[CodeType] = Counter()
_handed_over = 0


def start_counting() -> None:
    """Count the calls of this thread, and of all threads that start later."""
    threading.setprofile(_count)
    sys.setprofile(_count)


def calls() -> dict[str, int]:
    """Return the number of calls so far by `file:line:function`, and that of hand-overs to a thread."""
    found = {f"{code.co_filename}:{code.co_firstlineno}:{code.co_qualname}": n for code, n in _calls.copy().items()}
    return found | {HANDED_OVER: _handed_over}


def _count(frame: FrameType, event: str, argument: Any) -> None:
    global _handed_over
    if event == "call":
        _calls[frame.f_code] += 1
    elif event == "c_call" and argument.__name__ in _PUTS and isinstance(argument.__self__, SimpleQueue):
        _handed_over += 1
