"""`taskplane session export` and `import`: a session as a file."""

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager, nullcontext
from errno import ELOOP
from pathlib import Path
from stat import S_IMODE
from typing import BinaryIO, Final

from taskplane.cli import exits
from taskplane.cli.client.failures import Declined, Unreachable
from taskplane.cli.connection import Connection, run
from taskplane.cli.options import Options
from taskplane.cli.render import print_json
from taskplane.cli.report import note, report_error
from taskplane.cli.session import show_row
from taskplane.runtime.errors import Invalid

_PIECE: Final = 256 * 1024
# The number of links in a row that Linux follows.
_LINKS: Final = 40
# The beginning of the last line; a file without it is incomplete.
_LAST: Final = b'{"entries":'


def export_session(options: Options, session_id: str, file: Path | None) -> int:
    """Write a session to a file. A regular file appears when it is complete, and not before; pipes and devices are
    written as the data arrives, and stay what they are."""

    async def main(connection: Connection) -> int:
        async with connection.sessions.export(session_id) as pieces:
            if file is None:
                await _write(pieces, sys.stdout.buffer)
                return exits.OK
            try:
                with opened(file) as target:
                    await _write(pieces, target)
            except OSError as error:
                return report_error(_unusable(file, error), options.output)
        note(f"Session {session_id} was written to {file}.")
        return exits.OK

    return run(options, main)


def import_session(options: Options, file: Path, new_id: str) -> int:
    """Create the session of an exported file, and show it."""

    async def main(connection: Connection) -> int:
        try:
            with nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as source:
                made = await connection.sessions.import_file(_pieces(source), new_id)
        except OSError as error:
            return report_error(_unusable(file, error), options.output)
        except Declined as refusal:
            if refusal.code == "SESSION_EXISTS":
                refusal.suggestion = "Name another id with --id."
            raise
        if options.output == "text":
            show_row(options, made["session"])
            note(f"  {made['entries']} entries, {made['tasks']} tasks, {made['events']} events")
        else:
            print_json(made, options.output)
        return exits.OK

    return run(options, main)


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
    """Return the target of links; None for a file that a process has open, which has no other reliable name."""
    for _ in range(_LINKS):
        if not file.is_symlink():
            return file
        if file.parent.resolve().is_relative_to("/proc"):
            return None
        file = file.parent / file.readlink()
    raise OSError(ELOOP, os.strerror(ELOOP), str(file))


async def _write(pieces: AsyncIterator[bytes], target: BinaryIO) -> None:
    """Write all pieces. Raise `Unreachable` if the export is incomplete."""
    last = b""
    async for piece in pieces:
        target.write(piece)
        last = (last + piece)[-1024:]
    target.flush()
    if not last.endswith(b"\n") or not last.rstrip(b"\n").rpartition(b"\n")[2].startswith(_LAST):
        raise Unreachable("The server stopped before the end.", code="EXPORT_CUT", suggestion="Export it again.")


async def _pieces(source: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(source.read, _PIECE):
        yield piece


def _unusable(file: Path, error: OSError) -> Invalid:
    return Invalid(f"{file} cannot be used: {error.strerror or error}", reason="BAD_FILE")
