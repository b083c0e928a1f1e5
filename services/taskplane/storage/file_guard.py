"""A guard of the files of a SQLite database: what is written must be in the file that has the name.

SQLite goes on writing to a file that was deleted or replaced, and answers every COMMIT as if it were durable.
"""

import logging
import os
from pathlib import Path

from taskplane.runtime.errors import Unavailable
from taskplane.storage.driver_errors import database_down

_log = logging.getLogger(__name__)

# Device and inode.
_Identity = tuple[int, int]


class FileGuard:
    """The identities of a database and its write-ahead log, and the most bytes the database had. For one thread."""

    def __init__(self, file: Path) -> None:
        """Make a guard that knows of nothing until `begin`."""
        self._file = file
        self._wal = Path(f"{file}-wal")
        self._known: dict[Path, _Identity] = {}
        self._size = 0
        self._lost = False

    def begin(self) -> None:
        """Remember the files as they are just after they were opened; a later call does nothing."""
        if self._known:
            return
        for path in (self._file, self._wal):
            if (found := _stat(path)) is not None:
                self._known[path] = (found.st_dev, found.st_ino)

    def check(self) -> None:
        """Raise Unavailable if a file is gone, is another one, or was truncated. They are trusted again once they are
        as they were."""
        for path, identity in self._known.items():
            found = _stat(path)
            if found is None:
                raise self._lose(f"{path} was deleted")
            if (found.st_dev, found.st_ino) != identity:
                raise self._lose(f"{path} was replaced by another file")
            if path == self._file:
                if found.st_size < self._size:
                    raise self._lose(f"{path} was truncated from {self._size} bytes to {found.st_size}")
                self._size = found.st_size
        self._lost = False

    def _lose(self, what: str) -> Unavailable:
        if not self._lost:
            self._lost = True
            _log.critical(
                "%s while it was in use: nothing more is written. Stop this process, put the right file in its place"
                " (a backup, with its -wal file if there is one), and start again",
                what,
            )
        return database_down(what)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
