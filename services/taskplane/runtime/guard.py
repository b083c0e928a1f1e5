"""The thread that takes the signals of a process and keeps its deadline: a blocked event loop holds up neither."""

import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final, NoReturn

EXIT_STUCK: Final = 3
"""Exit code of a process that did not end within its drain deadline, or that was blocked for too long."""

_ENDING: Final = (signal.SIGTERM, signal.SIGINT)
# Added to the number of a signal that Python's handler reports.
_HANDLED: Final = 0x80
_HURRY: Final = 0
# Innermost frames that are logged.
_FRAMES: Final = 8
# Beyond the deadline of the thread, for code that lets no other thread run but looks for signals.
_LATER: Final = 1.0


def give_up(why: str) -> NoReturn:
    """End the process with code 3, and say why and where its main thread is."""
    with suppress(Exception):
        frame = sys._current_frames().get(threading.main_thread().ident or 0)  # pyright: ignore[reportPrivateUsage]
        where = "".join(traceback.format_stack(frame)[-_FRAMES:]) if frame is not None else ""
        sys.stderr.write(f"{why}; giving up. The main thread is here:\n{where}")
        sys.stderr.flush()
    os._exit(EXIT_STUCK)


class Guard:
    """The guard of the main thread, which calls all of its methods.

    A signal is reported to the thread twice: by the interpreter, which writes its number at once, during any code, and
    by the handler, which needs the main thread. One report is enough. A library may use the first way for its own
    signals, and the second fails while the main thread runs native code.
    """

    def __init__(self, drain: float) -> None:
        """`drain`: seconds from the first signal, or from `hurry`, to the end of the process."""
        self._drain = drain
        self._asked: Callable[[signal.Signals], object] = _ignore
        self._reads, self._writes = socket.socketpair()
        self._writes.setblocking(False)
        # Reports signals to the event loop for which a library has handlers.
        self._loop: socket.socket | None = None
        self._thread = threading.Thread(target=self._live, name="taskplane-guard", daemon=True)

    def begin(self, asked: Callable[[signal.Signals], object]) -> None:
        """Take SIGTERM and SIGINT from now on. `asked` is called once, in the thread, with the first of them."""
        self._asked = asked
        for number in _ENDING:
            signal.signal(number, self._handle)
        before = signal.set_wakeup_fd(self._writes.fileno(), warn_on_full_buffer=False)
        if before >= 0:
            # A copy, since the event loop closes its own when it ends.
            self._loop = socket.socket(fileno=os.dup(before))
        self._thread.start()

    def hurry(self) -> None:
        """Begin the deadline, unless it has begun."""
        self._tell(_HURRY)

    def end(self) -> None:
        """Forget the deadline, and leave the signals to the next guard."""
        if self._thread.is_alive():
            signal.set_wakeup_fd(-1)
            signal.setitimer(signal.ITIMER_REAL, 0)
        self._writes.close()

    def _tell(self, byte: int) -> None:
        with suppress(OSError):
            self._writes.send(bytes((byte,)))

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._tell(number | _HANDLED)
        if not signal.getitimer(signal.ITIMER_REAL)[0]:
            signal.signal(signal.SIGALRM, _expired)
            signal.setitimer(signal.ITIMER_REAL, self._drain + _LATER)

    def _live(self) -> None:
        deadline: float | None = None
        heard: Counter[int] = Counter()
        while True:
            self._reads.settimeout(None if deadline is None else max(0.001, deadline - time.monotonic()))
            try:
                told = self._reads.recv(64)
            except TimeoutError:
                _expired()
            if not told:
                self._reads.close()
                return
            heard.update(told)
            others = bytes(byte for byte in told if byte and byte & ~_HANDLED not in _ENDING)
            if others and self._loop is not None:
                with suppress(OSError):
                    self._loop.send(others)
            terms, ints = (max(heard[each], heard[each | _HANDLED]) for each in _ENDING)
            if ints > 1 or (ints and terms):
                os._exit(128 + signal.SIGINT)
            if deadline is None and (terms or ints or heard[_HURRY]):
                deadline = time.monotonic() + self._drain
                if terms or ints:
                    with suppress(RuntimeError):
                        self._asked(signal.SIGTERM if terms else signal.SIGINT)


def _ignore(number: signal.Signals) -> None:
    pass


def _expired(*_: object) -> NoReturn:
    give_up("did not end within the drain timeout")
