"""A guard of the files of a SQLite database: writes must go to the file that has the name.

SQLite goes on writing to a file that was deleted, replaced or truncated, and answers every COMMIT as if it were
durable.
"""

import logging
import os
from pathlib import Path
from typing import Final

from taskplane.runtime.errors import Unavailable
from taskplane.storage.driver_errors import database_damaged, database_down

_log = logging.getLogger(__name__)

LONGEST_KEPT: Final = 64 * 1024 * 1024
"""Bytes to which SQLite cuts a longer log, in the first commit after it has begun the log anew. It cuts it at no other
time while it is open."""

# The write-ahead log (sqlite.org/fileformat2.html#walformat) is a header, with the size of a page at 8 and then what
# changes whenever the log is begun anew, and frames: a header, which begins with the number of a page, and the page.
_HEADER: Final = 32
_FRAME_HEADER: Final = 24

# Device and inode.
_Identity = tuple[int, int]


class FileGuard:
    """The identities of a database and its write-ahead log, and the bytes they had. For one thread."""

    def __init__(self, file: Path) -> None:
        """Make a guard. The files that it finds first count as the right ones."""
        self._file = str(file)
        self._wal = f"{file}-wal"
        self._known: dict[str, _Identity] = {}
        self._size = 0
        self._wal_size = 0
        self._wal_header: bytes = b""
        self._lost = False
        self._damaged = False

    def check(self) -> None:
        """Raise Unavailable if a file is missing, was replaced or truncated. When the right files are back, they are
        accepted again. Raise DataLoss if damage was found before."""
        # Strings, and no call in between: every transaction comes here twice.
        for path in (self._file, self._wal):
            try:
                found = os.stat(path)
            except FileNotFoundError:
                if path in self._known:
                    raise self._lose(f"{path} was deleted") from None
                continue
            identity = (found.st_dev, found.st_ino)
            if self._known.setdefault(path, identity) != identity:
                raise self._lose(f"{path} was replaced by another file")
            if path == self._file:
                if found.st_size < self._size:
                    raise self._lose(f"{path} was truncated from {self._size} bytes to {found.st_size}")
                self._size = found.st_size
            elif found.st_size != self._wal_size:
                self._check_log(found.st_size)
        self._lost = False
        if self._damaged:
            raise database_damaged()

    def find_damage(self, detail: object) -> None:
        """Take in that SQLite found damage, and raise as `check` does: a file that was lost explains it."""
        if not self._damaged:
            self.check()
            self._damaged = True
            _log.critical(
                "%s is damaged (%s): further writes are refused. Stop this process; then restore a backup and move its"
                " -wal file away, or recover the readable rows (sqlite3 FILE .recover); then start again",
                self._file,
                detail,
            )
        self.check()

    def _check_log(self, size: int) -> None:
        with open(self._wal, "rb", buffering=0) as log:
            header: bytes = log.read(_HEADER)
            if size < self._wal_size:
                sound = size >= LONGEST_KEPT and header != self._wal_header
            else:
                # Truncated in the middle of a transaction, it has grown again over a hole.
                frame = _FRAME_HEADER + int.from_bytes(header[8:12])
                last = _HEADER + ((self._wal_size - _HEADER) // frame - 1) * frame
                log.seek(max(last, 0))
                sound = last < _HEADER or any(log.read(4))
        if not sound:
            raise self._lose(f"{self._wal} was truncated from {self._wal_size} bytes")
        self._wal_size, self._wal_header = size, header

    def _lose(self, what: str) -> Unavailable:
        if not self._lost:
            self._lost = True
            _log.critical(
                "%s while it was in use: further writes are refused. Stop this process, restore the right file (a"
                " backup, with its -wal file if there is one), and start again",
                what,
            )
        return database_down(what)
