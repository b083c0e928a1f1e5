"""How far a write-ahead log has grown, read from its file, since SQLite tells only who checkpoints.

The format is that of "Database File Format", section 4, in SQLite's documentation. No locks are taken on this file, so
that closing it here takes none away from SQLite, as it would with the database or its shared memory.
"""

import os
from pathlib import Path
from typing import Final

_HEADER: Final = 32
_FRAME_HEADER: Final = 24
_PAGE_SIZE: Final = slice(8, 12)
# Drawn anew whenever the log begins again at its start; frames with others are left from before.
_SALTS: Final = slice(16, 24)
_SALTS_IN_FRAME: Final = 8


class WriteAheadLog:
    """The log of the database in `file`."""

    def __init__(self, file: Path, pages: int) -> None:
        """`pages`: growth that matters."""
        self.path = f"{file}-wal"
        self._pages = pages
        self._descriptor: int | None = None
        self._salts = b""
        self._checkpointed = 0

    def grown(self) -> bool:
        """Whether that many pages were added since it began, or since the last checkpoint if that was later."""
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return False
        header = os.pread(self._descriptor, _HEADER, 0)
        if len(header) < _HEADER:
            return False
        salts = header[_SALTS]
        if salts != self._salts:
            self._salts, self._checkpointed = salts, 0
        frame = _FRAME_HEADER + int.from_bytes(header[_PAGE_SIZE])
        last = _HEADER + (self._checkpointed + self._pages - 1) * frame
        return os.pread(self._descriptor, len(salts), last + _SALTS_IN_FRAME) == salts

    def checkpointed(self, frames: int | None) -> None:
        """A checkpoint has found so many frames in it; None: it could not be made, and is tried again later."""
        self._checkpointed = self._checkpointed + self._pages if frames is None else frames

    def close(self) -> None:
        """Closes the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
