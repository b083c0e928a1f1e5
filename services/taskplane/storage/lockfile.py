"""The lock that keeps a second process away from a SQLite file."""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from taskplane.runtime.errors import Refused, Unavailable

_TRY_AGAIN = 0.05


@contextmanager
def locked(file: Path, *, wait: float) -> Generator[None, None, None]:
    """Hold `<file>.lock`, making it and its folder where there is none, until the block or the process ends.

    Blocks the thread for up to `wait` seconds. Refused: somebody else holds it. Unavailable: it cannot be made.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(f"{file}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(f"{file}.lock cannot be opened: {error.strerror}", reason="DATABASE_DOWN") from error
    try:
        deadline = time.monotonic() + wait
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline:
                raise Refused(
                    f"{file} is in use by another process; a SQLite database supports one process",
                    reason="DATABASE_IN_USE",
                    suggestion="stop the other process, or set the database URL of this service to a PostgreSQL "
                    "database (postgresql://user:password@host/name), which serves several",
                )
            time.sleep(_TRY_AGAIN)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
