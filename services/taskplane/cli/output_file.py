"""Files that commands write, whole or not at all."""

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from errno import ELOOP
from pathlib import Path
from stat import S_IMODE
from typing import BinaryIO, Final

from taskplane.runtime.errors import Invalid

# The number of links in a row that Linux follows.
_LINKS: Final = 40


@contextmanager
def opened(file: Path) -> Generator[BinaryIO]:
    """Open `file` for writing. A regular file, or a new one, is replaced when everything is written, and unchanged if
    that fails; links to it stay links. Anything else is written directly."""
    place = _followed(file)
    if place is None or (place.exists() and not place.is_file()):
        with file.open("wb") as target:
            yield target
        return
    part = place.with_name(f".taskplane-{secrets.token_hex(8)}.part")
    with part.open("xb") as target:
        try:
            yield target
            target.flush()
            os.fsync(target.fileno())
            if place.exists():
                part.chmod(S_IMODE(place.stat().st_mode))
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)


def _followed(file: Path) -> Path | None:
    """Return the target of links; None for a file descriptor of a process, which has no other reliable name."""
    for _ in range(_LINKS):
        if not file.is_symlink():
            return file
        if file.parent.resolve().is_relative_to("/proc"):
            return None
        file = file.parent / file.readlink()
    raise OSError(ELOOP, os.strerror(ELOOP), str(file))


def unusable(file: Path, error: OSError) -> Invalid:
    """Return the error that a file cannot be read or written."""
    return Invalid(f"{file} cannot be used: {error.strerror or error}", reason="BAD_FILE")
